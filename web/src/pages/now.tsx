import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { follow, useLoad, type FeedState, type ServerEvent } from "../api";
import { count, counted, milliseconds, share, usd, words } from "../format";
import { Badge, Bar, Behind, Card, Empty, Model, Stat, Time, Trouble, type Tone } from "../parts/bits";
import { slotShort } from "../parts/chain";
import { colourOf, TurnsChart } from "../parts/chart";
import { Outages } from "../parts/outages";
import { CutNote, PerformanceTable } from "../parts/performance";
import { RangePicker, rangeOf } from "../parts/range";
import { href, type Route } from "../router";
import type { Budget, Overview, Performance, Providers, Turns } from "../types";

const KEPT = 60;

export const CURL = `curl ${location.origin}/v1/chat/completions -H 'content-type: application/json' -d '{"model": "auto", "messages": [{"role": "user", "content": "hello"}]}'`;

interface Line {
  key: string;
  at: string;
  name: string;
  data: Record<string, unknown>;
}

function useFeed(refresh: () => void): [Line[], FeedState] {
  const [lines, setLines] = useState<Line[]>([]);
  const [state, setState] = useState<FeedState>("connecting");
  const late = useRef(refresh);
  late.current = refresh;
  useEffect(() => {
    let timer = 0;
    const told = (event: ServerEvent): void => {
      const line = { key: `${event.name}${event.id}`, at: String(event.data.at ?? ""), name: event.name, data: event.data };
      setLines((known) => [line, ...known].slice(0, KEPT));
      // Many events at once are one look at the figures.
      if (timer === 0) {
        timer = window.setTimeout(() => {
          timer = 0;
          late.current();
        }, 700);
      }
    };
    const stop = follow(told, setState);
    return () => {
      stop();
      clearTimeout(timer);
    };
  }, []);
  return [lines, state];
}

const TONES: Record<string, Tone> = {
  "route.decided": "accent",
  "turn.fallback": "caution",
  "call.ended": "quiet",
  "placement.decided": "quiet",
  "routing.provider_unavailable": "danger",
  "routing.provider_recovered": "clear",
  "routing.policy_invalid": "danger",
  "policy.published": "accent",
  "policy.refused": "danger",
  "placement.tainted": "caution",
  dropped: "caution",
};

const TITLES: Record<string, string> = {
  "route.decided": "decided",
  "turn.fallback": "fallback",
  "call.ended": "call ended",
  "placement.decided": "placed",
  "routing.provider_unavailable": "provider out",
  "routing.provider_recovered": "provider back",
  "routing.policy_invalid": "policy invalid",
  "policy.published": "published",
  "policy.refused": "policy refused",
  "placement.tainted": "held here",
  "placement.cleared": "free again",
  "session.pinned": "pinned",
  "session.unpinned": "unpinned",
  "feedback.given": "feedback",
};

function text(value: unknown): string {
  return value === null || value === undefined ? "" : String(value);
}

function list(value: unknown): string[] {
  return Array.isArray(value) ? value.map(text) : [];
}

function Told({ line }: { line: Line }) {
  const { data } = line;
  switch (line.name) {
    case "route.decided":
    case "turn.fallback":
      return (
        <a href={href(["turns", text(data.turn_id)])}>
          <Model name={text(data.chosen_model)} />{" "}
          <span class="dim">
            {data.rule_name ? `rule “${text(data.rule_name)}”` : slotShort(text(data.policy))}
            {data.is_preview === true && " · preview"}
          </span>
        </a>
      );
    case "call.ended":
      return (
        <a href={href(["turns", text(data.decision_id)])}>
          <Model name={text(data.model)} />{" "}
          <span class="dim">
            {milliseconds(Number(data.elapsed_ms))}
            {data.cost_microusd ? ` · ${usd(Number(data.cost_microusd))}` : ""}
            {data.error_class ? ` · ${text(data.error_class)}` : ""}
          </span>
        </a>
      );
    case "placement.decided":
      return (
        <span>
          <span class="mono">{text(data.rule_id)}</span> <span class="dim">{text(data.gate)}</span>
        </span>
      );
    case "routing.provider_unavailable":
    case "routing.provider_recovered":
      return (
        <span>
          {text(data.provider)} {data.model ? <Model name={text(data.model)} /> : null}{" "}
          <span class="dim">{words(text(data.cause ?? data.reason))}</span>
        </span>
      );
    case "policy.published":
      return (
        <a href={href(["policies"])}>
          policy {text(data.number)} by {text(data.by)}{" "}
          <span class="dim">
            {list(data.files).join(", ")} <span class="mono">{text(data.policy_id).slice(0, 19)}</span>
          </span>
        </a>
      );
    case "policy.refused":
      return (
        <a href={href(["policies"])}>
          {text(data.publication)} <span class="dim">{list(data.problems).join("; ")}</span>
        </a>
      );
    default:
      return <span class="dim">{text(data.session_id ?? data.file ?? data.turn_id ?? data.dropped)}</span>;
  }
}

