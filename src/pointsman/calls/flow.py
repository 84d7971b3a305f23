"""One turn as a generator of effects: rule it, record it, call the model, fall back where allowed.

Nothing here waits or writes. The driver carries out each effect and sends the result back, so
the gateway, the terminal app and the tests run the same flow.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Generator
from typing import Final, Literal

from msgspec import UNSET, Struct
from msgspec.structs import replace

from pointsman.calls.call_end import CANCELLED
from pointsman.placement.facts import PlacementFacts
from pointsman.recording.ruling import (
    PlacementRuling,
    Policies,
    Ruling,
    decide_after_failure,
    decide_model,
    decide_opinion,
    decide_placement,
    decide_turn,
)
from pointsman.turns.chain.opinion_step import wants_opinion
from pointsman.turns.facts import TurnFacts
from pointsman.turns.learning.second_opinion import Opinion
from pointsman.turns.registry.models import call_estimate, lies_within, provider_of

MOST_HELD: Final = 20_000
"""Most sessions in memory, the latest ones; a turn that waits for a tool is also stored."""


class TurnLock(Struct, frozen=True):
    """Which model a session's turn is bound to, and by which decision."""

    turn_id: str
    decision_id: str
    model: str
    calls: int = 1
    is_escalated: bool = False
    is_stored: bool = False
    """Whether it is found again after a restart."""


class TurnLocks:
    """The locks of this process; older ones are read from `stored`."""

    def __init__(
        self,
        stored: Callable[[str], TurnLock | None] = lambda _session: None,
        most: int = MOST_HELD,
    ) -> None:
        self._stored = stored
        self._most = most
        self._held: OrderedDict[str, TurnLock] = OrderedDict()

    def of(self, session_id: str) -> TurnLock | None:
        """Return the lock of a session's last turn, also one from before a restart."""
        found = self._held.get(session_id)
        if found is not None:
            self._held.move_to_end(session_id)
            return found
        return self._stored(session_id)

    def hold(self, session_id: str, lock: TurnLock) -> None:
        """Bind a session's turn to a model."""
        self._held[session_id] = lock
        self._held.move_to_end(session_id)
        if len(self._held) > self._most:
            self._held.popitem(last=False)

    def release(self, session_id: str) -> None:
        """Forget a session's lock."""
        self._held.pop(session_id, None)


WORTH_ANOTHER: Final = (
    "rate_limit", "auth", "server_error", "network", "timeout", "context_overflow",
    "busy",
)  # fmt: skip
"""The classes of failures that another model may not share."""

RuleKind = Literal["turn", "fallback", "override", "opinion"]

Claim = Callable[[str], bool]
"""Takes the right to try a model that is half open; False while another turn has it."""


class Fallback(Struct, frozen=True, forbid_unknown_fields=True):
    """When another model may take over from one that failed."""

    is_on: bool = True
    most_attempts: int = 3
    for_named_models: bool = False
    max_price_ratio: int | None = None


class Record(Struct, frozen=True):
    """Record a ruling. It must be durable before a byte of the answer leaves."""

    ruling: Ruling
    kind: RuleKind


class RecordPlacement(Struct, frozen=True):
    """Record the placement of a call that continues its turn."""

    placing: PlacementRuling
    is_refused: bool = False


class CallEffect(Struct, frozen=True):
    """Call a model; send back a `CallResult`. A call that continues a turn has no new ruling."""

    model: str
    number: int
    ruling: Ruling | None


class AskOpinion(Struct, frozen=True):
    """Call a model and hold its answer back; send back a `CallResult` with its opinion.

    `about` names the model whose answer a judge is asked about; empty where the turn's own request
    is asked.
    """

    model: str
    number: int
    ruling: Ruling
    about: str = ""


class TakeAnswer(Struct, frozen=True):
    """Let the answer of a model out that was asked before and held back."""

    model: str
    ruling: Ruling


