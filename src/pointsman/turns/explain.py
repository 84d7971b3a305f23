"""A turn's decision as it is shown: with the names it goes by, and as JSON."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from pointsman.kernel.instant import Instant
from pointsman.kernel.number import Billionths, billionths_text
from pointsman.placement.trace import Placed
from pointsman.turns.trace import Evaluation, ModelOption, Neighbour, Trace, TurnOutcome


class Shown(Struct, frozen=True):
    """A turn's decision with the names it goes by."""

    turn_id: str
    session_id: str
    decision_id: str
    at: Instant
    policy_id: str
    facts_id: str
    decision_version: int
    is_preview: bool
    elapsed_us: int
    outcome: TurnOutcome
    trace: Trace
    placed: Placed | None = None


def shown_value(shown: Shown) -> dict[str, object]:
    """Give the `route.decided` payload of the contracts."""
    return {
        "decision_id": shown.decision_id,
        "turn_id": shown.turn_id,
        "chosen_model": shown.outcome.chosen_model,
        "winner_index": shown.outcome.winner_index,
        "decision_version": shown.decision_version,
        "policy_id": shown.policy_id,
        "facts_id": shown.facts_id,
        "elapsed_ms": shown.elapsed_us / 1000,
        "banners": shown.outcome.banners,
        "placement": shown.placed,
        "chain": [evaluation_value(each) for each in shown.trace.chain],
    }


def evaluation_value(evaluation: Evaluation) -> dict[str, object]:
    """Return what one slot of the chain said, as JSON shows it."""
    alternatives, neighbours = evaluation.pattern_alternatives, evaluation.neighbours
    return {
        **_told(evaluation),
        "confidence": _number(evaluation.confidence),
        "flip_margin": _number(evaluation.flip_margin),
        "neighbours": neighbours and [_neighbour_value(each) for each in neighbours],
        "pattern_alternatives": alternatives and [_option_value(each) for each in alternatives],
    }


def _option_value(option: ModelOption) -> dict[str, object]:
    value = {**_told(option), "score": _number(option.score)}
    for name in ("success", "standard_error"):
        if name in value:
            value[name] = _number(getattr(option, name))
    if not isinstance(option.effective_rows, msgspec.UnsetType):
        value["effective_rows"] = option.effective_rows / 1000
    return value


def _told(value: Struct) -> dict[str, object]:
    """Give the fields of a value that say something."""
    found = msgspec.structs.asdict(value)
    return {name: each for name, each in found.items() if each is not msgspec.UNSET}


def _neighbour_value(neighbour: Neighbour) -> dict[str, object]:
    return {
        **msgspec.structs.asdict(neighbour),
        "similarity": _number(neighbour.similarity),
        "success": _number(neighbour.success),
    }


def _number(value: Billionths | None) -> msgspec.Raw | None:
    return None if value is None else msgspec.Raw(billionths_text(value).encode())