function Feed({ lines, state, recent }: { lines: Line[]; state: FeedState; recent: Turns | null }) {
  const lamp: [Tone, string] =
    state === "live" ? ["clear", "live"] : state === "lost" ? ["danger", "lost, trying again"] : ["quiet", "connecting"];
  const known = new Set(lines.map((line) => text(line.data.decision_id)));
  const before = (recent?.turns ?? []).filter((turn) => !known.has(turn.decision_id)).slice(0, Math.max(0, 14 - lines.length));
  return (
    <Card title="Live" side={<Badge tone={lamp[0]}>{lamp[1]}</Badge>} class="feed">
      {lines.length === 0 && before.length === 0 ? (
        <Empty title="Nothing was decided yet" command={CURL}>
          Send a turn to the gateway; what is decided appears here at once.
        </Empty>
      ) : (
        <ol class="feed-lines" aria-live="off">
          {lines.map((line) => (
            <li key={line.key} class="fresh">
              <Time at={line.at} />
              <Badge tone={TONES[line.name] ?? "quiet"}>{TITLES[line.name] ?? line.name}</Badge>
              <Told line={line} />
            </li>
          ))}
          {before.map((turn) => (
            <li key={turn.decision_id}>
              <Time at={turn.at} />
              <Badge tone="accent">decided</Badge>
              <a href={href(["turns", turn.turn_id])}>
                <Model name={turn.chosen_model} />{" "}
                <span class="dim">
                  {turn.rule_name ? `rule “${turn.rule_name}”` : slotShort(turn.policy)}
                  {turn.is_preview && " · preview"}
                </span>
              </a>
            </li>
          ))}
        </ol>
      )}
    </Card>
  );
}

