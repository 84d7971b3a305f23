import { useState } from "preact/hooks";
import { ask, Failure, useLoad } from "../api";
import { count, counted, share } from "../format";
import { moveRow, useKeys } from "../keys";
import { Badge, Bar, Card, Empty, Time, Trouble } from "../parts/bits";
import { GraphView } from "../parts/graph";
import { Tree } from "../parts/json";
import { go, href } from "../router";
import type { DefinitionView, Definitions, Graph, Json } from "../types";

const FIRST = `mkdir -p ~/.pointsman/decisions && cat > ~/.pointsman/decisions/quality.yaml <<'END'
decision:
  id: quality
  name: Is it good enough?
  type: binary
  input: "{{ artifact.score }}"
  cases:
    - {condition: "input >= 0.8", label: good, target: ship}
    - {condition: "input < 0.8", label: poor, target: rework}
  default: {target: rework}
END`;

export function Workflows() {
  const found = useLoad<Definitions>("/api/workflow-decisions", 20_000);
  useKeys({ j: () => moveRow(1), k: () => moveRow(-1) });
  if (found.failure) return <Trouble failure={found.failure} />;
  if (!found.value) return <div class="page-wait" aria-busy="true" />;
  const { decisions, problems, most_answers: most } = found.value;
  return (
    <>
      {problems.map((problem) => (
        <div key={problem} class="trouble" role="alert"><span class="mono">{problem}</span></div>
      ))}
      <Card class="flush">
        {decisions.length === 0 ? (
          <Empty title="No workflow decision is written yet" command={FIRST}>
            A decision is a file: what to look at, the cases in order, where each leads.{" "}
            <a href={href(["help", "guide/branches.md"])}>How to write one</a>
          </Empty>
        ) : (
          <div class="scroll">
            <table class="rows">
              <thead>
                <tr>
                  <th scope="col">decision</th>
                  <th scope="col">type</th>
                  <th scope="col" class="number">cases</th>
                  <th scope="col" class="number">evaluations</th>
                  <th scope="col" class="wide-only">cache</th>
                  <th scope="col" class="wide-only">file</th>
                </tr>
              </thead>
              <tbody>
                {decisions.map((each) => (
                  <tr
                    key={each.id}
                    data-row
                    tabIndex={0}
                    onClick={() => go(["workflows", each.id])}
                    onKeyDown={(event) => event.key === "Enter" && go(["workflows", each.id])}
                  >
                    <td>
                      <a href={href(["workflows", each.id])} tabIndex={-1}><strong>{each.id}</strong></a>{" "}
                      <span class="dim">{each.name !== each.id && each.name}</span>{" "}
                      {each.warnings > 0 && <Badge tone="caution">{counted(each.warnings, "warning")}</Badge>}
                    </td>
                    <td>{each.type.replace("_", " ")}{each.hit_policy && <span class="dim"> · {each.hit_policy}</span>}</td>
                    <td class="number">{each.cases.length}</td>
                    <td class="number">{count(each.evaluations)}</td>
                    <td class="wide-only">{each.kept.enabled ? `${each.kept.entries} for ${each.kept.ttl}` : <span class="dim">off</span>}</td>
                    <td class="wide-only mono dim">{each.source}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
        {decisions.length > 0 && <p class="foot dim">at most {count(most)} answers are kept over all decisions</p>}
      </Card>
    </>
  );
}

function Distribution({ view }: { view: DefinitionView }) {
  const total = Object.values(view.distribution).reduce((sum, each) => sum + each, 0);
  const hasWeights = Object.keys(view.expected).length > 0;
  const labels = [...new Set([...Object.keys(view.expected), ...Object.keys(view.distribution)])];
  if (labels.length === 0) {
    return <p class="pad dim">Not evaluated yet. A dry run below leaves nothing behind; <code>POST /api/decisions/{view.definition.id}/evaluate</code> records.</p>;
  }
  return (
    <table class="plain">
      <thead>
        <tr>
          <th scope="col">label</th>
          <th scope="col" class="number">taken</th>
          <th scope="col">share</th>
          {hasWeights && <th scope="col" class="number">by weight</th>}
        </tr>
      </thead>
      <tbody>
        {labels.map((label) => {
          const taken = view.distribution[label] ?? 0;
          const expected = view.expected[label];
          return (
            <tr key={label}>
              <td>{label}</td>
              <td class="number">{count(taken)}</td>
              <td class="wide">
                <Bar part={taken} whole={total} mark={expected} />
                <span class="percent">{share(taken, total)}</span>
              </td>
              {hasWeights && <td class="number">{expected === undefined ? "" : `${(100 * expected).toFixed(1)} %`}</td>}
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

/** A context in which the input of a decision has something to look at. */
function exampleOf(input: string): string {
  const path = /[a-z_][\w]*(?:\.[\w]+)*/i.exec(input)?.[0].split(".") ?? ["artifact"];
  const inner: Json = 0.9;
  return JSON.stringify(path.reduceRight<Json>((value, name) => ({ [name]: value }), inner));
}

function Trying({ id, written }: { id: string; written: string }) {
  const [input, setInput] = useState(() => exampleOf(written));
  const [found, setFound] = useState<{ [key: string]: Json } | null>(null);
  const [failure, setFailure] = useState<Failure | null>(null);
  const run = (event: Event): void => {
    event.preventDefault();
    let context: unknown;
    try {
      context = JSON.parse(input);
    } catch {
      setFailure(new Failure(0, "", "the context is not JSON", ""));
      return;
    }
    ask<{ [key: string]: Json }>("POST", `/api/workflow-decisions/${encodeURIComponent(id)}/dry-run`, { input: context }).then(
      (value) => {
        setFound(value);
        setFailure(null);
      },
      (error: Failure) => {
        setFound(null);
        setFailure(error);
      },
    );
  };
  const targets = (found?.would_route_to ?? []) as string[];
  const labels = (found?.selected_labels ?? []) as string[];
  return (
    <Card title="Dry run" side={<span class="dim">records nothing</span>}>
      <form class="pad stack" onSubmit={run}>
        <label class="field">
          <span>context, as JSON</span>
          <textarea rows={3} value={input} onInput={(event) => setInput(event.currentTarget.value)} />
        </label>
        <button type="submit">Evaluate</button>
      </form>
      {failure && <Trouble failure={failure} />}
      {found && (
        <div class="pad" aria-live="polite">
          <p>
            <Badge tone={found.would_block ? "danger" : "clear"}>{found.would_block ? "blocked" : labels.join(", ")}</Badge>{" "}
            {targets.length > 0 ? <>leads to <strong>{targets.join(", ")}</strong></> : "leads nowhere"}{" "}
            <span class="dim">{String(found.reason ?? "")}</span>
          </p>
          <Tree value={{ cases: found.evaluation_details ?? [] }} open={2} />
        </div>
      )}
    </Card>
  );
}

const SHOWN = 12;

export function WorkflowPage({ id }: { id: string }) {
  const [isWhole, setWhole] = useState(false);
  const path = `/api/workflow-decisions/${encodeURIComponent(id)}`;
  const found = useLoad<DefinitionView>(path);
  const lineage = useLoad<Graph>(`${path}/lineage`);
  if (found.failure) return <Trouble failure={found.failure} />;
  if (!found.value) return <div class="page-wait" aria-busy="true" />;
  const view = found.value;
  const { definition } = view;
  const forget = (): void => {
    void ask("DELETE", `${path}/cache`).then(found.again, found.again);
  };
  return (
    <>
      <p class="crumbs">
        <a href={href(["workflows"])}>Workflow decisions</a> <span aria-hidden="true">/</span> {definition.id}
      </p>
      <div class="columns even">
        <div class="stack">
          <Card title={definition.name} side={<Badge tone="accent">{definition.type.replace("_", " ")}</Badge>}>
            <dl class="pairs">
              <dt>input</dt><dd class="mono">{definition.input}</dd>
              <dt>file</dt><dd class="mono">{definition.source}</dd>
              <dt>policy</dt><dd class="mono break">{definition.policy_id}</dd>
            </dl>
            <div class="scroll">
              <table class="plain">
                <thead>
                  <tr>
                    <th scope="col" class="number">#</th>
                    <th scope="col">when</th>
                    <th scope="col">label</th>
                    <th scope="col">leads to</th>
                  </tr>
                </thead>
                <tbody>
                  {definition.cases.map((each, index) => (
                    <tr key={index}>
                      <td class="number">{index + 1}</td>
                      <td class="mono">{each.condition || (each.weight !== null ? `weight ${each.weight}` : JSON.stringify(each.ranges))}</td>
                      <td>{each.label}</td>
                      <td>{each.target}</td>
                    </tr>
                  ))}
                  <tr>
                    <td class="number">–</td><td class="dim">otherwise</td><td>default</td><td>{definition.default.target}</td>
                  </tr>
                </tbody>
              </table>
            </div>
            {view.findings.map((each, index) => (
              <p key={index} class="note">
                <span class="mono">{each.code}</span> {each.message}
                {each.example !== null && <span class="mono dim"> {JSON.stringify(each.example)}</span>}
              </p>
            ))}
          </Card>
          <Card title="Distribution" side={<span class="dim">{counted(view.total, "evaluation")}</span>}>
            <Distribution view={view} />
          </Card>
        </div>
        <div class="stack">
          <Trying id={id} written={definition.input} />
          <Card title="Cache" side={<Badge tone={view.cache.enabled ? "clear" : "quiet"}>{view.cache.enabled ? "on" : "off"}</Badge>}>
            <div class="pad row">
              <span>
                {view.cache.enabled
                  ? `${counted(view.cache.entries, "answer")} kept for ${view.cache.ttl}, ${view.cache.expired} expired`
                  : "answers are decided anew each time"}
              </span>
              {view.cache.entries > 0 && <button type="button" onClick={forget}>Forget them</button>}
            </div>
          </Card>
        </div>
      </div>
      <Card title="Lineage" side={<span class="dim">what the latest evaluations came from and led to</span>}>
        {lineage.value && lineage.value.nodes.length > 0 ? (
          <GraphView graph={lineage.value} label={`lineage of ${id}`} />
        ) : (
          <p class="pad dim">Nothing is recorded yet.</p>
        )}
      </Card>
      <Card title="Log" class="flush" side={<span class="dim">the latest 100</span>}>
        {view.log.length === 0 ? (
          <p class="pad dim">No evaluation is recorded.</p>
        ) : (
          <div class="scroll">
            <table class="plain">
              <thead>
                <tr>
                  <th scope="col">time</th><th scope="col">input</th><th scope="col">label</th><th scope="col">led to</th>
                  <th scope="col" class="wide-only">workflow</th><th scope="col">from</th>
                </tr>
              </thead>
              <tbody>
                {view.log.slice(0, isWhole ? undefined : SHOWN).map((each) => (
                  <tr key={each.evaluation_id}>
                    <td><Time at={each.timestamp} /></td>
                    <td class="mono">{JSON.stringify(each.input_value)}</td>
                    <td>{each.selected_labels.join(", ")}</td>
                    <td>{each.selected_targets.join(", ") || "nothing"} {each.blocked && <Badge tone="danger">blocked</Badge>}</td>
                    <td class="wide-only mono dim">{each.workflow_id}{each.stage_id && ` / ${each.stage_id}`}</td>
                    <td>{each.cached ? <Badge tone="quiet">cache</Badge> : "decided"}</td>
                  </tr>
                ))}
              </tbody>
            </table>
            {view.log.length > SHOWN && !isWhole && (
              <p class="foot">
                <button type="button" class="small" onClick={() => setWhole(true)}>Show all {view.log.length}</button>
              </p>
            )}
          </div>
        )}
      </Card>
    </>
  );
}