class CallResult(Struct, frozen=True):
    """How a call went. After the first content byte nothing may fall back."""

    is_done: bool
    error_class: str = ""
    has_content: bool = False
    is_worth_another: bool = True
    opinion: Opinion | None = None
    """What an answer says that was held back; of a judge its verdict alone."""


class FlowEnd(Struct, frozen=True):
    """How a turn ended, and under which ruling; a call that goes on has none of its own."""

    status: Literal["done", "failed", "no_model", "refused"]
    ruling: Ruling | None
    attempts: int
    error_class: str = ""
    placing: PlacementRuling | None = None


Effect = Record | RecordPlacement | CallEffect | AskOpinion | TakeAnswer
Flow = Generator[Effect, CallResult | None, FlowEnd]


class EgressRefused(Exception):
    """A model in the cloud was about to be called for a turn that stays here."""


def turn(
    policies: Policies,
    asked: PlacementFacts,
    facts: TurnFacts,
    fallback: Fallback,
    claim: Claim | None = None,
    *,
    may_ask: bool = True,
) -> Flow:
    """Run a turn's first call, or ask for a second opinion before it where its policy says so.

    `may_ask` is false where a tool's result is on its way: no other model is asked then.
    """
    ruling = _claim_model(policies, decide_turn(policies, asked, facts), claim)
    yield Record(ruling, "turn")
    attempts = 0
    if may_ask and wants_opinion(policies.turns, ruling.facts, (ruling.outcome, ruling.trace)):
        ended, ruling, attempts = yield from _seek_opinions(policies, ruling, claim)
        if ended is not None:
            return ended
        fallback = replace(fallback, most_attempts=fallback.most_attempts + attempts)
    while model := ruling.model:
        attempts += 1
        check_egress(policies, ruling)
        called = yield CallEffect(model, attempts, ruling)
        if called is None or called.is_done:
            return FlowEnd("done", ruling, attempts)
        if not _may_go_on(fallback, ruling, called, attempts):
            return FlowEnd("failed", ruling, attempts, called.error_class)
        following = _claim_model(policies, decide_after_failure(policies, ruling), claim)
        if not following.model or not _is_affordable(policies, fallback, ruling, following):
            return FlowEnd("failed", ruling, attempts, called.error_class)
        ruling = following
        yield Record(ruling, "fallback")
    return FlowEnd("no_model", ruling, attempts)


def _seek_opinions(
    policies: Policies, first: Ruling, claim: Claim | None
) -> Generator[Effect, CallResult | None, tuple[FlowEnd | None, Ruling, int]]:
    """Ask other models before the one that was chosen, each step a decision of its own.

    Returns how the turn ended, where the answer of one of them was let out; else the ruling that
    goes up to the chosen model, and how many calls there were.
    """
    opinions: tuple[Opinion, ...] = ()
    calls = 0
    while True:
        ruling = _claim_model(policies, decide_opinion(policies, first, opinions), claim)
        step = ruling.trace.opinion
        if step is UNSET:
            return None, first, calls
        yield Record(ruling, "opinion")
        if step.step == "up":
            return None, ruling, calls
        if step.step == "take":
            yield TakeAnswer(ruling.model, ruling)
            return FlowEnd("done", ruling, calls), ruling, calls
        calls += 1
        check_egress(policies, ruling)
        about = opinions[-1].model if step.step == "judge" else ""
        called = yield AskOpinion(ruling.model, calls, ruling, about)
        if called is not None and called.error_class == CANCELLED:
            return FlowEnd("failed", ruling, calls, called.error_class), ruling, calls
        heard = None if called is None else called.opinion
        if not about:
            opinions = (*opinions, heard or Opinion(ruling.model, "failed"))
        else:
            score = None if heard is None or heard.score is UNSET else heard.score
            opinions = (*opinions[:-1], replace(opinions[-1], score=score))


