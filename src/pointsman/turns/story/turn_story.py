"""What happened in a turn: its decisions, every call in order, who served, and who was not asked.

One record for every surface: `audit.turn_story` reads it from the ledger, `turns.explain` renders
it as text and JSON. Nothing here is recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal, get_args

from msgspec import UNSET, Struct

from pointsman.errors import MissingSnapshot
from pointsman.kernel.instant import Instant
from pointsman.kernel.number import MicroUsd
from pointsman.turns.chain.validation import rejection
from pointsman.turns.compiled import CompiledRule, CompiledTurnPolicy, WorkspaceScope
from pointsman.turns.facts import TurnFacts, with_placement
from pointsman.turns.trace import Evaluation, Shown, Slot, TurnOutcome, TurnTrace, ValidationFailure


def unasked_candidates(
    ready: CompiledTurnPolicy,
    facts: TurnFacts,
    outcome: TurnOutcome,
    trace: TurnTrace,
    missing: str = "",
) -> UnaskedCandidates:
    """Return the rules and defaults behind the winner that match and whose model validates.

    `missing` says why the facts are without their text, for rules that read it.
    """
    if outcome.winner_index < 0 or facts.named_model is not UNSET:
        # A request that names its model leaves the others no part in it.
        return UnaskedCandidates()
    winner, scope = trace.chain[outcome.winner_index], ready.scope(facts.workspace_path)
    look, unread = ready.look(facts), 0
    found: list[UnaskedCandidate] = []
    for each in _rules_behind(winner, scope):
        try:
            model = each.choose(look)[0] if each.matches(look) else None
            if model is not None:
                found.append(UnaskedCandidate("rule", each.rule.name, model))
        except MissingSnapshot:
            unread += 1
    found += _defaults_behind(winner, scope, ready.defaults, facts)
    able = tuple(each for each in found if rejection(each.model, ready.models, facts) is None)
    rules = "1 rule reads" if unread == 1 else f"{unread} rules read"
    return UnaskedCandidates(able, f"{rules} the message: {missing}" if unread else "")


def preview_story(ready: CompiledTurnPolicy, facts: TurnFacts, shown: Shown) -> TurnStory:
    """Return a preview that was just decided on these facts as a turn that can be shown."""
    facts = facts if shown.placed is None else with_placement(facts, shown.placed)
    return TurnStory(shown, unasked=unasked_candidates(ready, facts, shown.outcome, shown.trace))


def _rules_behind(winner: Evaluation, scope: WorkspaceScope) -> Sequence[CompiledRule]:
    if winner.policy in {"per_message_override", "manual_sticky"}:
        return scope.rules
    if winner.policy != "rule":
        return ()
    for number, each in enumerate(scope.rules, 1):
        if each.rule.name == winner.rule_name and winner.candidate_model in each.rule.models:
            return scope.rules[number:]
    return ()


def _defaults_behind(
    winner: Evaluation, scope: WorkspaceScope, shared: tuple[str, ...], facts: TurnFacts
) -> Iterator[UnaskedCandidate]:
    if facts.delegate_tier is not None:
        # The planner asked for a tier: no default may stand in for it (companion D-002-20).
        return
    own = scope.defaults
    if winner.policy == "global_default":
        own = ()
    elif winner.policy == "workspace_default":
        own = _behind(winner, own)
    yield from (UnaskedCandidate("workspace_default", "", each) for each in own)
    if winner.policy == "global_default":
        shared = _behind(winner, shared)
    yield from (UnaskedCandidate("global_default", "", each) for each in shared)


def _behind(winner: Evaluation, models: tuple[str, ...]) -> tuple[str, ...]:
    model = winner.candidate_model
    return models[models.index(model) + 1 :] if model in models else ()


TurnState = Literal["open", "done", "failed", "fallback", "refused", "preview"]
"""What became of a turn; `open` is one whose call has not ended, or not on record."""

CallRole = Literal["turn", "shadow", "judge"]
CallOutcome = Literal["done", "failed", "refused", "unknown"]

REFUSALS: Final = frozenset((*get_args(ValidationFailure), "confirmation_needed"))
"""The error classes of calls that were never made: a veto spoke after the decision."""


class TurnCall(Struct, frozen=True):
    """One call of a model, as its outcome entry has it; an uncharged call used nothing."""

    decision_id: str
    at: Instant
    role: CallRole
    model: str
    outcome: CallOutcome
    location: str = ""
    number: int = 1
    error_class: str = ""
    status: int = 0
    attempts: int = 0
    stop_reason: str = ""
    first_byte_us: int = 0
    elapsed_us: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    cost_microusd: MicroUsd | None = MicroUsd(0)
    is_estimated: bool = False

    @property
    def cause(self) -> str:
        """Why it did not end well: the class of the error, and the provider's status."""
        if not self.error_class or not self.status or self.status == OK:
            return self.error_class
        return f"{self.error_class}, status {self.status}"


