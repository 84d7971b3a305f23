"""The policy chain: seven slots in fixed order, the first whose candidate validates wins.

Pure, and never raises on valid facts. Document 002 §4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, lru_cache

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from pointsman.kernel.content import Texts
from pointsman.kernel.number import billionths_text
from pointsman.kernel.replay import Decided, PureDecider
from pointsman.turns.chain.banners import banners
from pointsman.turns.chain.exploring import is_explored, may_cost, newcomers
from pointsman.turns.chain.opinion_step import next_step, opinion_plan
from pointsman.turns.chain.validation import Rejection, is_plain, rejection, unknown_needs
from pointsman.turns.compiled import (
    CompiledRule,
    CompiledTurnPolicy,
    WorkspaceScope,
    compile_policy,
)
from pointsman.turns.facts import FACTS_FORM, TurnFacts, with_text
from pointsman.turns.learning.evidence import evidence_of_rows
from pointsman.turns.learning.evidence_choice import Weighed, weigh
from pointsman.turns.learning.pattern import PatternSettings, Recommendation, recommend
from pointsman.turns.learning.pattern_row import ModelOption, Neighbour
from pointsman.turns.policy import POLICY_FORM, TurnPolicy
from pointsman.turns.registry.models import TIERS, model_id
from pointsman.turns.rules.condition import FactsView
from pointsman.turns.rules.split import draw_text
from pointsman.turns.rules.table import hit_text, passed_text
from pointsman.turns.trace import (
    OUTCOME_FORM,
    TRACE_FORM,
    Evaluation,
    OpinionStep,
    PassedRule,
    RuleAttempt,
    Slot,
    SplitDraw,
    TableHit,
    TurnOutcome,
    TurnTrace,
)

DECISION_VERSION = 1

_NO_OVERRIDE = "no @model token in message"
_STICKY = "sticky model of this session"
_NAMED = "named in the request"
_KEPT_HERE = "placement keeps this turn here"
_KEPT_WITHIN = "placement keeps this turn within zones that hold this machine"
_CHOSEN_HERE = "a local model was chosen by hand"

Policy = Callable[["Turn"], Evaluation]


class Turn:
    """One turn on its way through the chain."""

    __slots__ = ("_look", "facts", "local_choice", "ready", "scope")

    def __init__(self, ready: CompiledTurnPolicy, facts: TurnFacts) -> None:
        self.ready = ready
        self.facts = facts
        self._look: FactsView | None = None
        self.scope: WorkspaceScope = ready.scope(facts.workspace_path)
        self.local_choice = ""
        """A local model that was chosen by hand and rejected: no cloud model may replace it."""

    @property
    def look(self) -> FactsView:
        """The facts as rules look at them."""
        if self._look is None:
            self._look = self.ready.look(self.facts)
        return self._look

    @property
    def is_named(self) -> bool:
        """Whether the request itself names its model."""
        return self.facts.named_model is not UNSET and not self.facts.is_worker

    @property
    def must_stay(self) -> bool:
        """Whether a placement keeps the turn on this machine, or within zones that hold it."""
        placed = self.facts.placement
        if placed is None:
            return self.facts.privacy_level == "local"
        return placed.gate in {"local", "zone"}

    @property
    def why_here(self) -> str:
        """Why the local model takes the turn, where no other candidate can."""
        if not self.must_stay:
            return _CHOSEN_HERE
        placed = self.facts.placement
        return _KEPT_HERE if placed is None or placed.gate == "local" else _KEPT_WITHIN

    @property
    def local_model(self) -> str:
        """The model for turns that must stay here: placement.yaml's, else models.yaml's."""
        placed = self.facts.placement
        if placed is None or placed.local_model is UNSET:
            return self.ready.local_model
        return model_id(placed.local_model)

    def veto(self, candidate: str) -> Rejection | None:
        """Return why a candidate may not take the turn; None where it may."""
        if self.local_choice and not self.is_local(candidate):
            reason = f"{candidate} is in the cloud, and {self.local_choice} was chosen by hand"
            return Rejection("privacy_blocked", reason)
        return rejection(candidate, self.ready.models, self.facts)

    def is_local(self, name: str) -> bool:
        """Tell whether a model runs on this machine."""
        model = self.ready.models.get(name)
        return model is not None and model.location == "local"


class _ByHand(Struct, frozen=True):
    """A decision for the model that its caller chose, with its bytes."""

    outcome: TurnOutcome
    trace: TurnTrace
    written: Decided


def decide(compiled: CompiledTurnPolicy, facts: TurnFacts) -> tuple[TurnOutcome, TurnTrace]:
    """Run the chain; a model chosen by hand that no veto looks at is taken without it."""
    named = facts.named_model
    chosen = facts.sticky_model if named is UNSET else named
    if chosen is not None and facts.override is None and not facts.is_worker:
        model = compiled.models.get(chosen)
        if model is not None and is_plain(chosen, model, facts):
            found = _chosen_by_hand(chosen, _STICKY if named is UNSET else _NAMED)
            return found.outcome, found.trace
    return run_chain(compiled, facts)


def run_chain(ready: CompiledTurnPolicy, facts: TurnFacts) -> tuple[TurnOutcome, TurnTrace]:
    """Ask slot after slot, until one has a candidate that validates."""
    turn = Turn(ready, facts)
    chain: list[Evaluation] = []
    winner = -1
    for slot in _CHAIN:
        chain.append(slot(turn))
        if chain[-1].verdict == "chose":
            winner = len(chain) - 1
            break
        if chain[-1].verdict == "rejected" and _is_last(turn, chain[-1]):
            break
    if winner >= 0:
        chain[winner] = _with_unknown_needs(turn, chain[winner])
    if winner >= 0 and chain[winner].policy == "rule":
        chain += _deferred_pattern(turn)
    chosen = (chain[winner].candidate_model or "") if winner >= 0 else ""
    # The usual turn: the first slot that spoke is followed, and there is nothing to tell.
    is_quiet = winner >= 0 and chain[winner].rule_name is None
    is_quiet = is_quiet and all(each.verdict == "not_applicable" for each in chain[:winner])
    told = () if is_quiet else banners(ready, facts, chain, winner)
    opinion = _opinion_step(turn, chain[winner]) if winner >= 0 else UNSET
    if opinion is not UNSET:
        chosen = opinion.model
    return TurnOutcome(chosen, winner, told), TurnTrace(tuple(chain), opinion)


def _opinion_step(turn: Turn, winner: Evaluation) -> OpinionStep | UnsetType:
    """Return the next step of a second opinion, where the facts are those of one."""
    opinions = turn.facts.opinions
    plan = None if opinions is UNSET else opinion_plan(turn.ready, turn.facts, winner)
    if plan is None or opinions is UNSET:
        return UNSET
    return next_step(plan, opinions, winner.candidate_model or "", turn.veto)


def _with_unknown_needs(turn: Turn, chosen: Evaluation) -> Evaluation:
    """Add what the turn needs and nothing is known of in the model that takes it."""
    model = turn.ready.models[chosen.candidate_model or ""]
    unknown = unknown_needs(model, turn.facts)
    return replace(chosen, unknown_capabilities=unknown) if unknown else chosen


def _is_last(turn: Turn, rejected: Evaluation) -> bool:
    """Tell whether no later slot may stand in for a rejected candidate."""
    if rejected.policy == "manual_sticky":
        # A request that names its model gets it, or a refusal (companion D-002-33).
        return turn.is_named
    # The planner asked for a tier: no default may stand in for it (companion D-002-20).
    return rejected.policy == "delegate_request"


def _override(turn: Turn) -> Evaluation:
    override = turn.facts.override
    if override is None or turn.facts.is_worker:
        return _silent("per_message_override", _NO_OVERRIDE)
    reason = f'override "@{override.alias}"'
    return _by_hand(turn, "per_message_override", override.model, reason)


def _sticky(turn: Turn) -> Evaluation:
    named, sticky = turn.facts.named_model, turn.facts.sticky_model
    if named is not UNSET and not turn.facts.is_worker:
        return _by_hand(turn, "manual_sticky", named, _NAMED)
    if sticky is None or turn.facts.is_worker:
        return _silent("manual_sticky", "no sticky model set")
    return _by_hand(turn, "manual_sticky", sticky, _STICKY)


def _by_hand(turn: Turn, slot: Slot, candidate: str, reason: str) -> Evaluation:
    """Judge a choice made by hand; a local one that is rejected keeps the turn on this machine."""
    judged = _judge(turn, slot, candidate, reason)
    if judged.verdict == "rejected" and turn.is_local(candidate):
        turn.local_choice = turn.local_choice or candidate
    return judged


def _rule(turn: Turn) -> Evaluation:
    """Take the first rule that matches and whose model validates (companion D-002-1)."""
    if not turn.scope.rules:
        return _silent("rule", "no rule matched")
    passed: list[PassedRule] = []
    found = _first_rule(turn, passed)
    return replace(found, passed_over=tuple(passed)) if passed else found


def _first_rule(turn: Turn, passed: list[PassedRule]) -> Evaluation:
    """Ask the rules in order; add to `passed` those that had no answer."""
    attempts: list[RuleAttempt] = []
    look = turn.look
    for each in turn.scope.worth_asking(look):
        if not each.matches(look):
            if look.unanswered:
                passed += _passed_rule(each, look)
            continue
        look.unanswered.clear()
        name = each.rule.name
        use, draw = each.choose(look)
        hit = draw if isinstance(draw, TableHit) else UNSET
        if use is None:
            passed += [] if hit is UNSET else [PassedRule(name, passed_text(hit))]
            continue
        veto = turn.veto(use)
        if veto is None:
            chosen = Evaluation(
                "rule", "chose", use, f'rule "{name}" matched', name, tuple(attempts)
            )
            return chosen if draw is None else _with_draw(chosen, draw)
        attempts.append(RuleAttempt(name, use, veto.code, veto.reason, hit))
    if not attempts:
        return _silent("rule", "no rule matched")
    last = attempts[-1]
    return Evaluation(
        "rule",
        "rejected",
        last.candidate_model,
        f'rule "{last.rule_name}" matched, {last.reason}',
        last.rule_name,
        tuple(attempts),
        validation_failure=last.validation_failure,
    )


def _passed_rule(rule: CompiledRule, look: FactsView) -> list[PassedRule]:
    """Tell why a rule had no answer; nothing where it does not match whatever the answer."""
    reason = "; ".join(dict.fromkeys(look.unanswered))
    is_open = rule.may_match is not None and rule.may_match(look)
    look.unanswered.clear()
    text = f"its expression has no answer: {reason}"
    return [PassedRule(rule.rule.name, text)] if is_open else []


def _with_draw(chosen: Evaluation, draw: SplitDraw | TableHit) -> Evaluation:
    """Add the slot in which a turn fell, or the row that took it."""
    if isinstance(draw, TableHit):
        return replace(chosen, reason=f"{chosen.reason}, {hit_text(draw)}", table=draw)
    return replace(chosen, reason=f"{chosen.reason}, {draw_text(draw)}", split=draw)


def _pattern(turn: Turn) -> Evaluation:
    settings = turn.scope.pattern
    if turn.facts.is_worker or turn.facts.delegate_tier is not None:
        return _silent("pattern", "delegate_request_in_flight")
    if settings.mode == "off":
        return _silent("pattern", "the pattern store is off")
    found = _recommendation(turn.facts, settings)
    newcomer = _try_newcomer(turn)
    if found is None:
        return newcomer or _silent("pattern", "no similar turns recorded")
    return _with_evidence(found, newcomer or _follow(turn, found))


def _follow(turn: Turn, found: Recommendation | Weighed) -> Evaluation:
    """Follow a recommendation: not at all, to its runner-up, or to the model it speaks for."""
    if found.model is None:
        return Evaluation("pattern", "not_applicable", None, found.reason)
    if turn.scope.pattern.mode == "observe":
        reason = f"observing only: would suggest {found.model}, {_evidence(found)}"
        return Evaluation("pattern", "not_applicable", None, reason)
    return _explore(turn, found) or _judge(turn, "pattern", found.model, _evidence(found))


def _recommendation(facts: TurnFacts, settings: PatternSettings) -> Recommendation | Weighed | None:
    """Ask the method of the policy; None where nothing is known."""
    if settings.method is UNSET:
        return recommend(facts.pattern_rows, settings) if facts.pattern_rows else None
    evidence = facts.pattern_evidence
    if evidence is UNSET and facts.pattern_rows:
        evidence = evidence_of_rows(facts.pattern_rows, settings.k)
    if evidence is UNSET or not evidence.models:
        return None
    return weigh(evidence, settings)


def _try_newcomer(turn: Turn) -> Evaluation | None:
    """Choose a model that had too few tries, where this turn drew that and one may take it."""
    if turn.facts.exploring is UNSET:
        return None
    for name, count in newcomers(turn.facts, turn.ready, turn.scope):
        number = f"try {count + 1} of the first {turn.scope.pattern.explore_first}"
        judged = _judge(turn, "pattern", name, f"exploring: {number}")
        if judged.verdict == "chose":
            return replace(judged, is_exploring=True)
    return None


def _explore(turn: Turn, found: Recommendation | Weighed) -> Evaluation | None:
    """Choose the runner-up, where this turn drew that and the runner-up may take it."""
    if len(found.options) < 2 or not is_explored(turn.facts, turn.ready, turn.scope):
        return None
    runner_up = found.options[1].model
    if not may_cost(turn.facts, turn.ready, turn.scope, runner_up):
        return None
    reason = f"exploring the runner-up of {found.model}"
    judged = _judge(turn, "pattern", runner_up, reason)
    return replace(judged, is_exploring=True) if judged.verdict == "chose" else None


def _deferred_pattern(turn: Turn) -> list[Evaluation]:
    """Return the pattern slot's choice after a rule won; it changes nothing."""
    if turn.ready.policy.trace_deferred == "off":
        return []
    found = _pattern(turn)
    if found.verdict == "not_applicable":
        return [found]
    return [replace(found, verdict="deferred", reason=f"{found.reason}, outranked by rule")]


