/** A span of time in the address, so that a link shows what its sender saw. */
import { amend, type Route } from "../router";

const SPANS: [name: string, label: string, seconds: number][] = [
  ["1h", "last hour", 3600],
  ["6h", "last 6 hours", 6 * 3600],
  ["24h", "last 24 hours", 24 * 3600],
  ["7d", "last 7 days", 7 * 86_400],
  ["30d", "last 30 days", 30 * 86_400],
  ["90d", "last 90 days", 90 * 86_400],
];

export interface Range {
  name: string;
  label: string;
  /** The query of an API route: from when, and up to when where that is not now. */
  query: string;
}

/** Reads the span; to the minute, so that the same span is the same request. */
export function rangeOf(route: Route, usual: string): Range {
  const name = route.query.get("range") ?? usual;
  const from = route.query.get("from") ?? "";
  const to = route.query.get("to") ?? "";
  if (name === "days" && from) {
    const query = new URLSearchParams({ since: `${from}T00:00:00Z` });
    if (to) query.set("before", new Date(Date.parse(`${to}T00:00:00Z`) + 86_400_000).toISOString());
    return { name, label: to ? `${from} to ${to}` : `since ${from}`, query: query.toString() };
  }
  const [known, label, seconds] = SPANS.find(([each]) => each === name) ?? SPANS.find(([each]) => each === usual)!;
  const minute = Math.floor(Date.now() / 60_000) * 60_000;
  const since = new Date(minute - seconds * 1000).toISOString();
  return { name: known, label, query: new URLSearchParams({ since }).toString() };
}

export function RangePicker({ route, range }: { route: Route; range: Range }) {
  const kept = Object.fromEntries(route.query);
  const today = new Date().toISOString().slice(0, 10);
  const choose = (name: string): void =>
    amend(route.path, name === "days" ? { ...kept, range: name, from: today } : { ...kept, range: name, from: null, to: null });
  const day = (which: "from" | "to") => (event: { currentTarget: HTMLInputElement }): void =>
    amend(route.path, { ...kept, range: "days", [which]: event.currentTarget.value || null });
  return (
    <div class="range">
      <label>
        <span class="unseen">time range</span>
        <select name="range" value={range.name} onChange={(event) => choose(event.currentTarget.value)}>
          {SPANS.map(([name, label]) => <option key={name} value={name}>{label}</option>)}
          <option value="days">days, in UTC</option>
        </select>
      </label>
      {range.name === "days" && (
        <>
          <input type="date" aria-label="from this day" value={kept.from ?? ""} max={kept.to ?? today} onChange={day("from")} />
          <input type="date" aria-label="to this day" value={kept.to ?? ""} min={kept.from ?? ""} onChange={day("to")} />
        </>
      )}
    </div>
  );
}
