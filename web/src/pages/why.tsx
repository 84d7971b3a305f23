import { useState } from "preact/hooks";
import { ask, Failure, useLoad } from "../api";
import { bytes, count, milliseconds, usd } from "../format";
import { useKeys } from "../keys";
import { Badge, Card, Empty, Model, StateBadge, Time, Trouble, Waiting } from "../parts/bits";
import { Chain, slotName } from "../parts/chain";
import { Tree } from "../parts/json";
import { href } from "../router";
import type { Json, LinkedEntry, Replayed, Turn, TurnRecord } from "../types";

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

function numberOf(value: Json | undefined): number {
  return typeof value === "number" ? value : 0;
}

function Call({ entry }: { entry: LinkedEntry }) {
  const end = (entry.detail.detail ?? {}) as { [key: string]: Json };
  const spent = (end.spent ?? null) as { [key: string]: Json } | null;
  const failed = String(end.error_class ?? "");
  return (
    <div class="happening">
      <p>
        <strong>call</strong> <Model name={String(end.model ?? "")} />{" "}
        <Badge tone={failed ? "danger" : "clear"}>{failed || `${String(end.status ?? "")} ${String(end.stop_reason ?? "")}`}</Badge>
      </p>
      <p class="dim">
        {milliseconds(numberOf(end.elapsed_us) / 1000)}
        {numberOf(end.first_byte_us) > 0 && ` · first byte ${milliseconds(numberOf(end.first_byte_us) / 1000)}`}
        {spent && ` · ${count(numberOf(spent.input_tokens))} + ${count(numberOf(spent.output_tokens))} tokens`}
        {spent && typeof spent.cost_microusd === "number" && ` · ${usd(spent.cost_microusd)}`}
        {numberOf(end.attempts) > 1 && ` · ${numberOf(end.attempts)} attempts`}
      </p>
    </div>
  );
}

function Happening({ entry }: { entry: LinkedEntry }) {
  if (entry.kind === "outcome") return <Call entry={entry} />;
  const decision = (entry.detail.decision ?? null) as { [key: string]: Json } | null;
  const outcome = (decision?.outcome ?? null) as { [key: string]: Json } | null;
  if (entry.kind === "decision.turn.fallback") {
    return (
      <div class="happening">
        <p><strong>fallback</strong> to <Model name={String(outcome?.chosen_model ?? "")} /></p>
        <p class="dim">decided again on the same facts, without the model that failed</p>
      </div>
    );
  }
  if (entry.kind === "decision.placement") {
    return (
      <div class="happening">
        <p><strong>placement</strong> <span class="mono">{String(outcome?.rule_id ?? "")}</span></p>
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
  const calls = about?.linked.filter((entry) => entry.kind === "outcome") ?? [];
  const failed = calls.some((entry) => ((entry.detail.detail ?? {}) as { [key: string]: Json }).error_class);
  const fell = about?.linked.some((entry) => entry.kind === "decision.turn.fallback") ?? false;
  return (
    <>
      <header class="why-head">
        <div>
          <p class="crumbs">
            <a href={href(["turns"])}>Turns</a> <span aria-hidden="true">/</span> <span class="mono">{decided.turn_id}</span>
          </p>
          <h2 class="chosen">
            {decided.chosen_model ? <Model name={decided.chosen_model} /> : "no model may take this turn"}
          </h2>
          <p class="dim">
            {winner && (
              <>
                chosen by <strong>{slotName(winner.policy).toLowerCase()}</strong>
                {winner.rule_name && <> “{winner.rule_name}”</>} ·{" "}
              </>
            )}
            <Time at={decided.at} />
            {about?.session_id && (
              <> · session <a class="mono" href={href(["sessions", about.session_id])}>{about.session_id}</a></>
            )}{" "}
            · decided in {milliseconds(decided.elapsed_ms) || "less than 0.01 ms"}
          </p>
        </div>
        <div class="actions">
          {about?.is_preview && <StateBadge state="preview" />}
          {about && !about.is_preview && (fell ? <StateBadge state="fallback" /> : failed ? <StateBadge state="failed" /> : !decided.chosen_model ? <StateBadge state="refused" /> : null)}
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
      <Card title="Why this model" class="flush">
        <Chain decided={decided} />
      </Card>
      {record.failure && <Trouble failure={record.failure} />}
      {about && (
        <>
          <div class="columns even">
            <Message record={about} />
            <Card title="What followed" side={<span class="dim">{about.linked.length} entries</span>}>
              {about.linked.length === 0 ? (
                <p class="pad dim">{about.is_preview ? "A preview calls nobody." : "No call is on record."}</p>
              ) : (
                <ol class="happenings">
                  {about.linked.map((entry) => (
                    <li key={entry.id + entry.seq}>
                      <Time at={entry.at} />
                      <Happening entry={entry} />
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