def _claim_model(policies: Policies, ruling: Ruling, claim: Claim | None) -> Ruling:
    """Decide again while the chosen model is half open and another turn is trying it.

    Claimed is the model that was chosen, not every one that is half open: a turn that goes
    elsewhere would keep it from those that want it.
    """
    if claim is None or not ruling.facts.availability:
        return ruling
    step = ruling.trace.opinion
    if step is not UNSET and step.step in {"take", "up"}:
        # The model above was claimed before the others were asked.
        return ruling
    while (scopes := _half_open(ruling)) and not claim(ruling.model):
        out = dict.fromkeys(scopes, "unavailable")
        facts = replace(ruling.facts, availability={**ruling.facts.availability, **out})
        again = decide_model(policies, ruling.placing, facts)
        ruling = replace(again, is_placed_anew=ruling.is_placed_anew)
    return ruling


def _half_open(ruling: Ruling) -> list[str]:
    states, model = ruling.facts.availability, ruling.model
    return [each for each in (provider_of(model), model) if states.get(each) == "half_open"]


def continue_turn(policies: Policies, asked: PlacementFacts, lock: TurnLock) -> Flow:
    """Continue a turn that waited for a tool: same model, no new decision, no fallback.

    The tool's result may have to stay on this machine; then the turn ends here, because its
    model was chosen and cannot change. A turn that left by a logged escalation is held
    again only by its new content, not by the table.
    """
    placing = decide_placement(policies, asked)
    is_let_go = (
        lock.is_escalated
        and placing.trace.terminated_at == "autoModeLogic"
        and is_within(policies, placing, lock.model)
    )
    is_refused = not is_let_go and not may_call(policies, placing, lock.model)
    if not placing.is_advice:
        yield RecordPlacement(placing, is_refused)
    if is_refused:
        return FlowEnd("refused", None, 0, placing=placing)
    called = yield CallEffect(lock.model, lock.calls + 1, None)
    if called is None or called.is_done:
        return FlowEnd("done", None, 1, placing=placing)
    return FlowEnd("failed", None, 1, called.error_class, placing)


def check_egress(policies: Policies, ruling: Ruling) -> None:
    """Raise unless the ruled model may be called: decided once, and enforced again at the door."""
    if not may_call(policies, ruling.placing, ruling.model):
        rule = ruling.placing.outcome.rule_id
        raise EgressRefused(f"{ruling.model} may not be called: {rule}")


def may_call(policies: Policies, placing: PlacementRuling, name: str) -> bool:
    """Tell whether a placement lets a model be called."""
    gate = placing.outcome.gate
    model = policies.turns.models.get(name)
    is_local = model is not None and model.location == "local"
    if gate == "zone":
        return is_within(policies, placing, name)
    return gate == "open" or (gate == "local" and is_local)


def is_within(policies: Policies, placing: PlacementRuling, name: str) -> bool:
    """Tell whether a model lies within all the zones that a placement names."""
    model, zones = policies.turns.models.get(name), placing.outcome.zones
    return zones is UNSET or (model is not None and lies_within(model, zones))


def _may_go_on(fallback: Fallback, ruling: Ruling, called: CallResult, attempts: int) -> bool:
    if not fallback.is_on or called.has_content or not called.is_worth_another:
        return False
    if attempts >= fallback.most_attempts:
        return False
    # A request that names its model gets that one or a refusal.
    return ruling.facts.named_model != ruling.model


def _is_affordable(policies: Policies, fallback: Fallback, before: Ruling, after: Ruling) -> bool:
    """Tell whether the next model is within the price ceiling, relative to the one that failed."""
    if fallback.max_price_ratio is None:
        return True
    models = policies.turns.models
    first, then = (
        call_estimate(models[name], facts.tokens_for(name), facts.asked_output)
        for name, facts in ((before.model, before.facts), (after.model, after.facts))
    )
    if then is None or first is None:
        return False
    return then <= first * fallback.max_price_ratio
