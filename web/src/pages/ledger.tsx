import { useState } from "preact/hooks";
import { ask, Failure, send, useLoad } from "../api";
import { bytes, count, counted } from "../format";
import { Badge, Bar, Card, Empty, Model, Stat, Time, Trouble, Waiting } from "../parts/bits";
import { BulkJobs } from "../parts/bulk";
import { href } from "../router";
import type { Egress, Ledger as Found, Me, Verified } from "../types";

function Verify() {
  const [state, setState] = useState<Verified | Failure | "running" | null>(null);
  const run = (): void => {
    setState("running");
    ask<Verified>("POST", "/api/verify").then(setState, setState);
  };
  const isDone = state !== null && state !== "running" && !(state instanceof Failure);
  return (
    <Card title="Verify" side={<span class="dim">chains, checkpoints, signatures, values</span>}>
      <div class="pad stack">
        <button type="button" class="primary" onClick={run} disabled={state === "running"}>Verify the whole ledger</button>
        {state === "running" && <Waiting what="verifying" />}
        {state instanceof Failure && <Trouble failure={state} />}
        {isDone && (
          <div aria-live="polite">
            <p>
              <Badge tone={state.intact ? "clear" : "danger"}>{state.intact ? "intact" : "broken"}</Badge>{" "}
              {counted(state.entries, "entry", "entries")} verified
            </p>
            <ul class="problems">
              {state.faults.map((fault, index) => (
                <li key={index} class="danger">
                  <span class="mono">{fault.code}</span> {fault.chain && <span class="mono dim">{fault.chain} {fault.seq ?? ""}</span>} {fault.message}
                </li>
              ))}
            </ul>
          </div>
        )}
      </div>
    </Card>
  );
}

function Export({ me }: { me: Me }) {
  const [state, setState] = useState<string | Failure | null>(null);
  const run = async (): Promise<void> => {
    setState("making the bundle");
    try {
      const answer = await send("POST", "/api/export");
      const signer = answer.headers.get("x-pointsman-signed-by") ?? "";
      const entries = Number(answer.headers.get("x-pointsman-entries") ?? 0);
      const url = URL.createObjectURL(await answer.blob());
      const link = document.createElement("a");
      link.href = url;
      link.download = "pointsman-ledger.jsonl";
      link.click();
      URL.revokeObjectURL(url);
      setState(`${counted(entries, "entry", "entries")}, signed by ${signer}`);
    } catch (error) {
      setState(error instanceof Failure ? error : new Failure(0, "", String(error), ""));
    }
  };
  return (
    <Card title="Export" side={<span class="dim">a signed bundle for another machine</span>}>
      <div class="pad stack">
        {me.is_admin ? (
          <button type="button" onClick={() => void run()}>Download the bundle</button>
        ) : (
          <p class="dim"><a href={href(["login"])}>Log in</a> as an admin to export.</p>
        )}
        {typeof state === "string" && <p role="status">{state}</p>}
        {state instanceof Failure && <Trouble failure={state} />}
        <p class="dim">Check it where nothing of this product is: <code>python offline_verifier.py pointsman-ledger.jsonl</code></p>
      </div>
    </Card>
  );
}

const SPANS: [label: string, hours: number][] = [
  ["last hour", 1],
  ["last day", 24],
  ["last 30 days", 720],
  ["ever", 0],
];