OK: Final = 200
"""A stream that broke off had this status: it says nothing about the failure."""


class LaterDecision(Struct, frozen=True):
    """A further decision about a turn.

    A model failed, the user took the store's suggestion, or a step of a second opinion was taken.
    """

    kind: Literal["fallback", "override", "opinion"]
    decision_id: str
    at: Instant
    outcome: TurnOutcome
    trace: TurnTrace
    excluded_models: tuple[str, ...] = ()


class PlacementRefusal(Struct, frozen=True):
    """A call that would have gone on in its turn, and that its placement kept from its model."""

    decision_id: str
    at: Instant
    model: str
    rule_id: str
    reason: str


class UnaskedCandidate(Struct, frozen=True):
    """A rule or default that would have taken the turn, had no earlier slot done so."""

    policy: Slot
    rule_name: str
    model: str


class UnaskedCandidates(Struct, frozen=True):
    """The candidates that were not asked; `unknown` says why some cannot be told."""

    candidates: tuple[UnaskedCandidate, ...] = ()
    unknown: str = ""


class TurnStory(Struct, frozen=True):
    """One turn from its first decision to its last call. `beside` are shadow runs and judges."""

    first: Shown
    later: tuple[LaterDecision, ...] = ()
    calls: tuple[TurnCall, ...] = ()
    beside: tuple[TurnCall, ...] = ()
    refusals: tuple[PlacementRefusal, ...] = ()
    unasked: UnaskedCandidates = UnaskedCandidates()

    @property
    def served_model(self) -> str:
        """The model whose call ended well last; empty while none has.

        Of a second opinion it is the model whose answer was taken.
        """
        if taken := self._taken_model():
            return taken
        return next((call.model for call in reversed(self.calls) if call.outcome == "done"), "")

    @property
    def state(self) -> TurnState:
        """What became of the turn, in the words of the list of turns."""
        if self.first.is_preview:
            return "preview"
        if not self.first.outcome.chosen_model or self.is_refused:
            return "refused"
        if self._taken_model():
            return "done"
        has_fallen_back = any(each.kind == "fallback" for each in self.later)
        acting = self.later[-1].decision_id if self.later else self.first.decision_id
        calls = [call for call in self.calls if call.decision_id == acting]
        if not calls:
            return "fallback" if has_fallen_back else "open"
        last = calls[-1].outcome
        if last in {"failed", "refused"}:
            return "failed" if last == "failed" else "refused"
        return "fallback" if has_fallen_back else "done"

    def _taken_model(self) -> str:
        """Return the model whose answer a second opinion took; empty where it took none."""
        step = UNSET if not self.later else self.later[-1].trace.opinion
        return step.model if step is not UNSET and step.step == "take" else ""

    @property
    def is_refused(self) -> bool:
        """Whether its placement refused the call that came last."""
        last_call = self.calls[-1].at if self.calls else self.first.at
        return bool(self.refusals) and self.refusals[-1].at >= last_call

    @property
    def cost_microusd(self) -> MicroUsd:
        """What its own calls cost, as far as their prices are known."""
        return MicroUsd(sum(call.cost_microusd or 0 for call in self.calls))

    def calls_of(self, decision_id: str) -> tuple[TurnCall, ...]:
        """Return the calls that acted on one decision."""
        return tuple(call for call in self.calls if call.decision_id == decision_id)

    def failed_call(self, later: LaterDecision) -> TurnCall | None:
        """Return the call that a fallback followed; None where its end is not on record."""
        if not later.excluded_models:
            return None
        failed = [call for call in self.calls if call.model == later.excluded_models[-1]]
        return failed[-1] if failed else None