function Shares({ overview, models }: { overview: Overview; models: string[] }) {
  const turns = new Map<string, [number, number]>();
  for (const each of overview.buckets) {
    const [many, cost] = turns.get(each.model) ?? [0, 0];
    turns.set(each.model, [many + each.turns, cost + each.cost_microusd]);
  }
  const total = [...turns.values()].reduce((sum, [many]) => sum + many, 0);
  if (total === 0) return <p class="dim pad">No turns in the last day.</p>;
  return (
    <table class="plain shares">
      <thead>
        <tr>
          <th scope="col">model</th>
          <th scope="col" class="number">turns</th>
          <th scope="col" class="wide-only">share</th>
          <th scope="col" class="number">cost</th>
        </tr>
      </thead>
      <tbody>
        {models.map((model) => {
          const [many, cost] = turns.get(model) ?? [0, 0];
          return (
            <tr key={model}>
              <td>
                <span class="swatch" style={{ background: colourOf(models, model) }} />
                <a href={href(["turns"], { model })}><Model name={model} /></a>
              </td>
              <td class="number">{count(many)}</td>
              <td class="wide wide-only">
                <span class="bar" aria-hidden="true">
                  <span class="fill" style={{ width: `${(100 * many) / total}%`, background: colourOf(models, model) }} />
                </span>
                <span class="percent">{share(many, total)}</span>
              </td>
              <td class="number">{usd(cost)}</td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}

function Budgets({ budgets }: { budgets: Budget[] }) {
  if (budgets.length === 0) {
    return (
      <p class="dim pad">
        No budget is set. <code>budgets:</code> in <code>routing.yaml</code> sets one:{" "}
        <a href={href(["help", "reference/access.md"])}>how</a>.
      </p>
    );
  }
  return (
    <ul class="budgets">
      {budgets.map((each) => {
        const limit = Number(each.limit_usd);
        const left = each.left_usd === null ? null : Number(each.left_usd);
        const spent = left === null ? 0 : limit - left;
        const tone = spent >= limit ? "danger" : spent >= 0.8 * limit ? "caution" : "accent";
        return (
          <li key={`${each.name}${each.key_id}`}>
            <span class="budget-name">
              {each.name} <span class="dim">per {each.per}{each.each !== "all" && `, each ${each.each}`}</span>
            </span>
            {left === null ? (
              <span class="dim">limit ${each.limit_usd}</span>
            ) : (
              <>
                <Bar part={spent} whole={limit} tone={tone} />
                <span class="number">{usd(spent * 1e6)} of ${each.limit_usd}</span>
              </>
            )}
          </li>
        );
      })}
    </ul>
  );
}

/** Those that run out first; a budget without a standing comes last. */
function byNeed(budgets: Budget[]): Budget[] {
  const left = (each: Budget): number => (each.left_usd === null ? 2 : Number(each.left_usd) / Math.max(Number(each.limit_usd), 1e-9));
  return [...budgets].sort((a, b) => left(a) - left(b));
}

export function Now({ route }: { route: Route }) {
  const range = rangeOf(route, "24h");
  const performance = useLoad<Performance>(`/api/performance?${range.query}`, 15_000);
  const overview = useLoad<Overview>("/api/overview", 15_000);
  const budgets = useLoad<{ budgets: Budget[] }>("/api/budgets", 15_000);
  const providers = useLoad<Providers>("/api/providers", 5000);
  const recent = useLoad<Turns>("/api/turns?limit=14");
  const [lines, state] = useFeed(() => {
    overview.again();
    performance.again();
    budgets.again();
    providers.again();
  });
  const found = overview.value;
  useEffect(() => {
    if (found && found.behind > 0) {
      const timer = setTimeout(overview.again, 300);
      return () => clearTimeout(timer);
    }
    return undefined;
  }, [found]);
  const models = useMemo(() => {
    const many = new Map<string, number>();
    for (const each of found?.buckets ?? []) many.set(each.model, (many.get(each.model) ?? 0) + each.turns);
    return [...many].sort((a, b) => b[1] - a[1] || a[0].localeCompare(b[0])).map(([model]) => model);
  }, [found]);
  if (overview.failure) return <Trouble failure={overview.failure} />;
  if (!found) return <div class="page-wait" aria-busy="true" />;
  const out = providers.value?.rows.filter((row) => row.clears_in_s !== null) ?? [];
  const total = performance.value?.total;
  const low = (budgets.value?.budgets ?? []).filter((each) => each.left_usd !== null && Number(each.left_usd) < 0.2 * Number(each.limit_usd));
  return (
    <>
      <Behind entries={found.behind} />
      {!found.ledger.writable && (
        <div class="trouble" role="alert">
          <strong>The ledger takes no entries: turns are refused.</strong> <span>{found.ledger.cause}</span>
        </div>
      )}
      {found.stops.map((stop) => (
        <div key={stop} class="trouble" role="alert">
          <strong>Calls are stopped.</strong> <span>{stop}</span>
        </div>
      ))}
      {found.configuration.map((problem) => (
        <div key={problem} class="trouble" role="alert">
          <span class="mono">{problem}</span>
          <a class="button small" href={href(["policies"])}>Open policies</a>
        </div>
      ))}
      <div class="row"><span class="dim">requests and times: {range.label}</span><RangePicker route={route} range={range} /></div>
      <div class="stats">
        <Stat label="turns today" value={count(found.turns_today)} note="since midnight UTC" />
        <Stat label="cost today" value={usd(found.cost_today_microusd)} note="on record" />
        <Stat
          label="errors"
          value={total ? share(total.failed, total.turns) : "–"}
          note={total ? `${count(total.failed)} of ${counted(total.turns, "request")} failed, ${count(total.fallbacks)} taken over` : ""}
          tone={total && total.failed > 0 ? "danger" : undefined}
        />
        <Stat
          label="took, p95"
          value={total?.took ? milliseconds(total.took.p95_ms) : "–"}
          note={total?.first_byte ? `first byte ${milliseconds(total.first_byte.p95_ms)}` : "first byte unknown"}
        />
        <Stat
          label="out"
          value={count(out.length)}
          note={out.length === 0 ? "all providers answer" : counted(out.length, "provider or model", "providers and models")}
          tone={out.length > 0 ? "danger" : undefined}
        />
        <Stat
          label="budgets low"
          value={count(low.length)}
          note={low.length === 0 ? "none below a fifth" : low.map((each) => each.name).slice(0, 3).join(", ")}
          tone={low.length > 0 ? "caution" : undefined}
        />
        <Stat label="held here" value={count(found.tainted_sessions)} note="sessions" />
      </div>
      {performance.value && performance.value.by_model.length > 0 && (
            <Card class="flush" title="How models did" side={<a href={href(["providers"], Object.fromEntries(route.query))}>by provider</a>}>
              <CutNote found={performance.value} />
              <PerformanceTable rows={performance.value.by_model} what="model" />
            </Card>
          )}
      <div class="columns now">
        <div class="stack">
          <Card title="Turns" side={<span class="dim">last 24 hours</span>}>
            {models.length > 0 && (
              <TurnsChart buckets={found.buckets} models={models} until={found.at} bucketS={found.bucket_s} />
            )}
            <Shares overview={found} models={models} />
          </Card>
          <Card title="Budgets">{budgets.value && <Budgets budgets={byNeed(budgets.value.budgets)} />}</Card>
          <Card title="Providers" side={<a href={href(["providers"])}>more</a>}>
            {providers.value && <Outages providers={providers.value} changed={providers.again} />}
          </Card>
        </div>
        <Feed lines={lines} state={state} recent={recent.value} />
      </div>
    </>
  );
}
