import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { ask, Failure, useLoad } from "../api";
import { bytes, count, counted, milliseconds } from "../format";
import { useKeys } from "../keys";
import { Badge, Card, Empty, Model, StateBadge, Time, Trouble, Waiting } from "../parts/bits";
import { Chain, losers, Losers, NotAsked, slotName, slotShort } from "../parts/chain";
import { Tree } from "../parts/json";
import { href } from "../router";
import type { Call, Json, Later, LinkedEntry, Refusal, Replayed, Turn, TurnRecord } from "../types";

function Replay({ result }: { result: Replayed }) {
  return (
    <ul class="replayed" aria-live="polite">
      {result.decisions.map((each) => (
        <li key={each.decision_id} class={each.verdict}>
          <p>
            <Badge tone={each.verdict === "identical" ? "clear" : each.verdict === "unable" ? "caution" : "danger"}>
              {each.verdict === "identical" ? "identical" : each.verdict === "unable" ? "cannot be re-run" : "different"}
            </Badge>{" "}
            <strong>{each.kind}</strong> <span class="mono dim">{each.decision_id}</span>
          </p>
          {each.verdict === "identical" && (
            <p class="dim">
              decided again from its recorded facts and policy: the same {bytes(each.recorded_bytes)}, byte for byte ·
              sha256 <span class="mono">{each.recorded_sha256.slice(0, 16)}…</span>
            </p>
          )}
          {each.verdict === "unable" && (
            <p class="dim">
              <span class="mono">{each.code}</span> {each.reason}
            </p>
          )}
          {each.differences.length > 0 && (
            <table class="plain">
              <thead>
                <tr><th scope="col">where</th><th scope="col">recorded</th><th scope="col">found now</th></tr>
              </thead>
              <tbody>
                {each.differences.map((row) => (
                  <tr key={row.path}>
                    <td class="mono">{row.path}</td>
                    <td class="mono">{JSON.stringify(row.recorded)}</td>
                    <td class="mono">{JSON.stringify(row.found)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          )}
        </li>
      ))}
    </ul>
  );
}

const ROLES: Record<Call["role"], string> = { turn: "call", shadow: "shadow run", judge: "judge" };

function CallEvent({ call }: { call: Call }) {
  const read = call.input_tokens + call.cached_input_tokens + call.cache_creation_input_tokens;
  const cause = call.status > 0 && call.status !== 200 ? `${call.error_class} ${call.status}` : call.error_class;
  return (
    <div class="happening">
      <p>
        <strong>{ROLES[call.role]} {call.role === "turn" && call.number}</strong> <Model name={call.model} />{" "}
        <Badge tone={call.outcome === "done" ? "clear" : call.outcome === "unknown" ? "quiet" : "danger"}>
          {[call.outcome, cause].filter(Boolean).join(": ")}
        </Badge>
      </p>
      <p class="dim">
        {[
          call.attempts > 1 ? `${call.attempts} attempts` : "",
          read + call.output_tokens > 0 ? `${count(read)} + ${count(call.output_tokens)} tokens` : "",
          call.cost_usd === null ? "price unknown" : call.outcome === "done" ? `${call.is_estimated ? "about " : ""}$${call.cost_usd}` : "",
          call.first_byte_ms > 0 ? `first byte ${milliseconds(call.first_byte_ms)}` : "",
          call.elapsed_ms > 0 ? `total ${milliseconds(call.elapsed_ms)}` : "",
        ].filter(Boolean).join(" · ")}
      </p>
    </div>
  );
}

function LaterEvent({ later }: { later: Later }) {
  const cause = [later.error_class, later.status > 0 && later.status !== 200 ? String(later.status) : ""].filter(Boolean).join(" ");
  const lost = later.chain.flatMap(losers).filter((each) => each.candidate_model !== later.failed_model);
  return (
    <div class="happening">
      <p>
        <strong>{later.kind}</strong> to <Model name={later.chosen_model} />{" "}
        <span class="dim">
          by {slotShort(later.policy)}
          {later.rule_name && <> “{later.rule_name}”</>}
        </span>
      </p>
      {later.kind === "fallback" ? (
        <p class="dim">{later.failed_model} failed{cause && `: ${cause}`}; decided again on the same facts without it</p>
      ) : (
        <p class="dim">the user took what similar turns speak for</p>
      )}
      <Losers lost={lost} />
    </div>
  );
}

function Happening({ entry, refusal }: { entry: LinkedEntry; refusal: Refusal | undefined }) {
  const decision = (entry.detail.decision ?? null) as { [key: string]: Json } | null;
  const outcome = (decision?.outcome ?? null) as { [key: string]: Json } | null;
  if (entry.kind === "decision.placement") {
    return (
      <div class="happening">
        <p>
          <strong>placement</strong> <span class="mono">{String(outcome?.rule_id ?? "")}</span>{" "}
          {refusal && <Badge tone="danger">refused: no call may go on to {refusal.model}</Badge>}
        </p>
        <p class="dim">{String(outcome?.reason ?? "")}</p>
      </div>
    );
  }
  return (
    <div class="happening">
      <p><strong>{entry.kind.replace(/^event\./, "")}</strong></p>
      <Tree value={entry.detail} open={1} />
    </div>
  );
}

interface Event {
  at: string;
  key: string;
  shown: ComponentChildren;
}

/** Everything that followed a turn's first decision, in order: calls, further decisions, the rest. */
function events(turn: Turn, record: TurnRecord | null): Event[] {
  const told = (entry: LinkedEntry): boolean => entry.kind === "outcome" || entry.kind.startsWith("decision.turn");
  const found: Event[] = [
    ...turn.calls.map((call, index) => ({ at: call.at, key: `call ${index}`, shown: <CallEvent call={call} /> })),
    ...turn.fallbacks.map((each) => ({ at: each.at, key: each.decision_id, shown: <LaterEvent later={each} /> })),
    ...turn.beside.map((call, index) => ({ at: call.at, key: `beside ${index}`, shown: <CallEvent call={call} /> })),
    ...(record?.linked ?? []).filter((entry) => !told(entry)).map((entry) => ({
      at: entry.at,
      key: entry.id + entry.seq,
      shown: <Happening entry={entry} refusal={turn.refusals.find((each) => each.decision_id === entry.id)} />,
    })),
  ];
  return found.sort((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : 0));
}

function Message({ record }: { record: TurnRecord }) {
  const { message } = record;
  return (
    <Card title="Message" side={<span class="dim">{count(message.characters)} characters</span>}>
      {message.text !== null ? (
        <pre class="message" tabIndex={0}>{message.text}</pre>
      ) : (
        <p class="pad dim">Not shown: {message.told}.</p>
      )}
      <p class="pad">
        <a class="mono dim break" href={href(["turns"], { digest: message.digest })} title="turns with the same message">
          {message.digest}
        </a>
      </p>
    </Card>
  );
}

function saysNothing(value: Json): boolean {
  if (value === null || value === false || value === "" || value === 0) return true;
  return typeof value === "object" && Object.keys(value).length === 0;
}

/** What was looked at, first what was there to see. */
function Facts({ facts }: { facts: { [key: string]: Json } }) {
  const said = Object.entries(facts).filter(([, value]) => !saysNothing(value));
  const rest = Object.entries(facts).filter(([, value]) => saysNothing(value));
  return (
    <>
      <Tree value={Object.fromEntries(said)} open={2} />
      {rest.length > 0 && (
        <details class="pad more">
          <summary>{rest.length} more that were empty, off or zero</summary>
          <Tree value={Object.fromEntries(rest)} />
        </details>
      )}
    </>
  );
}

export function Why({ id }: { id: string }) {
  const turn = useLoad<Turn>(`/api/turns/${encodeURIComponent(id)}`);
  const name = turn.value?.turn_id;
  const record = useLoad<TurnRecord>(name ? `/api/turns/${encodeURIComponent(name)}/record` : null);
  const [replay, setReplay] = useState<Replayed | Failure | "running" | null>(null);
  const run = (): void => {
    if (!name || replay === "running") return;
    setReplay("running");
    ask<Replayed>("POST", `/api/turns/${encodeURIComponent(name)}/replay`).then(setReplay, (error: Failure) =>
      setReplay(error),
    );
  };
  useKeys({ r: run });
  if (turn.failure) {
    return turn.failure.status === 404 ? (
      <Empty title="No such turn" command="pointsman why last">
        Nothing is recorded as “{id}”.
      </Empty>
    ) : (
      <Trouble failure={turn.failure} />
    );
  }
  if (!turn.value) return <div class="page-wait" aria-busy="true" />;
  const decided = turn.value;
  const winner = decided.winner_index >= 0 ? decided.chain[decided.winner_index] : undefined;
  const about = record.value;
  const followed = events(decided, about);
  return (
    <>
      <header class="why-head">
        <div>
          <p class="crumbs">
            <a href={href(["turns"])}>Turns</a> <span aria-hidden="true">/</span> <span class="mono">{decided.turn_id}</span>
          </p>
          <h2 class="chosen">
            {decided.chosen_model ? <Model name={decided.chosen_model} /> : "no model may take this turn"}
            {decided.served_model !== "" && decided.served_model !== decided.chosen_model && (
              <> <span aria-label="then">→</span> <Model name={decided.served_model} /></>
            )}
          </h2>
          <p class="dim">
            {winner && (
              <>
                chosen by <strong>{slotName(winner.policy).toLowerCase()}</strong>
                {winner.rule_name && <> “{winner.rule_name}”</>} ·{" "}
              </>
            )}
            <Time at={decided.at} />
            {decided.session_id && (
              <> · session <a class="mono" href={href(["sessions", decided.session_id])}>{decided.session_id}</a></>
            )}{" "}
            · decided in {milliseconds(decided.elapsed_ms) || "less than 0.01 ms"}
            {decided.calls.length > 0 && <> · {counted(decided.calls.length, "call")}, ${decided.cost_usd}</>}
          </p>
        </div>
        <div class="actions">
          <StateBadge state={decided.state} />
          <a class="button" href={href(["receipts"], { turn: decided.turn_id })}>Receipt</a>
          <button type="button" class="primary" onClick={run} disabled={replay === "running"}>
            Replay <kbd>r</kbd>
          </button>
        </div>
      </header>
      {replay === "running" && <Waiting what="deciding again" />}
      {replay instanceof Failure && <Trouble failure={replay} />}
      {replay !== null && replay !== "running" && !(replay instanceof Failure) && (
        <Card title="Replay"><Replay result={replay} /></Card>
      )}
      {decided.banners.map((banner) => (
        <p key={banner.code} class="note" role="note">
          <span class="mono">{banner.code}</span> {banner.text}
        </p>
      ))}
      {about?.caller_told && (
        <Card title="What the caller was told" class="told">
          <p class="pad">
            <Badge tone="danger">{about.caller_told.status}</Badge> <span class="mono">{about.caller_told.code}</span>{" "}
            {about.caller_told.message}
          </p>
        </Card>
      )}
      <Card title="Why this model" class="flush">
        <Chain decided={decided} />
        <NotAsked turn={decided} />
      </Card>
      {record.failure && <Trouble failure={record.failure} />}
      {about && (
        <>
          <div class="columns even">
            <Message record={about} />
            <Card title="What followed" side={<span class="dim">{counted(followed.length, "event")}</span>}>
              {followed.length === 0 ? (
                <p class="pad dim">{decided.is_preview ? "A preview calls no model." : "No call is on record."}</p>
              ) : (
                <ol class="happenings">
                  {followed.map((each) => (
                    <li key={each.key}>
                      <Time at={each.at} />
                      {each.shown}
                    </li>
                  ))}
                </ol>
              )}
            </Card>
          </div>
          <div class="columns even">
            <Card title="Facts" side={<span class="mono dim" title={decided.facts_id}>{decided.facts_id.slice(0, 19)}…</span>}>
              {about.facts ? <Facts facts={about.facts} /> : <p class="pad dim">The facts are not stored.</p>}
            </Card>
            <Card title="Policy" side={<span class="mono dim" title={decided.policy_id}>{decided.policy_id.slice(0, 19)}…</span>}>
              {about.policy ? <Tree value={about.policy} open={1} /> : <p class="pad dim">{about.policy_told}</p>}
            </Card>
          </div>
          <Card title="In the ledger">
            <dl class="pairs">
              <dt>decision</dt><dd class="mono">{decided.decision_id}</dd>
              <dt>chain</dt><dd class="mono">{about.chain} · entry {count(about.seq)}</dd>
              <dt>hash</dt><dd class="mono break">{about.hash}</dd>
              <dt>facts</dt><dd class="mono break">{decided.facts_id}</dd>
              <dt>policy</dt><dd class="mono break">{decided.policy_id}</dd>
              <dt>made by</dt><dd>pointsman {about.product_version}, decision version {decided.decision_version}</dd>
              {about.trace_id && <><dt>trace</dt><dd class="mono">{about.trace_id}</dd></>}
            </dl>
            <details class="pad">
              <summary>the same in a terminal: <code>pointsman why {decided.turn_id}</code></summary>
              <pre class="screen" tabIndex={0}>{decided.why}</pre>
            </details>
          </Card>
        </>
      )}
    </>
  );
}
