/** Turns as rows that can be opened, by mouse or keyboard. */
import { count, milliseconds, usd } from "../format";
import { go, href } from "../router";
import type { TurnRow } from "../types";
import { Badge, Gate, Model, StateBadge, Time } from "./bits";
import { slotShort } from "./chain";

export function TurnsTable({ turns, hidesSession = false }: { turns: TurnRow[]; hidesSession?: boolean }) {
  const opened = (turn: TurnRow) => (event: KeyboardEvent) => {
    if (event.key === "Enter" && event.target === event.currentTarget) go(["turns", turn.turn_id]);
  };
  return (
    <div class="scroll">
      <table class="rows turns-table">
        <thead>
          <tr>
            <th scope="col">time</th>
            <th scope="col">model</th>
            <th scope="col">chosen by</th>
            {!hidesSession && <th scope="col" class="wide-only">session</th>}
            <th scope="col" class="number wide-only">tokens</th>
            <th scope="col" class="number wide-only">took</th>
            <th scope="col" class="number">cost</th>
            <th scope="col">state</th>
          </tr>
        </thead>
        <tbody>
          {turns.map((turn) => (
            <tr
              key={turn.decision_id}
              data-row
              tabIndex={0}
              onKeyDown={opened(turn)}
              onClick={() => go(["turns", turn.turn_id])}
            >
              <td>
                <a href={href(["turns", turn.turn_id])} tabIndex={-1}>
                  <Time at={turn.at} />
                </a>
              </td>
              <td>
                <Model name={turn.chosen_model} />
                {turn.served_model !== turn.chosen_model && turn.served_model !== "" && (
                  <span class="then">
                    <span aria-label="then">→</span> <Model name={turn.served_model} />
                  </span>
                )}
              </td>
              <td class="by">
                <span title={turn.rule_name ?? undefined}>
                  {turn.rule_name ? `“${turn.rule_name}”` : slotShort(turn.policy) || "–"}
                </span>
                {turn.rejected > 0 && (
                  <span class="dim" title="slots whose candidate was rejected"> · {turn.rejected} rejected</span>
                )}
              </td>
              {!hidesSession && (
                <td class="wide-only session">
                  <span class="mono dim" title={turn.session_id}>{turn.session_id || "–"}</span>
                  {turn.is_worker && <Badge tone="quiet">worker</Badge>}
                </td>
              )}
              <td class="number wide-only">
                {turn.input_tokens + turn.output_tokens > 0 && (
                  <span title="input and output">
                    {count(turn.input_tokens)} + {count(turn.output_tokens)}
                  </span>
                )}
              </td>
              <td class="number wide-only">{milliseconds(turn.elapsed_ms)}</td>
              <td class="number">{turn.calls > 0 ? usd(turn.cost_microusd) : ""}</td>
              <td class="state">
                <StateBadge state={turn.state} title={turn.error_class || undefined} />
                {turn.placement && turn.placement.gate !== "open" && <Gate placed={turn.placement} />}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
