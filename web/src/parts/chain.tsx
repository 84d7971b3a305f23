/** A turn's chain as a line of points: each slot may set them, and one does. Document 002 §7.4. */
import { words } from "../format";
import type { Attempt, Decided, Link, Placed, Turn } from "../types";
import { Badge, Model, VerdictBadge } from "./bits";

const NAMES: Record<string, string> = {
  per_message_override: "Override in the message",
  manual_sticky: "Pinned by hand",
  rule: "Rules",
  pattern: "Similar turns",
  delegate_request: "Delegation",
  workspace_default: "Workspace default",
  global_default: "Global default",
};

const SHORT: Record<string, string> = {
  per_message_override: "override",
  manual_sticky: "pin",
  rule: "rule",
  pattern: "similar turns",
  delegate_request: "delegation",
  workspace_default: "workspace default",
  global_default: "global default",
};

export function slotShort(slot: string): string {
  return SHORT[slot] ?? words(slot);
}

export function slotName(slot: string): string {
  return NAMES[slot] ?? words(slot);
}

function Points({ link, isPast }: { link: Link; isPast: boolean }) {
  const { verdict } = link;
  return (
    <svg class={`points ${verdict}`} width="72" height="40" viewBox="0 0 72 40" fill="none" aria-hidden="true">
      {verdict !== "not_applicable" && <path class="siding" d="M16 6C16 24 30 20 46 20H58" />}
      {verdict === "rejected" && <path class="buffer" d="M58 12V28" />}
      {verdict === "deferred" && <path class="signal" d="M52 14L58 20L52 26" />}
      {verdict === "chose" && <path class="arrow" d="M54 13L63 20L54 27" />}
      <circle class={isPast ? "lever past" : "lever"} cx="16" cy={verdict === "not_applicable" ? 20 : 8} r="4.500" />
    </svg>
  );
}

/** The candidates of a slot that a veto rejected, the slot's own among them once. */
export function losers(link: Link): Attempt[] {
  const { candidate_model: model, validation_failure: code } = link;
  const isTold = link.rule_attempts.some((each) => each.candidate_model === model && each.validation_failure === code);
  if (model === null || code === null || isTold) return link.rule_attempts;
  const own = { rule_name: link.rule_name ?? "", candidate_model: model, validation_failure: code, reason: link.reason };
  return [...link.rule_attempts, own];
}

export function Losers({ lost }: { lost: Attempt[] }) {
  if (lost.length === 0) return null;
  return (
    <ol class="attempts">
      {lost.map((each, index) => (
        <li key={index}>
          <span class="buffer-mark" aria-hidden="true" />
          {each.rule_name && <>rule “{each.rule_name}” → </>}
          <Model name={each.candidate_model} /> <Badge tone="danger">{words(each.validation_failure)}</Badge>{" "}
          <span class="dim">{each.reason}</span>
        </li>
      ))}
    </ol>
  );
}

function Said({ link }: { link: Link }) {
  return (
    <div class="said">
      {link.candidate_model && !link.validation_failure && (
        <p class="candidate">
          <Model name={link.candidate_model} />
        </p>
      )}
      {!link.validation_failure && <p class={link.verdict === "chose" ? "" : "dim"}>{link.reason}</p>}
      <Losers lost={losers(link)} />
      <Evidence link={link} />
    </div>
  );
}

/** Who would have taken the turn, had no earlier slot done so. */
export function NotAsked({ turn }: { turn: Turn }) {
  if (turn.not_asked.length === 0 && !turn.not_asked_unknown) return null;
  return (
    <div class="pad not-asked">
      <p class="dim">not asked, since an earlier slot won:</p>
      <ul>
        {turn.not_asked.map((each, index) => (
          <li key={index}>
            {slotShort(each.policy)}
            {each.rule_name && <> “{each.rule_name}”</>} → <Model name={each.model} />
          </li>
        ))}
        {turn.not_asked_unknown && <li class="dim">cannot be told for all: {turn.not_asked_unknown}</li>}
      </ul>
    </div>
  );
}