def _delegate(turn: Turn) -> Evaluation:
    tier = turn.facts.delegate_tier
    if tier is None:
        return _silent("delegate_request", "not a delegation")
    said: list[str] = []
    last: Evaluation | None = None
    for step in TIERS[TIERS.index(tier) :]:
        model = turn.scope.tiers.get(step)
        if model is None:
            said.append(f"tier {step} has no model")
            if step == tier:
                break
            continue
        last = _judge(turn, "delegate_request", model, f"tier {step}")
        said.append(f"tier {step}: {last.reason}" if last.verdict == "rejected" else f"tier {step}")
        if last.verdict == "chose":
            return replace(last, reason="; upgraded: ".join(said))
    reason = "no_model_available_for_tier: " + "; ".join(said)
    if last is None:
        return Evaluation("delegate_request", "rejected", None, reason)
    return replace(last, reason=reason)


def _workspace_default(turn: Turn) -> Evaluation:
    if not turn.scope.defaults:
        return _silent("workspace_default", "no workspace default set")
    return _first_default(turn, "workspace_default", turn.scope.defaults, "workspace default")


def _global_default(turn: Turn) -> Evaluation:
    """Ask the defaults in order, then the local model where the turn may go nowhere else."""
    defaults = turn.ready.defaults
    if not defaults:
        return _silent("global_default", "no global default set")
    found = _first_default(turn, "global_default", defaults, "global default")
    if found.verdict == "chose":
        return found
    stays = turn.must_stay or bool(turn.local_choice)
    if not stays or turn.local_model in defaults:
        return found
    attempts = found.rule_attempts or (_attempt(found),)
    own = _judge(turn, "global_default", turn.local_model, turn.why_here)
    if own.verdict == "rejected":
        attempts = (*attempts, _attempt(own))
    return replace(own, rule_attempts=attempts)


