import { useEffect, useRef, useState } from "preact/hooks";
import { ask, eventsOf, Failure, send, useLoad } from "../api";
import { ago, count, counted, share } from "../format";
import { Badge, Bar, Behind, Card, Empty, Model, Time, Trouble } from "../parts/bits";
import { Chain } from "../parts/chain";
import { Editor, type EditorHandle } from "../parts/editor";
import { go, href } from "../router";
import type { Backtest, Check, Decided, Finding, Me, PolicyDifference, PolicyFile, Rules } from "../types";

const FILES = ["routing.yaml", "models.yaml", "placement.yaml"];

function mark(finding: Finding): [tone: "danger" | "caution", text: string] {
  if (finding.code === "turns.rule_unreachable") return ["danger", "unreachable"];
  if (finding.code === "turns.rule_shadowed") return ["caution", "shadowed"];
  if (finding.code === "turns.rule_never_matches") return ["danger", "never matches"];
  if (finding.code === "turns.rule_model_unfit") return ["danger", "model unfit"];
  return ["caution", finding.code.replace("turns.", "").replaceAll("_", " ")];
}

function RulesCard({ rules }: { rules: Rules }) {
  const total = Math.max(1, ...rules.scopes.flatMap((scope) => scope.rules.map((rule) => rule.hits)));
  return (
    <Card
      title="Rules in force"
      class="flush"
      side={
        <Badge tone={rules.privacy.holds ? "clear" : "danger"} title={rules.privacy.explanation}>
          {rules.privacy.holds ? "privacy holds" : "privacy broken"}
        </Badge>
      }
    >
      <Behind entries={rules.behind} />
      {rules.scopes.map((scope) => (
        <section key={scope.workspace ?? "*"} class="scope">
          <h3>
            {scope.workspace === null ? "everywhere" : <span class="mono">{scope.workspace}</span>}
            <span class="dim">
              {" "}
              default {scope.default ? <Model name={scope.default} /> : "none"}
            </span>
          </h3>
          {scope.rules.length === 0 ? (
            <p class="dim">no rules: patterns, delegations and defaults decide</p>
          ) : (
            <ol class="rules">
              {scope.rules.map((rule, index) => (
                <li key={rule.name + index} class={rule.is_global && scope.workspace !== null ? "inherited" : ""}>
                  <span class="rule-number">{index + 1}</span>
                  <div class="rule-main">
                    <p>
                      <strong>{rule.name}</strong>{" "}
                      {rule.findings.map((each) => (
                        <Badge key={each.code} tone={mark(each)[0]} title={each.message}>{mark(each)[1]}</Badge>
                      ))}
                    </p>
                    <p class="mono when">{rule.when}</p>
                    <p><span aria-label="uses">→</span> <Model name={rule.use} /></p>
                    {rule.findings.map((each) => <p key={each.code} class="dim finding">{each.message}</p>)}
                  </div>
                  <div class="rule-hits">
                    <a href={href(["turns"], { rule: rule.name })}>{count(rule.hits)}</a>
                    <Bar part={rule.hits} whole={total} />
                    <span class="dim">{rule.last_at ? ago(rule.last_at) : "never"}</span>
                    {rule.rejected > 0 && <span class="dim">{count(rule.rejected)} rejected</span>}
                  </div>
                </li>
              ))}
            </ol>
          )}
        </section>
      ))}
      {rules.warnings.filter((each) => each.rule_name === null).map((each) => (
        <p key={each.message} class="note"><span class="mono">{each.code}</span> {each.message}</p>
      ))}
      <p class="foot dim">{rules.privacy.explanation}</p>
    </Card>
  );
}