function Evidence({ link }: { link: Link }) {
  if (!link.neighbours?.length && !link.pattern_alternatives?.length) return null;
  return (
    <details class="evidence" open={link.verdict === "chose"}>
      <summary>
        {link.neighbours?.length ?? 0} similar turns
        {link.confidence !== null && ` · confidence ${link.confidence.toFixed(2)}`}
        {link.flip_margin !== null && ` · another model would be first with +${link.flip_margin.toFixed(3)} success`}
      </summary>
      {!!link.pattern_alternatives?.length && (
        <div class="scroll">
          <table class="plain">
            <thead>
              <tr>
                <th scope="col">model</th>
                <th scope="col" class="number">score</th>
                <th scope="col" class="number">turns</th>
              </tr>
            </thead>
            <tbody>
              {link.pattern_alternatives.map((each) => (
                <tr key={each.model}>
                  <td><Model name={each.model} /></td>
                  <td class="number">{each.score.toFixed(3)}</td>
                  <td class="number">{each.sample_size}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {!!link.neighbours?.length && (
        <div class="scroll">
          <table class="plain">
            <thead>
              <tr>
                <th scope="col">neighbour</th>
                <th scope="col">model</th>
                <th scope="col" class="number">similarity</th>
                <th scope="col" class="number">success</th>
                <th scope="col" class="number">turns</th>
              </tr>
            </thead>
            <tbody>
              {link.neighbours.map((each) => (
                <tr key={each.fingerprint_id + each.model}>
                  <td class="mono">{each.fingerprint_id}</td>
                  <td><Model name={each.model} /></td>
                  <td class="number">
                    <span class="bar short" aria-hidden="true">
                      <span class="fill accent" style={{ width: `${each.similarity * 100}%` }} />
                    </span>
                    {each.similarity.toFixed(3)}
                  </td>
                  <td class="number">{each.success === null ? "–" : each.success.toFixed(2)}</td>
                  <td class="number">{each.sample_size}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </details>
  );
}

function Placement({ placed }: { placed: Placed | null }) {
  if (placed === null) return null;
  const said = { open: "may leave this machine", local: "stays on this machine", closed: "goes nowhere",
    zone: `stays within ${(placed.zones ?? []).join(" and ")}`,
  };
  return (
    <li class={`slot placement ${placed.gate}`}>
      <div class="rail">
        <svg class={`gate ${placed.gate}`} width="72" height="40" viewBox="0 0 72 40" fill="none" aria-hidden="true">
          <path class="post" d="M38 36V8" />
          <rect class="lamp-box" x="32" y="4" width="12" height="20" rx="4" />
          <circle class="lamp" cx="38" cy={placed.gate === "open" ? 18 : 10} r="3.500" />
          <circle class="lever" cx="16" cy="20" r="4.500" />
        </svg>
      </div>
      <div class="slot-name">
        Placement
        <Badge tone={placed.gate === "open" ? "clear" : placed.gate === "closed" ? "danger" : "caution"}>
          {said[placed.gate]}
        </Badge>
      </div>
      <div class="said">
        <p>
          <span class="mono">{placed.rule_id}</span>
        </p>
        {placed.reason && <p class="dim">{placed.reason}</p>}
      </div>
    </li>
  );
}

export function Chain({ decided }: { decided: Decided }) {
  const winner = decided.winner_index;
  return (
    <ol class="chain" aria-label="the chain of slots, in order">
      <Placement placed={decided.placement} />
      {decided.chain.map((link, index) => {
        const isPast = winner >= 0 && index > winner;
        return (
          <li key={link.policy} class={`slot ${link.verdict} ${isPast ? "past" : ""}`}>
            <div class="rail">
              <Points link={link} isPast={isPast} />
            </div>
            <div class="slot-name">
              {slotName(link.policy)}
              <VerdictBadge verdict={link.verdict} />
            </div>
            <Said link={link} />
          </li>
        );
      })}
    </ol>
  );
}
