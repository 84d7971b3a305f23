import { useLoad } from "../api";
import { Behind, Card, Trouble } from "../parts/bits";
import { Outages } from "../parts/outages";
import { CutNote, PerformanceTable } from "../parts/performance";
import { RangePicker, rangeOf } from "../parts/range";
import { TurnsTable } from "../parts/turns-table";
import { href, type Route } from "../router";
import type { Performance, Providers as Found, Turns } from "../types";

export function Providers({ route }: { route: Route }) {
  const range = rangeOf(route, "24h");
  const found = useLoad<Found>("/api/providers", 5000);
  const performance = useLoad<Performance>(`/api/performance?${range.query}`, 30_000);
  const failed = useLoad<Turns>("/api/turns?state=failed&limit=10", 15_000);
  const taken = useLoad<Turns>("/api/turns?state=fallback&limit=10", 15_000);
  return (
    <>
      <div class="row"><span /><RangePicker route={route} range={range} /></div>
      {found.failure && <Trouble failure={found.failure} />}
      <Card title="Health" side={<span class="dim">as all processes of the home see it</span>}>
        {found.value && <Outages providers={found.value} changed={found.again} isWhole />}
      </Card>
      {performance.failure && <Trouble failure={performance.failure} />}
      {performance.value && (
        <>
          <Behind entries={performance.value.behind} />
          <CutNote found={performance.value} />
          <Card title="By provider" side={<span class="dim">{range.label}</span>}>
            <PerformanceTable rows={performance.value.by_provider} what="provider" />
          </Card>
          <Card title="By model" side={<span class="dim">{range.label}</span>}>
            <PerformanceTable rows={performance.value.by_model} what="model" />
          </Card>
        </>
      )}
      <Card class="flush" title="Failed lately" side={<a href={href(["turns"], { state: "failed" })}>all</a>}>
        {failed.value && failed.value.turns.length === 0 && <p class="dim pad">No turn failed.</p>}
        {failed.value && failed.value.turns.length > 0 && <TurnsTable turns={failed.value.turns} />}
      </Card>
      <Card class="flush" title="Taken over by another model lately" side={<a href={href(["turns"], { state: "fallback" })}>all</a>}>
        {taken.value && taken.value.turns.length === 0 && <p class="dim pad">No turn was taken over.</p>}
        {taken.value && taken.value.turns.length > 0 && <TurnsTable turns={taken.value.turns} />}
      </Card>
    </>
  );
}
