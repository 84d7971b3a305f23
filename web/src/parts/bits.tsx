/** Small parts that every page is made of. */
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { Failure } from "../api";
import { ago, clock } from "../format";
import { href } from "../router";
import type { Placed, TurnState, Verdict } from "../types";

export type Tone = "clear" | "caution" | "danger" | "quiet" | "accent";

export function Badge({ tone, children, title }: { tone: Tone; children: ComponentChildren; title?: string }) {
  return (
    <span class={`badge ${tone}`} title={title}>
      {children}
    </span>
  );
}

const VERDICTS: Record<Verdict, Tone> = {
  chose: "clear",
  rejected: "danger",
  deferred: "caution",
  not_applicable: "quiet",
};

export function VerdictBadge({ verdict }: { verdict: Verdict }) {
  return <Badge tone={VERDICTS[verdict]}>{verdict.replace("_", " ")}</Badge>;
}

const STATES: Record<TurnState, [Tone, string]> = {
  open: ["quiet", "open"],
  done: ["clear", "done"],
  failed: ["danger", "failed"],
  fallback: ["caution", "fell back"],
  refused: ["danger", "refused"],
  preview: ["quiet", "preview"],
};

export function StateBadge({ state, title }: { state: TurnState; title?: string }) {
  const [tone, text] = STATES[state];
  return (
    <Badge tone={tone} title={title}>
      {text}
    </Badge>
  );
}

export function Gate({ placed }: { placed: Placed | null }) {
  if (placed === null) return null;
  const [tone, text]: [Tone, string] =
    placed.gate === "open"
      ? ["clear", "may leave"]
      : placed.gate === "local"
        ? ["caution", "stays here"]
        : placed.gate === "zone"
          ? ["caution", `within ${(placed.zones ?? []).join(" and ") || "its zones"}`]
        : ["danger", "goes nowhere"];
  return (
    <Badge tone={tone} title={placed.rule_id}>
      {text}
    </Badge>
  );
}

export function Time({ at }: { at: string | null }) {
  if (!at) return <span class="dim">never</span>;
  return (
    <time dateTime={at} title={`${at} · ${ago(at)}`}>
      {clock(at)}
    </time>
  );
}

export function Card(props: {
  title?: ComponentChildren;
  side?: ComponentChildren;
  class?: string;
  children: ComponentChildren;
}) {
  return (
    <section class={`card ${props.class ?? ""}`}>
      {props.title !== undefined && (
        <header class="card-head">
          <h2>{props.title}</h2>
          {props.side}
        </header>
      )}
      {props.children}
    </section>
  );
}

/** Nothing there yet: what it is for, and what to type first. */
export function Empty({ title, children, command }: {
  title: string;
  children?: ComponentChildren;
  command?: string;
}) {
  return (
    <div class="empty">
      <svg width="72" height="40" viewBox="0 0 72 40" fill="none" aria-hidden="true">
        <path class="track" d="M2 32H70" />
        <path class="track branch" d="M18 32C34 32 36 10 56 10H70" />
        <circle class="lever" cx="18" cy="32" r="4" />
      </svg>
      <h3>{title}</h3>
      {children !== undefined && <p>{children}</p>}
      {command !== undefined && <Command text={command} />}
    </div>
  );
}

export function Command({ text }: { text: string }) {
  const [isCopied, setCopied] = useState(false);
  const copy = (): void => {
    void navigator.clipboard?.writeText(text).then(() => {
      setCopied(true);
      setTimeout(() => setCopied(false), 1500);
    });
  };
  return (
    <div class="command">
      <code>{text}</code>
      <button type="button" class="small" onClick={copy} aria-label="copy the command">
        {isCopied ? "copied" : "copy"}
      </button>
    </div>
  );
}

export function Trouble({ failure }: { failure: Failure }) {
  const needsLogin = failure.status === 401 || failure.status === 403;
  return (
    <div class="trouble" role="alert">
      <strong>{failure.message}</strong>
      {failure.hint && <span class="dim"> {failure.hint}</span>}
      {needsLogin && (
        <a class="button small" href={href(["login"])}>
          Log in
        </a>
      )}
    </div>
  );
}

export function Waiting({ what = "loading" }: { what?: string }) {
  return (
    <p class="waiting" role="status">
      <span class="dots" aria-hidden="true" />
      {what}
    </p>
  );
}

/** The list is being made from a long ledger. */
export function Behind({ entries }: { entries: number }) {
  if (entries === 0) return null;
  return (
    <p class="note" role="status">
      <span class="dots" aria-hidden="true" />
      reading the ledger: {entries.toLocaleString("en-US")} entries to go
    </p>
  );
}

export function Bar({ part, whole, tone = "accent", mark }: {
  part: number;
  whole: number;
  tone?: string;
  mark?: number;
}) {
  const percent = whole <= 0 ? 0 : Math.max(0, Math.min(100, (100 * part) / whole));
  return (
    <span class="bar" aria-hidden="true">
      <span class={`fill ${tone}`} style={{ width: `${percent}%` }} />
      {mark !== undefined && <span class="mark" style={{ left: `${Math.min(100, mark * 100)}%` }} />}
    </span>
  );
}

export function Stat({ label, value, note, tone }: {
  label: string;
  value: ComponentChildren;
  note?: ComponentChildren;
  tone?: Tone;
}) {
  return (
    <div class={`stat ${tone ?? ""}`}>
      <span class="label">{label}</span>
      <span class="value">{value}</span>
      {note !== undefined && <span class="dim">{note}</span>}
    </div>
  );
}

export function Mono({ children, title }: { children: ComponentChildren; title?: string }) {
  return (
    <span class="mono" title={title}>
      {children}
    </span>
  );
}

/** A model by its two names, the provider quieter. */
export function Model({ name }: { name: string }) {
  if (!name) return <span class="dim">no model</span>;
  const at = name.indexOf(":");
  if (at < 0) return <span class="model">{name}</span>;
  return (
    <span class="model" title={name}>
      <span class="dim">{name.slice(0, at + 1)}</span>
      {name.slice(at + 1)}
    </span>
  );
}
