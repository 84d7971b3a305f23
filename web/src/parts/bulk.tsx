import { useLoad } from "../api";
import { count, counted } from "../format";
import type { Bulk, BulkJob } from "../types";
import { Badge, Bar, Card, Empty, Time, Trouble } from "./bits";

const MOST = 10;

function State({ job }: { job: BulkJob }) {
  if (job.state === "running") return <Badge tone="accent">running</Badge>;
  if (job.state === "done" && job.is_clean !== false) return <Badge tone="clear">done</Badge>;
  return <Badge tone="danger">{job.state === "done" ? "faults" : job.state}</Badge>;
}

function Row({ job }: { job: BulkJob }) {
  return (
    <tr>
      <td>{job.kind}</td>
      <td><State job={job} /></td>
      <td><Time at={job.begun_at} /></td>
      <td>
        <div class="signed">
          <Bar part={job.entries_done} whole={job.entries} />
          <span>{count(job.entries_done)} of {counted(job.entries, "entry", "entries")}</span>
        </div>
      </td>
      <td class="number">{job.entries_a_second === null ? "" : count(job.entries_a_second)}</td>
      <td>
        {job.told}
        {job.troubled > 0 && <span class="danger"> {counted(job.troubled, "range")} in trouble</span>}
      </td>
    </tr>
  );
}

/** Work over many decisions: begun on the command line, told here. */
export function BulkJobs() {
  const found = useLoad<Bulk>("/api/bulk", 5_000);
  const jobs = found.value?.jobs ?? [];
  return (
    <Card title="Bulk jobs" side={<span class="dim">replay, backtest, verify, export, rescore</span>}>
      {found.failure && <Trouble failure={found.failure} />}
      {found.value && jobs.length === 0 && (
        <Empty title="No bulk work yet" command="pointsman bulk start replay">It goes on where it was interrupted.</Empty>
      )}
      {jobs.length > 0 && (
        <div class="scroll">
          <table class="plain">
            <thead>
              <tr>
                <th scope="col">work</th><th scope="col">state</th><th scope="col">begun</th><th scope="col">done</th>
                <th scope="col" class="number">entries a second</th><th scope="col">what came of it</th>
              </tr>
            </thead>
            <tbody>{jobs.slice(0, MOST).map((job) => <Row key={job.id} job={job} />)}</tbody>
          </table>
        </div>
      )}
    </Card>
  );
}
