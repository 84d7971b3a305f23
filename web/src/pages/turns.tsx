import { useEffect, useRef, useState } from "preact/hooks";
import { useLoad } from "../api";
import { moveRow, useKeys } from "../keys";
import { Behind, Card, Empty, Trouble } from "../parts/bits";
import { TurnsTable } from "../parts/turns-table";
import { amend, type Route } from "../router";
import type { Filters, Turns as Found } from "../types";
import { slotName } from "../parts/chain";
import { CURL } from "./now";

const NAMES = ["model", "policy", "rule", "session", "workspace", "state", "min_cost_usd", "text", "digest"] as const;
type Name = (typeof NAMES)[number];
const STATES = ["open", "done", "fallback", "failed", "refused", "preview"];
const LIMIT = 100;

function filtersOf(route: Route): Record<Name, string> {
  return Object.fromEntries(NAMES.map((name) => [name, route.query.get(name) ?? ""])) as Record<Name, string>;
}

function Choice({ name, label, value, values, onChange }: {
  name: string;
  label: string;
  value: string;
  values: [value: string, label: string][];
  onChange: (value: string) => void;
}) {
  const known = values.some(([each]) => each === value) || value === "" ? values : [[value, value] as [string, string], ...values];
  return (
    <label class="field">
      <span>{label}</span>
      <select name={name} value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        <option value="">any</option>
        {known.map(([each, said]) => (
          <option key={each} value={each}>{said}</option>
        ))}
      </select>
    </label>
  );
}

/** A text field that tells what was typed once the typing stops. */
function Typed({ name, label, value, hint, onChange }: {
  name: string;
  label: string;
  value: string;
  hint: string;
  onChange: (value: string) => void;
}) {
  const timer = useRef(0);
  return (
    <label class="field">
      <span>{label}</span>
      <input
        name={name}
        defaultValue={value}
        key={value}
        placeholder={hint}
        onInput={(event) => {
          const typed = event.currentTarget.value;
          clearTimeout(timer.current);
          timer.current = window.setTimeout(() => onChange(typed), 450);
        }}
      />
    </label>
  );
}

export function Turns({ route }: { route: Route }) {
  const filters = filtersOf(route);
  const [pages, setPages] = useState<string[]>([]);
  const query = new URLSearchParams({ limit: String(LIMIT) });
  for (const name of NAMES) if (filters[name]) query.set(name, filters[name]);
  const plain = query.toString();
  const cursor = pages[pages.length - 1];
  const path = `/api/turns?${plain}${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ""}`;
  const found = useLoad<Found>(path);
  const values = useLoad<Filters>("/api/filters");
  useEffect(() => setPages([]), [plain]);
  useEffect(() => {
    if (!found.value || found.value.behind === 0) return undefined;
    const timer = setTimeout(found.again, 200);
    return () => clearTimeout(timer);
  }, [found.value]);
  const choose = (name: Name, value: string): void =>
    amend(["turns"], { ...filters, [name]: value.trim() || null });
  const older = (): void => {
    if (found.value?.next) setPages([...pages, found.value.next]);
  };
  const newer = (): void => setPages(pages.slice(0, -1));
  useKeys({
    "/": () => document.querySelector<HTMLElement>(".filters select, .filters input")?.focus(),
    j: () => moveRow(1),
    k: () => moveRow(-1),
    "]": older,
    "[": newer,
  });
  const of = (what: string): [string, string][] =>
    (values.value?.values ?? [])
      .filter((each) => each.what === what)
      .map((each) => [each.value, `${what === "policy" ? slotName(each.value) : each.value} (${each.turns.toLocaleString("en-US")})`]);
  const isFiltered = NAMES.some((name) => filters[name] !== "");
  return (
    <>
      <details class="filter-box" open={innerWidth > 736 || isFiltered}>
      <summary>Filters</summary>
      <form class="filters" role="search" aria-label="filter turns" onSubmit={(event) => event.preventDefault()}>
        <Choice name="model" label="model" value={filters.model} values={of("model")} onChange={(v) => choose("model", v)} />
        <Choice name="policy" label="chosen by" value={filters.policy} values={of("policy")} onChange={(v) => choose("policy", v)} />
        <Choice name="rule" label="rule" value={filters.rule} values={of("rule")} onChange={(v) => choose("rule", v)} />
        <Choice name="state" label="state" value={filters.state} values={STATES.map((each) => [each, each])} onChange={(v) => choose("state", v)} />
        <Choice name="workspace" label="workspace" value={filters.workspace} values={of("workspace")} onChange={(v) => choose("workspace", v)} />
        <Typed name="session" label="session" value={filters.session} hint="whole name" onChange={(v) => choose("session", v)} />
        <Typed name="min_cost_usd" label="cost at least" value={filters.min_cost_usd} hint="0.05" onChange={(v) => choose("min_cost_usd", v)} />
        <Typed name="text" label="message is exactly" value={filters.text} hint="found by its digest" onChange={(v) => choose("text", v)} />
        {isFiltered && (
          <button type="button" class="quiet" onClick={() => amend(["turns"], {})}>Clear</button>
        )}
      </form>
      </details>
      {filters.digest && <p class="note">turns whose message has the digest <span class="mono">{filters.digest}</span></p>}
      {found.failure && <Trouble failure={found.failure} />}
      {found.value && <Behind entries={found.value.behind} />}
      {found.value && (
        <Card class="flush">
          {found.value.turns.length === 0 ? (
            isFiltered ? (
              <Empty title="No turn is like that">Take a filter off to see more.</Empty>
            ) : (
              <Empty title="No turn was decided yet" command={CURL}>
                Send one through the gateway, or decide one without calling a model.
              </Empty>
            )
          ) : (
            <TurnsTable turns={found.value.turns} />
          )}
          <nav class="pager" aria-label="pages of turns">
            <button type="button" disabled={pages.length === 0} onClick={newer}>Newer</button>
            <span class="dim" role="status">
              {found.value.turns.length > 0 && `page ${pages.length + 1} · ${found.value.turns.length} turns`}
            </span>
            <button type="button" disabled={!found.value.next} onClick={older}>Older</button>
          </nav>
        </Card>
      )}
    </>
  );
}