def _first_default(turn: Turn, slot: Slot, names: Sequence[str], reason: str) -> Evaluation:
    """Take the first of a list of defaults that validates; what lost before it is told."""
    attempts: list[RuleAttempt] = []
    for number, name in enumerate(names, 1):
        said = reason if len(names) == 1 else f"{reason}, {number} of {len(names)}"
        judged = _judge(turn, slot, name, said)
        if judged.verdict == "rejected" and len(names) > 1:
            attempts.append(_attempt(judged))
        if judged.verdict == "chose" or number == len(names):
            break
    return replace(judged, rule_attempts=tuple(attempts)) if attempts else judged


def _attempt(rejected: Evaluation) -> RuleAttempt:
    """Return a rejected candidate of a list, as it stands beside the one that is told about."""
    failure = rejected.validation_failure or "not_configured"
    return RuleAttempt("", rejected.candidate_model or "", failure, rejected.reason)


_CHAIN: tuple[Policy, ...] = (
    _override,
    _sticky,
    _rule,
    _pattern,
    _delegate,
    _workspace_default,
    _global_default,
)


@cache
def _silent(slot: Slot, reason: str) -> Evaluation:
    # Slots keep silent for a dozen reasons in all; each is said by the same value.
    return Evaluation(slot, "not_applicable", None, reason)