function EgressCard() {
  const [hours, setHours] = useState(24);
  const [found, setFound] = useState<Egress | Failure | "running" | null>(null);
  const run = (): void => {
    setFound("running");
    const since = hours === 0 ? "" : `?since=${encodeURIComponent(new Date(Date.now() - hours * 3_600_000).toISOString())}`;
    ask<Egress>("GET", `/api/audit/egress${since}`).then(setFound, setFound);
  };
  const isDone = found !== null && found !== "running" && !(found instanceof Failure);
  return (
    <Card title="What left this machine" side={<span class="dim">egress audit, with the ledger verified</span>}>
      <div class="pad stack">
        <div class="row">
          <label class="field">
            <span>since</span>
            <select value={String(hours)} onChange={(event) => setHours(Number(event.currentTarget.value))}>
              {SPANS.map(([label, value]) => <option key={value} value={String(value)}>{label}</option>)}
            </select>
          </label>
          <button type="button" onClick={run} disabled={found === "running"}>Audit</button>
        </div>
        {found === "running" && <Waiting what="reading and verifying" />}
        {found instanceof Failure && <Trouble failure={found} />}
        {isDone && (
          <div aria-live="polite">
            <p>
              <Badge tone={found.proved ? "clear" : "danger"}>{found.proved ? "proved" : "not proved"}</Badge>{" "}
              <Badge tone={found.violations.length === 0 ? "clear" : "danger"}>{counted(found.violations.length, "violation")}</Badge>{" "}
              {count(found.left)} of {counted(found.turns, "turn")} left this machine, in{" "}
              {counted(found.departures, "departure")}
              {found.fault && <span> · <span class="mono">{found.fault.code}</span> {found.fault.message}</span>}
            </p>
            {found.rows.length > 0 && (
              <div class="scroll">
                <table class="plain">
                  <thead>
                    <tr>
                      <th scope="col">time</th><th scope="col">model</th><th scope="col">chosen by</th><th scope="col">placement</th>
                      <th scope="col" class="number">characters</th><th scope="col" class="number">tokens</th><th scope="col">call</th>
                    </tr>
                  </thead>
                  <tbody>
                    {found.rows.slice(0, 200).map((row) => (
                      <tr key={row.decision_id}>
                        <td><a href={href(["turns", row.turn_id])}><Time at={row.at} /></a></td>
                        <td><Model name={row.model} /></td>
                        <td>{row.rule || row.slot.replaceAll("_", " ")}</td>
                        <td class="mono">{row.is_advice ? `advice: ${row.placement_rule}` : row.placement_rule}</td>
                        <td class="number">{count(row.characters)}</td>
                        <td class="number">{count(row.tokens)}</td>
                        <td>{row.calls > 1 ? `${row.call}, ${count(row.calls)} calls` : row.call}</td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              </div>
            )}
          </div>
        )}
      </div>
    </Card>
  );
}

function ChainCard({ chain }: { chain: Found["chains"][number] }) {
  return (
    <Card title={<span class="mono">{chain.name}</span>} side={<span class="dim">last entry <Time at={chain.last_at} /></span>}>
      <div class="pad stack">
        <div class="signed">
          <Bar part={chain.signed} whole={chain.entries} tone={chain.entries - chain.signed > 256 ? "danger" : "clear"} />
          <span>
            {count(chain.signed)} of {counted(chain.entries, "entry", "entries")} under a signed checkpoint
          </span>
        </div>
        {chain.checkpoints_told && <p class="danger">{chain.checkpoints_told}</p>}
        <dl class="pairs tight">
          <dt>ends at</dt><dd class="mono break">{chain.head}</dd>
        </dl>
        <details>
          <summary>{counted(chain.checkpoint_count, "checkpoint")}, the newest first</summary>
          <ul class="checkpoints">
            {chain.checkpoints.map((each) => (
              <li key={each.size}>
                <p><Time at={each.at} /> <strong>{counted(each.size, "entry", "entries")}</strong> <span class="mono dim break">{each.root}</span></p>
                <details><summary>signed note</summary><pre class="screen" tabIndex={0}>{each.note}</pre></details>
              </li>
            ))}
          </ul>
        </details>
        <details>
          <summary>latest entries</summary>
          <div class="scroll">
            <table class="plain">
              <thead><tr><th scope="col" class="number">entry</th><th scope="col">time</th><th scope="col">kind</th><th scope="col">about</th><th scope="col">hash</th></tr></thead>
              <tbody>
                {chain.latest.map((each) => (
                  <tr key={each.seq}>
                    <td class="number">{each.seq}</td>
                    <td><Time at={each.at} /></td>
                    <td class="mono">{each.kind}</td>
                    <td class="mono dim">
                      {each.kind.startsWith("decision.turn") ? <a href={href(["turns", each.ref])}>{each.ref}</a> : each.ref || each.id}
                    </td>
                    <td class="mono dim">{each.hash.slice(0, 16)}…</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </details>
      </div>
    </Card>
  );
}

export function Ledger({ me }: { me: Me }) {
  const found = useLoad<Found>("/api/ledger", 20_000);
  if (found.failure) return <Trouble failure={found.failure} />;
  if (!found.value) return <div class="page-wait" aria-busy="true" />;
  const ledger = found.value;
  const entries = ledger.chains.reduce((sum, each) => sum + each.entries, 0);
  const signed = ledger.chains.reduce((sum, each) => sum + each.signed, 0);
  return (
    <>
      <div class="stats">
        <Stat label="entries" value={count(entries)} note={bytes(ledger.bytes)} />
        <Stat label="signed" value={count(signed)} note="under a checkpoint" />
        <Stat label="chains" value={count(ledger.chains.length)} note={ledger.chains.map((each) => each.name).join(", ")} />
        <Stat
          label="takes entries"
          value={ledger.state.writable ? "yes" : "no"}
          note={ledger.state.cause || "durable before anything acts"}
          tone={ledger.state.writable ? undefined : "danger"}
        />
      </div>
      <div class="columns even">
        <Verify />
        <Export me={me} />
      </div>
      {ledger.chains.length === 0 ? (
        <Card><Empty title="Nothing is recorded yet" command='pointsman route "hello"'>The first decision begins the first chain.</Empty></Card>
      ) : (
        ledger.chains.map((chain) => <ChainCard key={chain.name} chain={chain} />)
      )}
      <BulkJobs />
      <EgressCard />
      <Card title="Identity">
        <dl class="pairs">
          <dt>ledger</dt><dd class="mono break">{ledger.ledger}</dd>
          {ledger.keys.map((key) => [<dt key={`t${key}`}>signing key</dt>, <dd key={key} class="mono break">{key}</dd>])}
        </dl>
      </Card>
    </>
  );
}
