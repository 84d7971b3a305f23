/** A plain editor for YAML: line numbers, faults at their line and column, colours by text nodes. */
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { Problem } from "../types";

export interface EditorHandle {
  goTo: (line: number, column: number) => void;
}

const TOKEN = /(#.*$)|("(?:[^"\\]|\\.)*"|'(?:[^']|'')*')|([\w.-]+(?=\s*:(?:\s|$)))|(?<=[\s:,[{]|^)(true|false|null|\d+(?:\.\d+)?)(?=[\s,\]}]|$)/gm;
const CLASSES = ["", "comment", "string", "key", "word"];

function coloured(line: string): ComponentChildren[] {
  const parts: ComponentChildren[] = [];
  let end = 0;
  for (const match of line.matchAll(TOKEN)) {
    if (match.index > end) parts.push(line.slice(end, match.index));
    const kind = match.slice(1).findIndex((group) => group !== undefined) + 1;
    parts.push(<span class={`y-${CLASSES[kind]}`}>{match[0]}</span>);
    end = match.index + match[0].length;
  }
  parts.push(line.slice(end));
  return parts;
}

export function Editor({ text, label, problems, onText, isReadOnly, handle }: {
  text: string;
  label: string;
  problems: Problem[];
  onText: (text: string) => void;
  isReadOnly?: boolean;
  handle?: { current: EditorHandle | null };
}) {
  const area = useRef<HTMLTextAreaElement>(null);
  const under = useRef<HTMLDivElement>(null);
  const mayLeave = useRef(false);
  const lines = text.split("\n");
  const faulty = new Map(problems.map((each) => [each.line, each]));

  const goTo = (line: number, column: number): void => {
    const box = area.current;
    if (box === null) return;
    const start = lines.slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0);
    const at = start + Math.max(0, column - 1);
    box.focus();
    box.setSelectionRange(at, at);
    box.scrollTop = Math.max(0, (line - 6) * 20);
  };
  if (handle) handle.current = { goTo };

  useEffect(() => {
    if (area.current && area.current.value !== text) area.current.value = text;
  }, [text]);

  const scrolled = (): void => {
    if (area.current && under.current) {
      under.current.style.transform = `translate(${-area.current.scrollLeft}px, ${-area.current.scrollTop}px)`;
    }
  };
  // Tab indents, as in any editor; Escape lets the next Tab leave, for those who use no mouse.
  const pressed = (event: KeyboardEvent): void => {
    const box = event.currentTarget as HTMLTextAreaElement;
    if (event.key === "Escape") mayLeave.current = true;
    else if (event.key === "Tab" && !event.shiftKey && !mayLeave.current && !isReadOnly) {
      event.preventDefault();
      box.setRangeText("  ", box.selectionStart, box.selectionEnd, "end");
      onText(box.value);
    } else if (event.key !== "Tab") mayLeave.current = false;
    event.stopPropagation();
  };

  return (
    <div class="editor">
      <div class="editor-under" aria-hidden="true">
        <div ref={under}>
          {lines.map((line, index) => {
            const fault = faulty.get(index + 1);
            return (
              <div key={index} class={fault ? "line faulty" : "line"}>
                <span class="line-number">{index + 1}</span>
                <span class="line-text">
                  {coloured(line)}
                  {fault && (
                    <span class="squiggle" style={{ left: `${Math.max(0, fault.column - 1)}ch` }} />
                  )}
                </span>
              </div>
            );
          })}
        </div>
      </div>
      <textarea
        ref={area}
        aria-label={label}
        aria-describedby="editor-help"
        spellcheck={false}
        autocomplete="off"
        autocapitalize="off"
        readOnly={isReadOnly}
        defaultValue={text}
        wrap="off"
        onInput={(event) => onText(event.currentTarget.value)}
        onScroll={scrolled}
        onKeyDown={pressed}
      />
      <span id="editor-help" class="unseen">
        Tab indents. Press Escape, then Tab, to leave the editor.
      </span>
    </div>
  );
}
