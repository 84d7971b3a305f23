/** A value as a tree of text; the first levels are open, the others are made when they are opened. */
import { useState } from "preact/hooks";
import type { Json } from "../types";

const MOST = 200;

function Scalar({ value }: { value: Json }) {
  if (typeof value === "string") return <span class="json-text">{JSON.stringify(value)}</span>;
  return <span class="json-word">{String(value)}</span>;
}

function isEmpty(value: Json): boolean {
  return value !== null && typeof value === "object" && Object.keys(value).length === 0;
}

function Node({ name, value, depth, open }: { name: string; value: Json; depth: number; open: number }) {
  const [isOpen, setOpen] = useState(depth < open);
  if (value === null || typeof value !== "object" || isEmpty(value)) {
    return (
      <div class="json-line">
        <span class="json-key">{name}</span>{" "}
        {isEmpty(value) ? <span class="dim">{Array.isArray(value) ? "[]" : "{}"}</span> : <Scalar value={value} />}
      </div>
    );
  }
  const entries = Object.entries(value);
  const note = Array.isArray(value) ? `[${entries.length}]` : `{${entries.length}}`;
  return (
    <details class="json-node" open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <span class="json-key">{name}</span> <span class="dim">{note}</span>
      </summary>
      {isOpen && (
        <div class="json-inner">
          {entries.slice(0, MOST).map(([key, inner]) => (
            <Node key={key} name={key} value={inner} depth={depth + 1} open={open} />
          ))}
          {entries.length > MOST && <div class="dim">… {entries.length - MOST} more</div>}
        </div>
      )}
    </details>
  );
}

export function Tree({ value, open = 1 }: { value: { [key: string]: Json }; open?: number }) {
  return (
    <div class="json">
      {Object.entries(value).map(([key, inner]) => (
        <Node key={key} name={key} value={inner} depth={0} open={open - 1} />
      ))}
    </div>
  );
}
