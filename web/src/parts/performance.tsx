/** How turns went: errors, how long they took, how soon they began; by model or by provider. */
import { count, milliseconds, share, usd } from "../format";
import { href } from "../router";
import type { Performance, PerformanceRow, Percentiles } from "../types";
import { Model } from "./bits";

function Times({ times, label }: { times: Percentiles | null; label: string }) {
  if (times === null) return <td class="number dim">–</td>;
  return (
    <td class="number times" data-label={label} title={`of ${count(times.count)} turns: half, 95 and 99 of a hundred took no longer`}>
      <span>{milliseconds(times.p50_ms)}</span> <span>{milliseconds(times.p95_ms)}</span>{" "}
      <span>{milliseconds(times.p99_ms)}</span>
    </td>
  );
}

export function PerformanceTable({ rows, what }: { rows: PerformanceRow[]; what: "model" | "provider" }) {
  return (
    <div class="scroll">
      <table class="plain performance">
        <thead>
          <tr>
            <th scope="col">{what}</th>
            <th scope="col" class="number">requests</th>
            <th scope="col" class="number">errors</th>
            <th scope="col" class="number">took <span class="dim">p50 · p95 · p99</span></th>
            <th scope="col" class="number">first byte <span class="dim">p50 · p95 · p99</span></th>
            <th scope="col" class="number wide-only">cost</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.name}>
              <td>{what === "model" ? <a href={href(["turns"], { model: row.name })}><Model name={row.name} /></a> : row.name}</td>
              <td class="number" data-label="requests">{count(row.turns)}</td>
              <td class={`number ${row.failed > 0 ? "danger" : ""}`} data-label="errors" title={`${row.failed} failed, ${row.refused} refused, ${row.fallbacks} taken over`}>
                {row.failed > 0 && what === "model" ? (
                  <a class="danger" href={href(["turns"], { model: row.name, state: "failed" })}>{share(row.failed, row.turns)}</a>
                ) : (
                  share(row.failed, row.turns)
                )}
              </td>
              <Times times={row.took} label="took" />
              <Times times={row.first_byte} label="first byte" />
              <td class="number wide-only">{usd(row.cost_microusd)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

export function CutNote({ found }: { found: Performance }) {
  return found.is_cut ? <p class="note">Only the newest {count(found.total.turns)} turns of this span were looked at.</p> : null;
}
