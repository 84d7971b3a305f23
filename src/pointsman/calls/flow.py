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

from pointsman.placement.facts import PlacementFacts
from pointsman.recording.ruling import (
    PlacementRuling,
    Policies,
    Ruling,
    decide_after_failure,
    decide_model,
    decide_placement,
    decide_turn,
)
from pointsman.turns.facts import TurnFacts
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

RuleKind = Literal["turn", "fallback", "override"]

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


class CallResult(Struct, frozen=True):
    """How a call went. After the first content byte nothing may fall back."""

    is_done: bool
    error_class: str = ""
    has_content: bool = False
    is_worth_another: bool = True


class FlowEnd(Struct, frozen=True):
    """How a turn ended, and under which ruling; a call that goes on has none of its own."""

    status: Literal["done", "failed", "no_model", "refused"]
    ruling: Ruling | None
    attempts: int
    error_class: str = ""
    placing: PlacementRuling | None = None


Effect = Record | RecordPlacement | CallEffect
Flow = Generator[Effect, CallResult | None, FlowEnd]


class EgressRefused(Exception):
    """A model in the cloud was about to be called for a turn that stays here."""


def turn(
    policies: Policies,
    asked: PlacementFacts,
    facts: TurnFacts,
    fallback: Fallback,
    claim: Claim | None = None,
) -> Flow:
    """Run a turn's first call."""
    ruling = _claim_model(policies, decide_turn(policies, asked, facts), claim)
    yield Record(ruling, "turn")
    attempts = 0
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


def _claim_model(policies: Policies, ruling: Ruling, claim: Claim | None) -> Ruling:
    """Decide again while the chosen model is half open and another turn is trying it.

    Claimed is the model that was chosen, not every one that is half open: a turn that goes
    elsewhere would keep it from those that want it.
    """
    if claim is None or not ruling.facts.availability:
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
