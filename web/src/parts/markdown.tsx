/** Markdown as nodes: headings, lists, tables, code, quotes, links, pictures. HTML stays text. */
import type { ComponentChildren } from "preact";
import { href } from "../router";

const INLINE = /(`+)(.+?)\1(?!`)|!\[([^\]]*)\]\(([^)\s]+)\)|\[([^\]]+)\]\(([^)\s]+)\)|\*\*(.+?)\*\*|\*([^*\s](?:[^*]*[^*\s])?)\*/g;

/** Where a link of a page leads; nothing where it leads nowhere safe. */
export function resolved(page: string, target: string): string | null {
  if (/^https?:\/\//.test(target)) return target;
  if (/^[a-z][a-z0-9+.-]*:/i.test(target)) return null;
  const [path = "", anchor = ""] = target.split("#", 2);
  const parts = path === "" ? page.split("/") : [...page.split("/").slice(0, -1), ...path.split("/")];
  const found: string[] = [];
  for (const part of parts) {
    if (part === "..") {
      if (found.length === 0) return null;
      found.pop();
    } else if (part !== "." && part !== "") found.push(part);
  }
  const name = found.join("/");
  if (!name.endsWith(".md")) return null;
  return href(["help", name], { at: anchor || null });
}

function pictureOf(target: string): string | null {
  const name = target.split("/").pop() ?? "";
  return /^[\w-]+\.png$/.test(name) ? `/api/help/pictures/${name}` : null;
}

function inline(text: string, page: string): ComponentChildren[] {
  const parts: ComponentChildren[] = [];
  let end = 0;
  for (const match of text.matchAll(INLINE)) {
    if (match.index > end) parts.push(text.slice(end, match.index));
    parts.push(marked(match, page));
    end = match.index + match[0].length;
  }
  parts.push(text.slice(end));
  return parts;
}

function marked(match: RegExpMatchArray, page: string): ComponentChildren {
  const [whole, , code, alt, picture, label, target, strong, soft] = match;
  if (code !== undefined) return <code>{code}</code>;
  if (picture !== undefined) {
    const source = pictureOf(picture);
    return source === null ? alt : <img src={source} alt={alt ?? ""} loading="lazy" />;
  }
  if (target !== undefined && label !== undefined) {
    const to = resolved(page, target);
    if (to === null) return <span>{inline(label, page)}</span>;
    const isOutside = !to.startsWith("#");
    return (
      <a href={to} rel={isOutside ? "noopener noreferrer" : undefined} target={isOutside ? "_blank" : undefined}>
        {inline(label, page)}
      </a>
    );
  }
  if (strong !== undefined) return <strong>{inline(strong, page)}</strong>;
  if (soft !== undefined) return <em>{inline(soft, page)}</em>;
  return whole;
}

export function anchorOf(text: string): string {
  return text.toLowerCase().replace(/[`*]/g, "").replace(/[^\p{L}\p{N}\s-]/gu, "").trim().replace(/\s+/g, "-");
}

interface Source {
  lines: string[];
  at: number;
}

function taken(source: Source, fits: (line: string) => boolean): string[] {
  const found: string[] = [];
  while (source.at < source.lines.length && fits(source.lines[source.at]!)) {
    found.push(source.lines[source.at++]!);
  }
  return found;
}

const BULLET = /^(\s*)(?:[-*]|\d+[.)])\s+(.*)$/;

function block(source: Source, page: string): ComponentChildren {
  const line = source.lines[source.at]!;
  const fence = /^\s*(```+|~~~+)(.*)$/.exec(line);
  if (fence) {
    source.at++;
    const code = taken(source, (each) => !each.trim().startsWith(fence[1]!));
    source.at++;
    return (
      <pre class="code" tabIndex={0}>
        <code>{code.join("\n")}</code>
      </pre>
    );
  }
  const heading = /^(#{1,6})\s+(.*)$/.exec(line);
  if (heading) {
    source.at++;
    const Tag = `h${heading[1]!.length}` as "h1";
    return <Tag id={anchorOf(heading[2]!)}>{inline(heading[2]!, page)}</Tag>;
  }
  if (line.startsWith("|")) return table(taken(source, (each) => each.startsWith("|")), page);
  if (line.startsWith(">")) {
    const inner = taken(source, (each) => each.startsWith(">")).map((each) => each.replace(/^>\s?/, ""));
    return <blockquote>{blocks(inner, page)}</blockquote>;
  }
  if (/^(?: {4}|\t)/.test(line)) {
    const code = taken(source, (each) => /^(?: {4}|\t)/.test(each) || each.trim() === "");
    return (
      <pre class="code" tabIndex={0}>
        <code>{code.map((each) => each.replace(/^(?: {4}|\t)/, "")).join("\n").trimEnd()}</code>
      </pre>
    );
  }
  if (/^(?:-{3,}|\*{3,})\s*$/.test(line)) {
    source.at++;
    return <hr />;
  }
  if (/^<!--/.test(line)) {
    while (source.at < source.lines.length && !source.lines[source.at]!.includes("-->")) source.at++;
    source.at++;
    return null;
  }
  if (BULLET.test(line)) return list(source, page);
  const text = taken(source, (each) => each.trim() !== "" && !/^(?:#{1,6}\s|```|\||>)/.test(each) && !BULLET.test(each));
  if (text.length === 0) {
    // A line that looks like the start of something and is none.
    return <p>{inline(source.lines[source.at++]!, page)}</p>;
  }
  return <p>{inline(text.join(" "), page)}</p>;
}

function list(source: Source, page: string): ComponentChildren {
  const isNumbered = /^\s*\d/.test(source.lines[source.at]!);
  const indent = BULLET.exec(source.lines[source.at]!)![1]!.length;
  const items: string[][] = [];
  while (source.at < source.lines.length) {
    const line = source.lines[source.at]!;
    const bullet = BULLET.exec(line);
    if (bullet && bullet[1]!.length <= indent + 1) items.push([bullet[2]!]);
    else if (items.length > 0 && (/^\s+\S/.test(line) || (line.trim() === "" && /^\s+\S/.test(source.lines[source.at + 1] ?? "")))) {
      items[items.length - 1]!.push(line.replace(new RegExp(`^\\s{0,${indent + 2}}`), ""));
    } else break;
    source.at++;
  }
  const nodes = items.map((item, index) => <li key={index}>{item.length === 1 ? inline(item[0]!, page) : loose(item, page)}</li>);
  return isNumbered ? <ol>{nodes}</ol> : <ul>{nodes}</ul>;
}

function loose(lines: string[], page: string): ComponentChildren {
  const found = blocks(lines, page);
  return found.length === 1 && lines.every((line) => line.trim() !== "") && !lines.some((line) => BULLET.test(line))
    ? inline(lines.join(" "), page)
    : found;
}

function cells(line: string): string[] {
  return line.replace(/^\||\|\s*$/g, "").split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
}

function table(lines: string[], page: string): ComponentChildren {
  const [head = "", , ...rows] = lines;
  return (
    <div class="scroll" tabIndex={0} role="group" aria-label="table">
      <table class="plain">
        <thead>
          <tr>{cells(head).map((cell, index) => <th key={index} scope="col">{inline(cell, page)}</th>)}</tr>
        </thead>
        <tbody>
          {rows.map((row, index) => (
            <tr key={index}>{cells(row).map((cell, column) => <td key={column}>{inline(cell, page)}</td>)}</tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function blocks(lines: string[], page: string): ComponentChildren[] {
  const source = { lines, at: 0 };
  const found: ComponentChildren[] = [];
  while (source.at < lines.length) {
    if (lines[source.at]!.trim() === "") source.at++;
    else found.push(block(source, page));
  }
  return found;
}

export function Markdown({ text, page }: { text: string; page: string }) {
  return <article class="prose">{blocks(text.split("\n"), page)}</article>;
}
