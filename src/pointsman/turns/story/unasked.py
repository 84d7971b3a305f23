"""Who else would have taken a turn: the rules and defaults behind the slot that won. Pure.

Worked out when a turn is shown, and never recorded: the chain stops at its winner.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import UNSET

from pointsman.errors import MissingSnapshot
from pointsman.turns.chain.validation import rejection
from pointsman.turns.compiled import CompiledRule, CompiledTurnPolicy, WorkspaceScope
from pointsman.turns.facts import TurnFacts, with_placement
from pointsman.turns.story.turn_story import TurnStory, UnaskedCandidate, UnaskedCandidates
from pointsman.turns.trace import Evaluation, Shown, TurnOutcome, TurnTrace


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
            if each.matches(look):
                found.append(UnaskedCandidate("rule", each.rule.name, each.rule.use))
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
    chosen = (winner.rule_name, winner.candidate_model)
    names = [(each.rule.name, each.rule.use) for each in scope.rules]
    return scope.rules[names.index(chosen) + 1 :] if chosen in names else ()


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
