"""Learning on purpose: which turns try a model that is little known, or go to the runner-up, and
which are run again in the shadow.

Both are drawn by `wb1` from the turn's id, so the same turn always draws the same, and neither ever
leaves the machine or passes a budget where the turn itself may not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import UNSET, UnsetType

from pointsman.kernel.number import SCALE, Billionths
from pointsman.kernel.wb1 import Salted, unit_bytes
from pointsman.turns.chain.validation import rejection
from pointsman.turns.compiled import CompiledTurnPolicy, WorkspaceScope
from pointsman.turns.facts import TurnFacts
from pointsman.turns.learning.pattern import PatternSettings
from pointsman.turns.registry.models import call_estimate
from pointsman.turns.trace import TurnOutcome, TurnTrace

_EXPLORE: Final = Salted("pattern.explore")
_SHADOW: Final = Salted("pattern.shadow")
_SHADOW_MODEL: Final = Salted("pattern.shadow.model")


def explore_draw(turn_id: str, settings: PatternSettings) -> Billionths | UnsetType:
    """Return the number a turn draws, a fact of it; unset where the policy explores nothing."""
    if settings.explore is UNSET or settings.mode != "apply" or not turn_id:
        return UNSET
    return _draw(_EXPLORE, turn_id)


def is_explored(facts: TurnFacts, ready: CompiledTurnPolicy, scope: WorkspaceScope) -> bool:
    """Tell whether this turn is one to learn from, if a model may take it for that.

    When every model in use had its first tries, the share of such turns falls as their number
    grows: it is the first tries' part of those that the least tried model had.
    """
    draw, settings, so_far = facts.explore_draw, scope.pattern, facts.exploring
    share = settings.explore
    if draw is UNSET or share is UNSET or _is_local(facts):
        return False
    if so_far is UNSET or settings.explore_first is UNSET:
        return draw < share
    most = settings.explore_most_microusd
    if most is not UNSET and so_far.spent_microusd >= most:
        return False
    first = settings.explore_first
    least = min((so_far.tried.get(name, 0) for name in models_in_use(ready, scope)), default=0)
    return draw < share * first // max(first, least)


def newcomers(
    facts: TurnFacts, ready: CompiledTurnPolicy, scope: WorkspaceScope
) -> Iterator[tuple[str, int]]:
    """Return the models in use that had too few tries, with how many; the least tried first."""
    so_far, first = facts.exploring, scope.pattern.explore_first
    if so_far is UNSET or first is UNSET or not is_explored(facts, ready, scope):
        return
    tried = [(name, so_far.tried.get(name, 0)) for name in models_in_use(ready, scope)]
    for name, count in sorted(tried, key=lambda pair: pair[1]):
        if count < first and may_cost(facts, ready, scope, name):
            yield name, count


def may_cost(facts: TurnFacts, ready: CompiledTurnPolicy, scope: WorkspaceScope, name: str) -> bool:
    """Tell whether exploring with a model stays within the money a day has for it."""
    so_far, most = facts.exploring, scope.pattern.explore_most_microusd
    if so_far is UNSET or most is UNSET:
        return True
    model = ready.models.get(name)
    if model is None:
        return False
    cost = call_estimate(model, facts.tokens_for(name), facts.asked_output)
    return cost is not None and so_far.spent_microusd + cost <= most


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
        for name in models_in_use(ready, scope)
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


def models_in_use(ready: CompiledTurnPolicy, scope: WorkspaceScope) -> Sequence[str]:
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
