import { useState } from "preact/hooks";
import { ask, Failure, useLoad } from "../api";
import { ago, count, counted, words } from "../format";
import { Badge, Bar, Card, Empty, Time, Trouble, type Tone } from "../parts/bits";
import { GraphView } from "../parts/graph";
import { Tree } from "../parts/json";
import { href, type Route } from "../router";
import type { Json, Me } from "../types";

interface Module {
  node_id: string;
  type: string;
  display_name: string;
  version: string;
  status: string;
  status_reason: string;
  apt: number;
  metrics: { consecutive_failures: number; total_calls: number };
  capabilities: Json;
  is_fallback: boolean;
}

interface SelfRep {
  selfrep_snapshot_id: string;
  modules: Record<string, Module>;
  edges: { edge_id: string; from: string; to: string; required: boolean }[];
  trust: Record<string, number>;
  events: number;
  warnings: string[];
  redacted: boolean;
}

interface History {
  points: { at: string; node_id: string; apt: number; status: string; event: string }[];
  jobs: Job[];
  problems: string[];
}

interface Job {
  log_id: string;
  job_id: string;
  at: string;
  status: string | null;
  agent_id: string;
  iterations: {
    number: number;
    decision_id: string;
    agent_id: string;
    status: string;
    reason: string;
    depth: number;
    token_budget: number;
    council_approval: boolean | null;
    approving: number;
    votes: number;
  }[];
  action_requests: string[];
}

interface Vote {
  vote_id: string;
  member_id: string;
  vote: string;
}

interface Action {
  request_id: string;
  action_type: string;
  target: string;
  status: string;
  required_approval_type: string;
  action_hash: string;
  payload: Json;
  justification: string;
  requester_name: string | null;
  created_at: string;
  expires_at: string;
  votes: Vote[];
  withdrawn: Vote[];
  tally: { approve: number; reject: number; abstain: number; needed: number };
  note: string;
}

interface Decisions {
  decisions: { decision_id: string; ref: string; at: string; outcome: { [key: string]: Json } }[];
}

function toneOf(status: string): Tone {
  if (status === "healthy") return "clear";
  return status === "degraded" || status === "suspect" ? "caution" : "danger";
}

/** Trust over what happened, one line: as wide as its cell. */
function Spark({ points }: { points: number[] }) {
  if (points.length < 2) return <span class="dim">no events</span>;
  const wide = 140;
  const high = 26;
  const step = wide / (points.length - 1);
  const path = points.map((apt, index) => `${index === 0 ? "M" : "L"}${(index * step).toFixed(1)} ${(high - 2 - apt * (high - 4)).toFixed(1)}`);
  return (
    <svg class="spark" width={wide} height={high} viewBox={`0 0 ${wide} ${high}`} role="img" aria-label={`from ${points[0]} to ${points[points.length - 1]}`}>
      <path d={path.join("")} />
    </svg>
  );
}

