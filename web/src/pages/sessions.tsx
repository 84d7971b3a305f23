import { useState } from "preact/hooks";
import { ask, Failure, useLoad } from "../api";
import { count, counted, usd } from "../format";
import { moveRow, useKeys } from "../keys";
import { Badge, Bar, Behind, Card, Empty, Model, Stat, Time, Trouble } from "../parts/bits";
import { TurnsTable } from "../parts/turns-table";
import { go, href } from "../router";
import type { Session, SessionNode, Sessions as Found, Turns } from "../types";

const CURL = `curl ${location.origin}/v1/chat/completions -H 'x-session-id: mine' -H 'content-type: application/json' -d '{"model": "auto", "messages": [{"role": "user", "content": "hello"}]}'`;

export function Sessions() {
  const found = useLoad<Found>("/api/sessions?limit=200", 20_000);
  useKeys({ j: () => moveRow(1), k: () => moveRow(-1) });
  if (found.failure) return <Trouble failure={found.failure} />;
  if (!found.value) return <div class="page-wait" aria-busy="true" />;
  const rows = found.value.sessions;
  if (rows.length === 0) {
    return (
      <Card class="flush">
        <Empty title="No session yet" command={CURL}>
          Calls that name a session, or begin alike, are gathered here with what they cost.
        </Empty>
      </Card>
    );
  }
  const most = Math.max(...rows.map((each) => Number(each.cost_usd)), 0);
  return (
    <Card class="flush">
      <div class="scroll">
        <table class="rows">
          <thead>
            <tr>
              <th scope="col">session</th>
              <th scope="col">last turn</th>
              <th scope="col">model</th>
              <th scope="col" class="number">turns</th>
              <th scope="col" class="number wide-only">switches</th>
              <th scope="col" class="number">cost</th>
              <th scope="col" class="wide-only"><span class="unseen">share of the highest cost</span></th>
            </tr>
          </thead>
          <tbody>
            {rows.map((each) => (
              <tr
                key={each.session_id}
                data-row
                tabIndex={0}
                onClick={() => go(["sessions", each.session_id])}
                onKeyDown={(event) => event.key === "Enter" && go(["sessions", each.session_id])}
              >
                <td class="session">
                  <a class="mono" href={href(["sessions", each.session_id])} tabIndex={-1}>{each.session_id}</a>
                  {each.taint && <Badge tone="caution" title={each.taint.rule_id}>held here</Badge>}
                  {each.pinned_model && <Badge tone="accent" title={each.pinned_model}>pinned</Badge>}
                </td>
                <td><Time at={each.last_at} /></td>
                <td><Model name={each.model} /></td>
                <td class="number">
                  {count(each.turns)}
                  {each.fallbacks > 0 && <span class="dim"> +{each.fallbacks}</span>}
                </td>
                <td class="number wide-only">{count(each.model_switches)}</td>
                <td class="number">{usd(Number(each.cost_usd) * 1e6)}</td>
                <td class="wide-only bar-cell"><Bar part={Number(each.cost_usd)} whole={most} /></td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="foot dim">over the latest {count(found.value.turns_looked_at)} turns</p>
    </Card>
  );
}

function Node({ node, whole, depth }: { node: SessionNode; whole: number; depth: number }) {
  return (
    <li>
      <div class="tree-row">
        <span class="tree-name">
          <Badge tone={node.is_worker || depth > 0 ? "quiet" : "accent"}>{node.is_worker || depth > 0 ? "worker" : "planner"}</Badge>{" "}
          <a class="mono" href={href(["sessions", node.session_id])}>{node.session_id}</a>
        </span>
        <Bar part={node.cost_with_workers_microusd} whole={whole} />
        <span class="number">
          {usd(node.cost_with_workers_microusd)}
          {node.workers.length > 0 && <span class="dim"> of which own {usd(node.cost_microusd)}</span>}
        </span>
      </div>
      <ul class="tree models">
        {node.models.map((each) => (
          <li key={each.model}>
            <div class="tree-row">
              <span class="tree-name">
                <Model name={each.model} />{" "}
                <span class="dim">
                  {counted(each.turns, "turn")}, {counted(each.calls, "call")}, {count(each.input_tokens)} + {count(each.output_tokens)} tokens
                </span>
              </span>
              <Bar part={each.cost_microusd} whole={whole} tone="quiet" />
              <span class="number">{usd(each.cost_microusd)}</span>
            </div>
          </li>
        ))}
      </ul>
      {node.workers.length > 0 && (
        <ul class="tree">
          {node.workers.map((each) => <Node key={each.session_id} node={each} whole={whole} depth={depth + 1} />)}
        </ul>
      )}
    </li>
  );
}

function Taint({ id, again }: { id: string; again: () => void }) {
  const [reason, setReason] = useState("");
  const [failure, setFailure] = useState<Failure | null>(null);
  const clear = (event: Event): void => {
    event.preventDefault();
    ask("POST", `/api/sessions/${encodeURIComponent(id)}/clear-taint`, { reason }).then(again, setFailure);
  };
  return (
    <form class="inline" onSubmit={clear}>
      <label class="field">
        <span>reason, recorded with your name</span>
        <input value={reason} required maxLength={200} onInput={(event) => setReason(event.currentTarget.value)} />
      </label>
      <button type="submit">Let it leave again</button>
      {failure && <Trouble failure={failure} />}
    </form>
  );
}

export function SessionPage({ id }: { id: string }) {
  const found = useLoad<Session>(`/api/sessions/${encodeURIComponent(id)}`);
  const list = useLoad<Found>("/api/sessions?limit=1000");
  const turns = useLoad<Turns>(`/api/turns?limit=200&session=${encodeURIComponent(id)}`);
  useKeys({ j: () => moveRow(1), k: () => moveRow(-1) });
  if (found.failure) return <Trouble failure={found.failure} />;
  if (!found.value) return <div class="page-wait" aria-busy="true" />;
  const node = found.value.session;
  const row = list.value?.sessions.find((each) => each.session_id === id);
  const unpin = (): void => {
    void ask("DELETE", `/api/sessions/${encodeURIComponent(id)}/pin`).then(list.again, list.again);
  };
  return (
    <>
      <p class="crumbs">
        <a href={href(["sessions"])}>Sessions</a> <span aria-hidden="true">/</span> <span class="mono">{id}</span>
      </p>
      <Behind entries={found.value.behind} />
      <div class="stats">
        <Stat label="turns" value={count(node.turns)} note={`${count(node.calls)} calls`} />
        <Stat label="cost" value={usd(node.cost_with_workers_microusd)} note={node.workers.length > 0 ? "with workers" : "on record"} />
        <Stat label="fallbacks" value={count(node.fallbacks)} tone={node.fallbacks > 0 ? "caution" : undefined} />
        <Stat label="switches" value={count(row?.model_switches ?? 0)} note="of the model" />
      </div>
      {row?.taint && (
        <Card title="Held on this machine" side={<Badge tone="caution">{row.taint.rule_id}</Badge>}>
          <div class="pad">
            <p>
              Since <Time at={row.taint.since} /> nothing of this session may leave:{" "}
              <a href={href(["turns", row.taint.turn_id])}>the turn that brought it here</a>.
            </p>
            <Taint id={id} again={list.again} />
          </div>
        </Card>
      )}
      {row?.pinned_model && (
        <p class="note">
          pinned to <Model name={row.pinned_model} />
          <button type="button" class="small" onClick={unpin}>Unpin</button>
        </p>
      )}
      <Card title="Where the money went" side={found.value.parent ? <a href={href(["sessions", found.value.parent])}>its planner</a> : undefined}>
        <ul class="tree top">
          <Node node={node} whole={Math.max(1, node.cost_with_workers_microusd)} depth={node.is_worker ? 1 : 0} />
        </ul>
        {node.workers.length === 0 && <p class="foot dim">Nothing was delegated.</p>}
      </Card>
      <Card title="Turns" class="flush">
        {turns.value && turns.value.turns.length > 0 ? (
          <TurnsTable turns={turns.value.turns} hidesSession />
        ) : (
          <p class="pad dim">No turn of its own.</p>
        )}
      </Card>
    </>
  );
}
