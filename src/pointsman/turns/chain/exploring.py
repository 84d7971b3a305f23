"""Learning on purpose: which turns go to the runner-up, and which are run again in the shadow.

Both are drawn by `wb1` from the turn's id, so the same turn always draws the same, and neither ever
leaves the machine or passes a budget where the turn itself may not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import UNSET, UnsetType

from pointsman.kernel.number import SCALE, Billionths
from pointsman.kernel.wb1 import Salted, unit_bytes
from pointsman.turns.chain.validation import rejection
from pointsman.turns.compiled import CompiledTurnPolicy, WorkspaceScope
from pointsman.turns.facts import TurnFacts
from pointsman.turns.learning.pattern import PatternSettings
from pointsman.turns.trace import TurnOutcome, TurnTrace

_EXPLORE: Final = Salted("pattern.explore")
_SHADOW: Final = Salted("pattern.shadow")
_SHADOW_MODEL: Final = Salted("pattern.shadow.model")


def explore_draw(turn_id: str, settings: PatternSettings) -> Billionths | UnsetType:
    """Return the number a turn draws, a fact of it; unset where the policy explores nothing."""
    if settings.explore is UNSET or settings.mode != "apply" or not turn_id:
        return UNSET
    return _draw(_EXPLORE, turn_id)


def is_explored(facts: TurnFacts, settings: PatternSettings) -> bool:
    """Tell whether this turn goes to the runner-up, if that may take it."""
    draw, share = facts.explore_draw, settings.explore
    if draw is UNSET or share is UNSET or _is_local(facts):
        return False
    return draw < share


def was_explored(outcome: TurnOutcome, trace: TurnTrace) -> bool:
    """Tell whether a decision sent its turn to the runner-up on purpose."""
    place = outcome.winner_index
    return place >= 0 and trace.chain[place].is_exploring not in (UNSET, False)


def shadow_model(
    turn_id: str, ready: CompiledTurnPolicy, facts: TurnFacts, chosen: str
) -> str | None:
    """Name the model on which a turn is run again in the background, or none.

    One of those the policy itself uses, which may take the turn by every veto: privacy, permission,
    capability, budget. Never where the turn stays on this machine, and never in the cloud where a
    model on this machine took it.
    """
    scope = ready.scope(facts.workspace_path)
    settings = scope.pattern
    share = settings.shadow
    if share is UNSET or settings.mode == "off" or _is_local(facts) or not chosen:
        return None
    if _draw(_SHADOW, turn_id) >= share:
        return None
    able = [
        name
        for name in _models_in_use(ready, scope)
        if name != chosen
        and may_leave(ready, facts, chosen, name)
        and rejection(name, ready.models, facts) is None
    ]
    return able[_SHADOW_MODEL.slot(_unit(turn_id), len(able))] if able else None


def may_leave(ready: CompiledTurnPolicy, facts: TurnFacts, chosen: str, model: str) -> bool:
    """Tell whether a model may see a turn that another took: a local turn stays local."""
    if _is_here(ready, model):
        return True
    return not _is_local(facts) and not _is_here(ready, chosen)


def _is_here(ready: CompiledTurnPolicy, name: str) -> bool:
    known = ready.models.get(name)
    return known is not None and known.location == "local"


def _models_in_use(ready: CompiledTurnPolicy, scope: WorkspaceScope) -> Sequence[str]:
    """Name the models a policy sends turns to, in the order it names them."""
    rules = (model for each in scope.rules for model in each.rule.models)
    named = (*scope.tiers.values(), *rules, *scope.defaults, *ready.defaults)
    return [*dict.fromkeys(named)]


def _is_local(facts: TurnFacts) -> bool:
    placed = facts.placement
    return facts.privacy_level == "local" or (placed is not None and placed.gate != "open")


def _draw(salted: Salted, turn_id: str) -> Billionths:
    return Billionths(salted.slot(_unit(turn_id), SCALE))


def _unit(turn_id: str) -> bytes:
    return unit_bytes(turn_id) or b"s:"
