import { useLoad } from "../api";
import { count, counted, share, usd } from "../format";
import { Card, Empty, Model, Stat, Trouble } from "../parts/bits";
import { amountsOf } from "../parts/amounts";
import { csv, download } from "../parts/download";
import { RangePicker, rangeOf } from "../parts/range";
import { amend, href, type Route } from "../router";
import type { Cost as Found, Total } from "../types";

const PARTS = ["model", "tenant", "key", "session", "workspace", "day"] as const;
type Part = (typeof PARTS)[number];
const FILTERS = ["tenant", "key", "session"] as const;
const SHOWN = 200;

function dayOf(what: string): string {
  return new Date(Number(what) * 86_400_000).toISOString().slice(0, 10);
}

function rowsOf(found: Found, part: Part): Total[] {
  const rows = [...(found[`by_${part}`] ?? [])];
  if (part === "day") return rows.sort((a, b) => Number(b.what) - Number(a.what));
  return rows.sort((a, b) => amountsOf(b).microusd - amountsOf(a).microusd);
}

function Name({ part, what }: { part: Part; what: string }) {
  if (part === "day") return <span>{dayOf(what)}</span>;
  if (what === "") return <span class="dim">none</span>;
  if (part === "model") return <a href={href(["turns"], { model: what })}><Model name={what} /></a>;
  if (part === "session") return <a class="mono break" href={href(["sessions", what])}>{what}</a>;
  if (part === "tenant" || part === "key") return <a class="mono break" href={href(["cost"], { [part]: what })}>{what}</a>;
  return <a class="mono break" href={href(["turns"], { workspace: what })}>{what}</a>;
}

function save(found: Found, part: Part, label: string): void {
  const head = [part, "cost_usd", "calls", "input_tokens", "output_tokens", "estimated_calls", "unpriced_calls"];
  const rows = rowsOf(found, part).map((row) => {
    const { calls, estimated, unpriced, input, output, microusd } = amountsOf(row);
    const name = part === "day" ? dayOf(row.what) : row.what;
    return [name, (microusd / 1e6).toFixed(6), calls, input, output, estimated, unpriced];
  });
  download(`cost-by-${part} ${label}.csv`, csv([head, ...rows]), "text/csv");
}

export function Cost({ route }: { route: Route }) {
  const range = rangeOf(route, "30d");
  const asked = route.query.get("by") as Part | null;
  const part = asked && PARTS.includes(asked) ? asked : "model";
  const kept = Object.fromEntries(route.query);
  const query = new URLSearchParams(range.query);
  for (const name of FILTERS) if (kept[name]) query.set(name, kept[name]);
  const found = useLoad<Found>(`/api/cost?${query}`);
  const all = found.value?.by_all?.[0];
  const whole = all ? amountsOf(all) : null;
  const rows = found.value ? rowsOf(found.value, part) : [];
  return (
    <>
      <div class="row">
        <nav class="tabs" aria-label="cost by">
          {PARTS.map((each) => (
            <a key={each} href={href(["cost"], { ...kept, by: each })} class={each === part ? "here" : ""} aria-current={each === part ? "page" : undefined}>
              {each}
            </a>
          ))}
        </nav>
        <RangePicker route={route} range={range} />
      </div>
      {FILTERS.filter((name) => kept[name]).map((name) => (
        <p key={name} class="note">
          only {name} <span class="mono">{kept[name]}</span>
          <button type="button" class="small" onClick={() => amend(["cost"], { ...kept, [name]: null })}>show all</button>
        </p>
      ))}
      {found.failure && <Trouble failure={found.failure} />}
      {found.value && !whole && (
        <Card><Empty title="Nothing was spent">No call was charged in this span: {range.label}, in days of UTC.</Empty></Card>
      )}
      {found.value && whole && (
        <>
          <div class="stats">
            <Stat label="spent" value={usd(whole.microusd)} note={`${range.label}, in days of UTC`} />
            <Stat label="calls" value={count(whole.calls)} />
            <Stat label="tokens" value={count(whole.input)} note={`in, ${count(whole.output)} out`} />
            <Stat
              label="not exact"
              value={count(whole.estimated + whole.unpriced)}
              note={`${counted(whole.estimated, "call")} estimated, ${whole.unpriced} without a price`}
              tone={whole.unpriced > 0 ? "caution" : undefined}
            />
          </div>
          <Card
            class="flush"
            title={`By ${part}`}
            side={<button type="button" class="small" onClick={() => save(found.value!, part, range.label)}>Save as CSV</button>}
          >
            <div class="scroll">
              <table class="plain">
                <thead>
                  <tr>
                    <th scope="col">{part}</th>
                    <th scope="col" class="number">cost</th>
                    <th scope="col" class="number">share</th>
                    <th scope="col" class="number">calls</th>
                    <th scope="col" class="number wide-only">tokens in</th>
                    <th scope="col" class="number wide-only">out</th>
                  </tr>
                </thead>
                <tbody>
                  {rows.slice(0, SHOWN).map((row) => {
                    const { calls, input, output, microusd } = amountsOf(row);
                    return (
                      <tr key={row.what}>
                        <td><Name part={part} what={row.what} /></td>
                        <td class="number">{usd(microusd)}</td>
                        <td class="number">{share(microusd, whole.microusd)}</td>
                        <td class="number">{count(calls)}</td>
                        <td class="number wide-only">{count(input)}</td>
                        <td class="number wide-only">{count(output)}</td>
                      </tr>
                    );
                  })}
                </tbody>
              </table>
            </div>
            {rows.length > SHOWN && <p class="foot dim">and {count(rows.length - SHOWN)} more: the CSV holds all</p>}
          </Card>
        </>
      )}
    </>
  );
}
