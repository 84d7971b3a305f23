"""A turn's decision as it is told, over HTTP and MCP alike: the published schemas are these."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from pointsman.kernel.instant import instant_text
from pointsman.placement.trace import Placed
from pointsman.turns.explain import story_to_json, to_screen
from pointsman.turns.story.turn_story import (
    CallOutcome,
    CallRole,
    TurnState,
    TurnStory,
    UnaskedCandidate,
)
from pointsman.turns.trace import Banner, RuleAttempt, Shown, Slot, ValidationFailure, Verdict

InstantText = Annotated[str, Meta(description="RFC 3339, in UTC with microseconds")]
Usd = Annotated[str, Meta(description="US dollars, as an exact decimal number")]


class DifferenceRow(Struct, frozen=True):
    """One place where the recorded decision and the one found now differ."""

    path: str
    recorded: Any
    found: Any


class TurnRow(Struct, frozen=True):
    """One turn of a list."""

    turn_id: str
    decision_id: str
    session_id: str
    at: InstantText
    chosen_model: str
    policy: str
    rule_name: str | None
    is_preview: bool


class ChainLink(Struct, frozen=True):
    """The answer of one slot of a turn's chain said."""

    policy: Slot
    verdict: Verdict
    candidate_model: str | None
    reason: str
    rule_name: str | None
    rule_attempts: tuple[RuleAttempt, ...]
    confidence: float | None
    validation_failure: ValidationFailure | None


class RouteDecided(Struct, frozen=True):
    """A turn's decision: which model takes it, and what every slot of the chain said."""

    decision_id: str
    turn_id: str
    chosen_model: str
    winner_index: int
    decision_version: int
    policy_id: str
    facts_id: str
    elapsed_ms: float
    banners: tuple[Banner, ...]
    placement: Placed | None
    chain: tuple[ChainLink, ...]


class CallRow(Struct, frozen=True):
    """One call of a model: its end, its tokens, its cost and its duration.

    `refused` was never made; `cost_usd` is null where the price is not known.
    """

    decision_id: str
    at: InstantText
    role: CallRole
    model: str
    number: int
    outcome: CallOutcome
    error_class: str
    status: int
    attempts: int
    stop_reason: str
    input_tokens: int
    output_tokens: int
    cached_input_tokens: int
    cache_creation_input_tokens: int
    cost_usd: Usd | None
    is_estimated: bool
    first_byte_ms: float
    elapsed_ms: float


class LaterRow(Struct, frozen=True):
    """A further decision about a turn: which model failed and how, and which was chosen then."""

    kind: Literal["fallback", "override"]
    decision_id: str
    at: InstantText
    failed_model: str
    error_class: str
    status: int
    chosen_model: str
    policy: Slot | Literal[""]
    rule_name: str | None
    chain: tuple[ChainLink, ...]


class RefusalRow(Struct, frozen=True):
    """A call that would have gone on in its turn, and that its placement refused."""

    decision_id: str
    at: InstantText
    model: str
    rule_id: str
    reason: str


class TurnAnswer(RouteDecided, frozen=True, kw_only=True):
    """What happened in a recorded turn, and why; `why` is the why-screen, 80 columns wide.

    `beside` are the calls of shadow runs and judges. `not_asked` would have taken the turn, had no
    earlier slot done so; `not_asked_unknown` says why some of them cannot be told.
    """

    session_id: str
    at: InstantText
    is_preview: bool
    state: TurnState
    served_model: str
    cost_usd: Usd
    calls: tuple[CallRow, ...]
    fallbacks: tuple[LaterRow, ...]
    beside: tuple[CallRow, ...]
    refusals: tuple[RefusalRow, ...]
    not_asked: tuple[UnaskedCandidate, ...]
    not_asked_unknown: str
    why: str


def turn_row(shown: Shown) -> TurnRow:
    """Return a turn as a row of a list."""
    winner = shown.outcome.winner_index
    won = shown.trace.chain[winner] if winner >= 0 else None
    return TurnRow(
        turn_id=shown.turn_id,
        decision_id=shown.decision_id,
        session_id=shown.session_id,
        at=instant_text(shown.at),
        chosen_model=shown.outcome.chosen_model,
        policy="" if won is None else won.policy,
        rule_name=None if won is None else won.rule_name,
        is_preview=shown.is_preview,
    )


def turn_answer(story: TurnStory) -> dict[str, object]:
    """Return a turn as HTTP and MCP tell it: its JSON, with the why-screen."""
    return {**story_to_json(story), "why": to_screen(story)}