function Modules({ selfrep, history }: { selfrep: SelfRep; history: History | null }) {
  const modules = Object.values(selfrep.modules);
  const series = new Map<string, number[]>();
  // A module's own instants are its job's; when it happened is told by the ledger.
  const changed = new Map<string, string>();
  for (const point of history?.points ?? []) {
    series.set(point.node_id, [...(series.get(point.node_id) ?? []), point.apt]);
    changed.set(point.node_id, point.at);
  }
  return (
    <div class="scroll">
      <table class="plain">
        <thead>
          <tr>
            <th scope="col">module</th>
            <th scope="col">status</th>
            <th scope="col" class="number">apt</th>
            <th scope="col">trust</th>
            <th scope="col">over time</th>
            <th scope="col" class="number wide-only">calls</th>
            <th scope="col" class="wide-only">changed</th>
          </tr>
        </thead>
        <tbody>
          {modules.map((each) => (
            <tr key={each.node_id}>
              <td>
                <strong>{each.display_name || each.node_id}</strong> {each.is_fallback && <Badge tone="quiet">fallback</Badge>}
                <div class="mono dim">{each.node_id} · {each.type} {each.version}</div>
              </td>
              <td>
                <Badge tone={toneOf(each.status)} title={each.status_reason}>{words(each.status)}</Badge>
                {each.status_reason && <div class="dim">{each.status_reason}</div>}
              </td>
              <td class="number">{each.apt.toFixed(3)}</td>
              <td class="bar-cell"><Bar part={each.apt} whole={1} tone={each.apt >= 0.5 ? "clear" : "caution"} /></td>
              <td><Spark points={series.get(each.node_id) ?? []} /></td>
              <td class="number wide-only">
                {count(each.metrics.total_calls)}
                {each.metrics.consecutive_failures > 0 && <span class="danger"> {each.metrics.consecutive_failures} failed in a row</span>}
              </td>
              <td class="wide-only dim">{changed.has(each.node_id) ? ago(changed.get(each.node_id) ?? "") : "as written"}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function ModuleGraph({ selfrep }: { selfrep: SelfRep }) {
  const modules = selfrep.modules;
  const graph = {
    nodes: Object.values(modules).map((each) => ({
      id: each.node_id,
      type: "module",
      label: each.display_name || each.node_id,
      metadata: { note: `${words(each.status)} · apt ${each.apt.toFixed(2)}` },
    })),
    edges: selfrep.edges.map((each) => ({
      source: each.from,
      target: each.to,
      type: each.required ? "required" : "optional",
      label: each.required ? "" : "optional",
    })),
  };
  const tones: Record<string, string> = { clear: "ok", caution: "warn", danger: "bad" };
  return <GraphView graph={graph} label="modules and what they need" tone={(id) => tones[toneOf(modules[id]?.status ?? "")] ?? ""} />;
}

const JOB_TONES: Record<string, Tone> = { done: "clear", rejected: "danger", no_match: "danger", privacy_blocked: "danger" };

function Jobs({ jobs }: { jobs: Job[] }) {
  if (jobs.length === 0) {
    return (
      <Empty title="No job ran yet" command={'pointsman jobs run --request job.json'}>
        A job is one question to the agents: chosen, answered, judged by the council, tried again.
      </Empty>
    );
  }
  return (
    <ul class="jobs">
      {jobs.map((job) => (
        <li key={job.log_id}>
          <details>
            <summary>
              <Time at={job.at} /> <strong class="mono">{job.job_id}</strong>{" "}
              <Badge tone={job.status === null ? "quiet" : (JOB_TONES[job.status] ?? "caution")}>{job.status === null ? "not ended" : words(job.status)}</Badge>{" "}
              <span class="dim">{counted(job.iterations.length, "iteration")}{job.agent_id && ` · ${job.agent_id}`}</span>
            </summary>
            <table class="plain">
              <thead>
                <tr>
                  <th scope="col" class="number">#</th><th scope="col">agent</th><th scope="col">came to</th>
                  <th scope="col">council</th><th scope="col" class="number">depth</th><th scope="col" class="number">tokens</th>
                </tr>
              </thead>
              <tbody>
                {job.iterations.map((each) => (
                  <tr key={each.number}>
                    <td class="number">{each.number}</td>
                    <td class="mono">{each.agent_id || "–"}</td>
                    <td>{words(each.status)} <span class="dim">{each.reason}</span></td>
                    <td>{each.votes > 0 ? `${each.approving} of ${each.votes} approve` : <span class="dim">not asked</span>}</td>
                    <td class="number">{each.depth}</td>
                    <td class="number">{count(each.token_budget)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
            {job.action_requests.length > 0 && (
              <p class="pad dim">
                asked for {counted(job.action_requests.length, "action")}:{" "}
                {job.action_requests.map((each) => <span key={each} class="mono">{each.slice(0, 12)} </span>)}
              </p>
            )}
          </details>
        </li>
      ))}
    </ul>
  );
}

const ACTION_TONES: Record<string, Tone> = { executed: "clear", approved: "clear", rejected: "danger", failed: "danger", expired: "quiet", cancelled: "quiet" };

function ActionRow({ action, again }: { action: Action; again: () => void }) {
  const [failure, setFailure] = useState<Failure | null>(null);
  const isOpen = action.status === "pending" || action.status === "requested";
  const vote = (choice: string): void => {
    ask("POST", `/actions/${encodeURIComponent(action.request_id)}/votes`, { vote: choice, action_hash: action.action_hash }).then(again, setFailure);
  };
  return (
    <li>
      <div class="action-head">
        <span>
          <strong>{words(action.action_type)}</strong> <span class="mono">{action.target}</span>{" "}
          <Badge tone={ACTION_TONES[action.status] ?? "caution"}>{words(action.status)}</Badge>
        </span>
        <span class="dim">
          <Time at={action.created_at} /> · {words(action.required_approval_type)}
        </span>
      </div>
      {action.justification && <p>{action.justification}</p>}
      <div class="tally">
        <Bar part={action.tally.approve} whole={Math.max(1, action.tally.needed)} tone="clear" />
        <span class="dim">
          {action.tally.approve} of {action.tally.needed} approve, {action.tally.reject} reject, {action.tally.abstain} abstain
        </span>
        {isOpen && (
          <span class="actions">
            <button type="button" class="small" onClick={() => vote("approve")}>Approve</button>
            <button type="button" class="small" onClick={() => vote("reject")}>Reject</button>
          </span>
        )}
      </div>
      {action.votes.length + action.withdrawn.length > 0 && (
        <p class="dim">
          {[
            ...action.votes.map((each) => `${each.member_id}: ${each.vote}`),
            ...action.withdrawn.map((each) => `${each.member_id}: ${each.vote}, withdrawn with its key`),
          ].join(" · ")}
        </p>
      )}
      {action.payload !== null && typeof action.payload === "object" && !Array.isArray(action.payload) && (
        <details><summary>payload</summary><Tree value={action.payload} open={1} /></details>
      )}
      {failure && <Trouble failure={failure} />}
    </li>
  );
}

export function Agents(_props: { me: Me; route: Route }) {
  const selfrep = useLoad<SelfRep>("/selfrep", 15_000);
  const history = useLoad<History>("/api/agents/history", 15_000);
  const actions = useLoad<{ actions: Action[] }>("/actions?limit=50", 15_000);
  const decisions = useLoad<Decisions>("/api/decisions?kind=agent&limit=20");
  if (selfrep.failure) return <Trouble failure={selfrep.failure} />;
  if (!selfrep.value) return <div class="page-wait" aria-busy="true" />;
  const many = Object.keys(selfrep.value.modules).length;
  return (
    <>
      {history.value?.problems.map((problem) => (
        <div key={problem} class="trouble" role="alert"><span class="mono">{problem}</span></div>
      ))}
      <Card title="Modules" side={<span class="dim">{counted(many, "module")} · {counted(selfrep.value.events, "event")}</span>}>
        {many === 0 ? (
          <Empty title="No agent is written yet" command="pointsman init && pointsman agents list">
            Agents stand in <code>agents.yaml</code>: what each can do, may do, and needs.{" "}
            <a href={href(["help", "README.md"])}>Help</a>
          </Empty>
        ) : (
          <>
            <ModuleGraph selfrep={selfrep.value} />
            <Modules selfrep={selfrep.value} history={history.value} />
          </>
        )}
      </Card>
      <div class="columns even">
        <Card title="Jobs">{history.value && <Jobs jobs={history.value.jobs} />}</Card>
        <Card title="Requests for actions" side={actions.value && <span class="dim">{counted(actions.value.actions.length, "request")}</span>}>
          {actions.failure && <Trouble failure={actions.failure} />}
          {actions.value && actions.value.actions.length === 0 && (
            <p class="pad dim">Nothing was asked for. What an agent wants to last is a request first, and people or the council vote on it.</p>
          )}
          {actions.value && actions.value.actions.length > 0 && (
            <ul class="requests">
              {actions.value.actions.map((each) => <ActionRow key={each.request_id} action={each} again={actions.again} />)}
            </ul>
          )}
        </Card>
      </div>
      <Card title="Latest choices of an agent" class="flush">
        {!decisions.value || decisions.value.decisions.length === 0 ? (
          <p class="pad dim">None is recorded.</p>
        ) : (
          <div class="scroll">
            <table class="plain">
              <thead><tr><th scope="col">time</th><th scope="col">job</th><th scope="col">agent</th><th scope="col">reason</th><th scope="col">decision</th></tr></thead>
              <tbody>
                {decisions.value.decisions.map((each) => (
                  <tr key={each.decision_id}>
                    <td><Time at={each.at} /></td>
                    <td class="mono">{each.ref}</td>
                    <td><strong>{String(each.outcome.selected_agent ?? "nobody")}</strong></td>
                    <td>{words(String(each.outcome.reason_tag || each.outcome.error_code || ""))}</td>
                    <td class="mono dim">{each.decision_id}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </Card>
    </>
  );
}
