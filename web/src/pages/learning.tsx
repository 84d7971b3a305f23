import { useLoad } from "../api";
import { count, share, usd } from "../format";
import { Behind, Card, Empty, Model, Stat, Trouble } from "../parts/bits";
import { RangePicker, rangeOf } from "../parts/range";
import { href, type Route } from "../router";
import type { Learning as Found } from "../types";

export function Learning({ route }: { route: Route }) {
  const range = rangeOf(route, "30d");
  const found = useLoad<Found>(`/api/learning?${range.query}`, 30_000);
  const value = found.value;
  return (
    <>
      <div class="row">
        <p class="dim">Turns that no rule sent anywhere, and that similar, judged turns spoke for.</p>
        <RangePicker route={route} range={range} />
      </div>
      {found.failure && <Trouble failure={found.failure} />}
      {value && <Behind entries={value.behind} />}
      {value && (
        <div class="stats">
          <Stat label="learning" value={value.mode} note={value.mode === "off" ? "pattern.mode in routing.yaml" : "pattern.mode"} />
          <Stat label="turns it chose for" value={count(value.turns)} note={`${share(value.turns, value.all_turns)} of ${count(value.all_turns)}`} />
          <Stat
            label="saved, about"
            value={value.saved_microusd === null ? "unknown" : usd(value.saved_microusd)}
            note={value.default_model ? `beside the same tokens at ${value.default_model}` : "there is no default model to compare with"}
            tone={value.saved_microusd !== null && value.saved_microusd > 0 ? "clear" : undefined}
          />
        </div>
      )}
      {value && (
        <Card class="flush" title="By model" side={<a href={href(["turns"], { policy: "pattern" })}>these turns</a>}>
          {value.by_model.length === 0 ? (
            <Empty title="Learning chose for no turn" command="pointsman patterns report">
              <a href={href(["help", "guide/learned-routing.md"])}>How it begins</a>, and how far the estimates can be trusted:
            </Empty>
          ) : (
            <div class="scroll">
              <table class="plain">
                <thead>
                  <tr>
                    <th scope="col">model</th>
                    <th scope="col" class="number">turns</th>
                    <th scope="col" class="number wide-only">failed</th>
                    <th scope="col" class="number">cost</th>
                    <th scope="col" class="number">at the default</th>
                  </tr>
                </thead>
                <tbody>
                  {value.by_model.map((row) => (
                    <tr key={row.model}>
                      <td><a href={href(["turns"], { model: row.model, policy: "pattern" })}><Model name={row.model} /></a></td>
                      <td class="number">{count(row.turns)}</td>
                      <td class="number wide-only">{count(row.failed)}</td>
                      <td class="number">{usd(row.cost_microusd)}</td>
                      <td class="number">{row.default_microusd === null ? "–" : usd(row.default_microusd)}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )}
        </Card>
      )}
    </>
  );
}