def _judge(turn: Turn, slot: Slot, candidate: str, reason: str) -> Evaluation:
    """Let a slot's candidate pass the vetoes, or say which one it failed."""
    veto = turn.veto(candidate)
    if veto is None:
        return Evaluation(slot, "chose", candidate, reason)
    return Evaluation(slot, "rejected", candidate, veto.reason, validation_failure=veto.code)


def _with_evidence(found: Recommendation | Weighed, evaluation: Evaluation) -> Evaluation:
    """Add the neighbours and scores the pattern slot used."""
    if isinstance(found, Weighed):
        return replace(
            evaluation,
            confidence=found.confidence,
            pattern_alternatives=found.options,
            neighbours=found.neighbours,
            flip_margin=found.flip_margin,
            success_per_usd=found.success_per_usd,
            calibration_id=found.calibration_id or UNSET,
        )
    if not found.neighbours:
        return evaluation
    return replace(
        evaluation,
        confidence=found.confidence,
        pattern_alternatives=tuple(
            ModelOption(each.model, each.score, each.sample_size) for each in found.options
        ),
        neighbours=tuple(
            Neighbour(row.fingerprint_id, row.model, row.similarity, row.success, row.sample_size)
            for row in found.neighbours
        ),
        flip_margin=found.flip_margin,
    )