function DryRun({ name, text }: { name: string; text: string }) {
  const [message, setMessage] = useState("");
  const [facts, setFacts] = useState("");
  const [found, setFound] = useState<Decided | null>(null);
  const [failure, setFailure] = useState<Failure | null>(null);
  const run = (event: Event): void => {
    event.preventDefault();
    let more: object = {};
    try {
      more = facts.trim() ? (JSON.parse(facts) as object) : {};
    } catch {
      setFailure(new Failure(0, "", "the facts are not JSON", ""));
      return;
    }
    ask<Decided>("POST", `/api/policies/${name}/try`, { text, facts: { message, ...more } }).then(
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
  return (
    <Card title="Dry run" side={<span class="dim">records nothing, calls nobody</span>}>
      <form class="pad stack" onSubmit={run}>
        <label class="field">
          <span>message</span>
          <input name="message" value={message} required placeholder="Explain this stack trace" onInput={(event) => setMessage(event.currentTarget.value)} />
        </label>
        <details>
          <summary>more facts, as JSON</summary>
          <label class="field">
            <span class="unseen">facts</span>
            <textarea rows={3} value={facts} placeholder='{"has_images": true, "local_time": "23:10"}' onInput={(event) => setFacts(event.currentTarget.value)} />
          </label>
          <p class="dim">
            What may stand there: <a href={href(["help", "reference/schemas/README.md"])}>turn-facts</a>.
          </p>
        </details>
        <button type="submit">Decide</button>
      </form>
      {failure && <Trouble failure={failure} />}
      {found && (
        <div class="tried">
          <p class="pad">
            {found.chosen_model ? <>takes it: <Model name={found.chosen_model} /></> : "no model may take it"}
          </p>
          <Chain decided={found} />
        </div>
      )}
    </Card>
  );
}

interface Run {
  done: number;
  total: number;
  result: Backtest | null;
  failure: Failure | null;
}

async function backtested(body: object, told: (run: Run) => void): Promise<void> {
  try {
    const answer = await send("POST", "/api/backtest", body, { accept: "text/event-stream" });
    for await (const event of eventsOf(answer)) {
      if (event.name === "progress") {
        told({ done: Number(event.data.done), total: Number(event.data.total), result: null, failure: null });
      } else if (event.name === "result") {
        told({ done: 1, total: 1, result: event.data as unknown as Backtest, failure: null });
      } else {
        const message = String(event.data.user_message);
        told({ done: 0, total: 0, result: null, failure: new Failure(0, String(event.data.error_code), message, "") });
      }
    }
  } catch (error) {
    told({ done: 0, total: 0, result: null, failure: error instanceof Failure ? error : new Failure(0, "", String(error), "") });
  }
}

function Result({ found }: { found: Backtest }) {
  const cost = found.input_cost;
  const difference = Number(cost.difference_usd);
  const most = Math.max(1, ...found.shifts.map((each) => each.count));
  return (
    <div class="backtest" aria-live="polite">
      <div class="stats inner">
        <div class="stat">
          <span class="label">change</span>
          <span class="value">{count(found.changed_count)}</span>
          <span class="dim">of {counted(found.turns, "turn")} ({share(found.changed_count, found.turns)})</span>
        </div>
        <div class={`stat ${difference > 0 ? "caution" : difference < 0 ? "clear" : ""}`}>
          <span class="label">input cost</span>
          <span class="value">{difference > 0 ? "+" : ""}{cost.difference_usd} $</span>
          <span class="dim">{cost.before_usd} $ before, {cost.after_usd} $ after</span>
        </div>
        {found.unable_count > 0 && (
          <div class="stat caution">
            <span class="label">not decided again</span>
            <span class="value">{count(found.unable_count)}</span>
            <span class="dim">{found.unable[0]?.reason}</span>
          </div>
        )}
      </div>
      <p class="dim">{cost.note}</p>
      {found.shifts.length === 0 ? (
        <p>Every recorded turn would go where it went.</p>
      ) : (
        <table class="plain">
          <thead>
            <tr><th scope="col">from</th><th scope="col">to</th><th scope="col" class="number">turns</th><th scope="col"><span class="unseen">share</span></th></tr>
          </thead>
          <tbody>
            {found.shifts.map((each) => (
              <tr key={each.before + each.after}>
                <td><Model name={each.before} /></td>
                <td><Model name={each.after} /></td>
                <td class="number">{count(each.count)}</td>
                <td class="bar-cell"><Bar part={each.count} whole={most} /></td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {Object.keys(found.by_rule).length > 0 && (
        <details>
          <summary>turns each rule would take</summary>
          <table class="plain">
            <tbody>
              {Object.entries(found.by_rule).map(([rule, hits]) => (
                <tr key={rule}>
                  <th scope="row">{rule}</th>
                  <td class="number">{count(hits)}</td>
                  <td>{hits === 0 && <Badge tone="caution">takes none</Badge>}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </details>
      )}
      {found.changed.length > 0 && (
        <details>
          <summary>{counted(Math.min(found.changed.length, 50), "turn")} that would change</summary>
          <table class="plain">
            <tbody>
              {found.changed.slice(0, 50).map((each) => (
                <tr key={each.turn_id}>
                  <td><a href={href(["turns", each.turn_id])}><Time at={each.at} /></a></td>
                  <td><Model name={each.before_model} /></td>
                  <td><span aria-label="to">→</span> <Model name={each.after_model} /></td>
                  <td class="dim">{each.rule ?? each.after_policy.replaceAll("_", " ")}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </details>
      )}
    </div>
  );
}

function Backtesting({ body }: { body: object }) {
  const [run, setRun] = useState<Run | null>(null);
  const isRunning = run !== null && run.result === null && run.failure === null;
  return (
    <Card title="Backtest" side={<span class="dim">recorded turns under the edited policy</span>}>
      <div class="pad stack">
        <button
          type="button"
          disabled={isRunning}
          onClick={() => {
            setRun({ done: 0, total: 0, result: null, failure: null });
            void backtested(body, setRun);
          }}
        >
          Decide every recorded turn again
        </button>
        {isRunning && run && (
          <div role="status">
            <progress max={Math.max(1, run.total)} value={run.done} aria-label="entries read" />
            <span class="dim"> {count(run.done)} of {count(run.total)} entries</span>
          </div>
        )}
        {run?.failure && <Trouble failure={run.failure} />}
        {run?.result && <Result found={run.result} />}
      </div>
    </Card>
  );
}

/** Every kind of turns that the edited policy decides differently, as conditions; not by sampling. */
function Difference({ name, text }: { name: string; text: string }) {
  const [found, setFound] = useState<PolicyDifference | Failure | "running" | null>(null);
  useEffect(() => setFound(null), [name, text]);
  const run = (): void => {
    setFound("running");
    ask<PolicyDifference>("POST", `/api/policies/${name}/difference`, { text, count_recorded: true }).then(setFound, setFound);
  };
  return (
    <Card title="What if" side={<span class="dim">every kind of turns decided differently</span>}>
      <div class="pad stack">
        <button type="button" disabled={found === "running"} onClick={run}>Compare with the policy in force</button>
        {found === "running" && <p role="status" class="dim">comparing</p>}
        {found instanceof Failure && <Trouble failure={found} />}
        {found !== null && found !== "running" && !(found instanceof Failure) && (
          <>
            <p role="status"><strong>{found.headline}</strong></p>
            {found.notes.map((note) => <p key={note} class="dim">{note}</p>)}
            <ul class="kinds">
              {found.kinds.map((kind, index) => (
                <li key={index}>
                  <p>{kind.before} <span aria-label="becomes">→</span> <strong>{kind.after}</strong>{kind.recorded_turns !== null && <span class="dim"> · {counted(kind.recorded_turns, "recorded turn")}</span>}</p>
                  <p class="mono">where {kind.where || "always"}{kind.unless.map((each) => ` unless ${each}`)}</p>
                  {kind.example && <p class="dim">for example <span class="mono">{kind.example}</span></p>}
                </li>
              ))}
            </ul>
          </>
        )}
      </div>
    </Card>
  );
}

function Problems({ check, goTo }: { check: Check; goTo: (line: number, column: number) => void }) {
  return (
    <ul class="problems" aria-live="polite">
      {check.problems.map((each, index) => (
        <li key={index} class="danger">
          <button type="button" class="link" onClick={() => goTo(each.line, each.column)}>
            {each.source}:{each.line}:{each.column}
          </button>{" "}
          <span class="mono dim">{each.code}</span> {each.message} {each.hint && <span class="dim">({each.hint})</span>}
        </li>
      ))}
      {check.warnings.map((each, index) => (
        <li key={index} class="caution">
          warning: {each.workspace && `${each.workspace}: `}<span class="mono dim">{each.code}</span> {each.message}
        </li>
      ))}
      {check.privacy && (
        <li class={check.privacy.holds ? "clear" : "danger"}>
          privacy {check.privacy.holds ? "holds" : "is broken"}: {check.privacy.explanation}
        </li>
      )}
    </ul>
  );
}

function Writing({ name, file, routing, saved }: {
  name: string;
  file: PolicyFile;
  routing: string;
  saved: () => void;
}) {
  const [text, setText] = useState(file.text);
  const [check, setCheck] = useState<Check | null>(null);
  const [state, setState] = useState<Failure | string | null>(null);
  const editor = useRef<EditorHandle | null>(null);
  const isChanged = text !== file.text;
  useEffect(() => {
    const timer = setTimeout(() => {
      ask<Check>("POST", `/api/policies/${name}/check`, { text }).then(setCheck, setState);
    }, 350);
    return () => clearTimeout(timer);
  }, [text, name]);
  const save = (): void => {
    ask<{ policy_id: string }>("PUT", `/api/policies/${name}`, text).then((told) => {
      setState(`saved and in force as ${told.policy_id.slice(0, 19)}…`);
      saved();
    }, setState);
  };
  const isValid = check !== null && check.problems.length === 0;
  const summary =
    check === null
      ? "checking"
      : isValid
        ? check.warnings.length === 0
          ? "ok"
          : `ok, with ${counted(check.warnings.length, "warning")}`
        : counted(check.problems.length, "error");
  const body = name === "models.yaml" ? { policy: routing || "schema_version: 1\n", models: text } : { policy: text };
  return (
    <>
      <Card
        class="flush"
        title={<span class="mono">{name}</span>}
        side={
          <span class="actions">
            <Badge tone={check === null ? "quiet" : isValid ? "clear" : "danger"}>{summary}</Badge>
            {isChanged && <button type="button" class="quiet" onClick={() => setText(file.text)}>Undo all</button>}
            <button type="button" class="primary" disabled={!isChanged || !isValid} onClick={save}>Save</button>
          </span>
        }
      >
        <Editor
          text={text}
          label={`the text of ${name}`}
          problems={check?.problems.filter((each) => each.source === name) ?? []}
          onText={setText}
          handle={editor}
        />
        {check && <Problems check={check} goTo={(line, column) => editor.current?.goTo(line, column)} />}
        {typeof state === "string" && <p class="note" role="status">{state}</p>}
        {state instanceof Failure && <Trouble failure={state} />}
      </Card>
      {name !== "placement.yaml" && isValid && (
        <>
          <DryRun name={name} text={text} />
          {name === "routing.yaml" && <Difference name={name} text={text} />}
          <Backtesting body={body} />
        </>
      )}
    </>
  );
}

function File({ name, me, saved }: { name: string; me: Me; saved: () => void }) {
  const file = useLoad<PolicyFile>(me.is_admin ? `/api/policies/${name}` : null);
  const routing = useLoad<PolicyFile>(me.is_admin && name === "models.yaml" ? "/api/policies/routing.yaml" : null);
  if (!me.is_admin) {
    return (
      <Card title={<span class="mono">{name}</span>}>
        <Empty title="Admins read and write policies" command={`pointsman rules show`}>
          <a href={href(["login"])}>Log in</a> with the admin token to edit the file here.
        </Empty>
      </Card>
    );
  }
  if (file.failure) return <Trouble failure={file.failure} />;
  if (!file.value) return <div class="page-wait" aria-busy="true" />;
  return (
    <>
      {!file.value.is_there && (
        <p class="note">
          <span>There is no {name} yet: the defaults are in force. Begin with <code>schema_version: 1</code>.</span>
        </p>
      )}
      <Writing
        key={name}
        name={name}
        file={file.value}
        routing={routing.value?.text ?? ""}
        saved={() => {
          file.again();
          saved();
        }}
      />
    </>
  );
}

export function Policies({ name, me }: { name: string; me: Me }) {
  const rules = useLoad<Rules>("/api/rules");
  useEffect(() => {
    if (!rules.value || rules.value.behind === 0) return undefined;
    const timer = setTimeout(rules.again, 300);
    return () => clearTimeout(timer);
  }, [rules.value]);
  return (
    <>
      <nav class="tabs" aria-label="policy files">
        {FILES.map((each) => (
          <a key={each} class={each === name ? "here" : ""} href={href(["policies", each])} aria-current={each === name ? "page" : undefined}
             onClick={(event) => { event.preventDefault(); go(["policies", each]); }}>
            {each}
          </a>
        ))}
      </nav>
      {rules.value?.problems.map((problem) => (
        <div key={problem} class="trouble" role="alert"><span class="mono">{problem}</span></div>
      ))}
      <div class="columns policies">
        <div class="stack">
          <File name={name} me={me} saved={rules.again} />
        </div>
        <div class="stack">
          {rules.failure && <Trouble failure={rules.failure} />}
          {rules.value && <RulesCard rules={rules.value} />}
        </div>
      </div>
    </>
  );
}