def _evidence(found: Recommendation | Weighed) -> str:
    if isinstance(found, Weighed):
        return found.reason
    return f"confidence {billionths_text(found.confidence)}, {found.sample_size} samples"


@lru_cache(maxsize=1024)
def _chosen_by_hand(model: str, reason: str) -> _ByHand:
    """Return what the chain says when the model chosen by hand takes the turn."""
    chosen = Evaluation("manual_sticky", "chose", model, reason)
    trace = TurnTrace((_silent("per_message_override", _NO_OVERRIDE), chosen))
    outcome = TurnOutcome(model, 1, ())
    written = Decided(OUTCOME_FORM.encode(outcome), TRACE_FORM.encode(trace))
    return _ByHand(outcome, trace, written)


def encode_decision(outcome: TurnOutcome, trace: TurnTrace) -> Decided:
    """Return the canonical bytes of a decision; those of a choice by hand are there already."""
    if outcome.winner_index == 1:
        known = _chosen_by_hand(outcome.chosen_model, trace.chain[1].reason)
        if known.trace is trace:
            return known.written
    return Decided(OUTCOME_FORM.encode(outcome), TRACE_FORM.encode(trace))


def _decide_bytes(ready: CompiledTurnPolicy, facts: TurnFacts) -> Decided:
    return encode_decision(*decide(ready, facts))


def _restore_text(ready: CompiledTurnPolicy, facts: TurnFacts, texts: Texts) -> TurnFacts:
    # Only a policy that reads the text needs it: erasing leaves the others replayable.
    return with_text(facts, texts) if ready.reads_text else facts


DECIDER: PureDecider[TurnPolicy, CompiledTurnPolicy, TurnFacts] = PureDecider(
    "turn",
    DECISION_VERSION,
    (POLICY_FORM.form, FACTS_FORM),
    compile_policy,
    _decide_bytes,
    _restore_text,
)
