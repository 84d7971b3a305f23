"""The smallest change of a recorded turn's facts, or of one rule, that gives it another model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import UNSET, Struct
from msgspec.structs import replace

from pointsman.kernel.document import printable, quote
from pointsman.kernel.number import microusd_text
from pointsman.placement.rules.zones import BUILT_IN_ZONES, zone_text
from pointsman.turns.compiled import CompiledTurnPolicy, compile_policy
from pointsman.turns.decide import decide
from pointsman.turns.facts import ANY_MODEL, TurnFacts
from pointsman.turns.policy import RoutingRule, TurnPolicy
from pointsman.turns.proofs.chain_formula import ChainFormula, World, world_of
from pointsman.turns.proofs.found_turn import FoundTurn
from pointsman.turns.proofs.similar_turns import SimilarTurns
from pointsman.turns.proofs.solver import Model
from pointsman.turns.proofs.turn_variables import OPAQUE, TurnVariables, is_met
from pointsman.turns.rules.review import clock_text

MOST_CHANGES: Final = 5
"""Changes of one kind that are listed."""


class LeastChanges(Struct, frozen=True):
    """What would have given a turn another model; each was decided and came out so.

    `chosen` is the model it has. `facts` are sets of facts that change together, as few as there
    can be; `policy` are single edits of it. Both are empty where nothing of the kind does it.
    """

    model: str
    chosen: str
    facts: tuple[tuple[str, ...], ...]
    policy: tuple[str, ...]


def least_changes(ready: CompiledTurnPolicy, facts: TurnFacts, model: str) -> LeastChanges:
    """Find what would have given this turn that model."""
    chosen = decide(ready, ready.complete(facts))[0].chosen_model
    if chosen == model:
        return LeastChanges(model, chosen, (), ())
    return LeastChanges(
        model,
        chosen,
        tuple(_facts_changes(ready, facts, model)),
        tuple(_policy_changes(ready, facts, model))[:MOST_CHANGES],
    )


def changes_text(found: LeastChanges) -> str:
    """Write the changes that give a turn another model."""
    if found.chosen == found.model:
        return f"{found.model} takes this turn already"
    lines = [f"{found.chosen or 'no model'} takes this turn; {found.model} would"]
    lines += [f"  if {' and '.join(changes)}" for changes in found.facts]
    lines += [f"  under another policy: {each}" for each in found.policy]
    if not (found.facts or found.policy):
        lines.append("  under no change of its facts and no single edit of the policy")
    return "\n".join(map(printable, lines))


def _facts_changes(
    ready: CompiledTurnPolicy, facts: TurnFacts, model: str
) -> Iterator[tuple[str, ...]]:
    search = _Search(ready, facts)
    asked = [search.chain.takes(lambda winner: winner.model == model)]
    fewest: int | None = None
    for _ in range(MOST_CHANGES):
        found = search.turn.least(asked, {})
        if found is None:
            return
        changed = search.changed_names(found)
        if fewest is not None and len(changed) > fewest:
            return
        fewest = len(changed)
        other = search.facts(found)
        if decide(ready, other)[0].chosen_model == model:
            told = (name for name in changed if not name.startswith(OPAQUE))
            yield tuple(_change_text(facts, other, name) for name in told)
        # The next one must leave one of these facts as it was.
        asked.append(-search.turn.solver.both(search.changes[name] for name in changed))


class _Search:
    """The turns beside a recorded one; similar turns speak as they did."""

    def __init__(self, ready: CompiledTurnPolicy, facts: TurnFacts) -> None:
        self._base = ready.complete(facts)
        left = min((each.left_microusd for each in facts.budgets), default=None)
        named = replace(world_of([ready]), budget_left=left, max_output_tokens=facts.asked_output)
        zones = frozenset((*named.zones, *facts.zones)) - {*BUILT_IN_ZONES}
        self._world: World = replace(
            named, team_budgets=(), team_limits=(), zones=tuple(sorted(zones))
        )
        self.turn = TurnVariables(self._base, zones=self._world.zones)
        said = _recommendation(ready, facts)
        similar = SimilarTurns(self.turn, self._world.models, said)
        self.chain = ChainFormula(ready, self.turn, self._world, similar)
        for literal in similar.changes().values():
            self.turn.solver.add((-literal,))
        self.changes = self.turn.changes()

    def changed_names(self, model: Model) -> list[str]:
        """Name the facts that a found turn changes."""
        return [name for name, each in self.changes.items() if is_met(model, each)]

    def facts(self, model: Model) -> TurnFacts:
        """Return the facts of a found turn."""
        found = FoundTurn(self.turn, model)
        alias = found.alias()
        facts = found.facts()
        own = None if self._base.override is None else self._base.override.alias
        if alias == own:
            return facts
        return replace(facts, override=found.override(self.chain.ready.aliases))


def _recommendation(ready: CompiledTurnPolicy, facts: TurnFacts) -> str | None:
    """Return the model that similar turns spoke for."""
    settings = ready.scope(facts.workspace_path).pattern
    alone = replace(
        facts, override=None, sticky_model=None, named_model=UNSET, is_worker=False,
        delegate_tier=None,
    )  # fmt: skip
    _, trace = decide(compile_policy(replace(ready.policy, rules=(), workspaces=())), alone)
    found = [each for each in trace.chain if each.policy == "pattern"]
    return found[0].candidate_model if found and settings.mode == "apply" else None


def _change_text(before: TurnFacts, after: TurnFacts, name: str) -> str:
    """Say in words how a fact would have to be."""
    kind, _, value = name.partition(" ")
    is_out = after.availability.get(value) == "unavailable"
    alias = "" if after.override is None else after.override.alias
    told = {
        "input_tokens": f"{after.tokens_for(ANY_MODEL)} input tokens,"
        f" not {before.tokens_for(ANY_MODEL)}",
        "out": f"{value} is {'out' if is_out else 'not out'}",
        "stays_local": f"privacy_level is {after.privacy_level}",
        "zones": f"the turn may go to {zone_text(after.zones)} and no farther",
        "message": f"the message is like {quote(str(after.message))}",
        "workspace": f"the workspace is {after.workspace_path or 'none'}",
        "override": f"the message begins with @{alias}" if alias else "the message has no @alias",
        "sticky_model": f"the session is set to {after.sticky_model or 'no model'}",
        "named_model": f"the request names {after.named_model or 'no model'}",
        "local_minutes": f"the time is {clock_text(after.local_minutes)}",
        "cost_today_microusd": f"{microusd_text(after.cost_today_microusd)} USD were spent today",
    }
    if kind in told:
        return told[kind]
    if value:
        has = value in str(getattr(after, kind, ""))
        return f"{kind} {'has' if has else 'has not'} {value}"
    return f"{name} is {str(getattr(after, name, None)).lower()}"


def _policy_changes(ready: CompiledTurnPolicy, facts: TurnFacts, model: str) -> Iterator[str]:
    for text, policy in _edits(ready.policy, model):
        other = compile_policy(policy)
        if decide(other, other.complete(facts))[0].chosen_model == model:
            yield text


def _edits(policy: TurnPolicy, model: str) -> Iterator[tuple[str, TurnPolicy]]:
    """Yield every policy that is one edit away: rules left out, moved up, or with this model."""
    for text, rules in _rule_edits(policy.rules, model):
        yield text, replace(policy, rules=rules)
    for place, workspace in enumerate(policy.workspaces):
        for text, rules in _rule_edits(workspace.rules, model):
            others = [*policy.workspaces]
            others[place] = replace(workspace, rules=rules)
            yield text, replace(policy, workspaces=tuple(others))
    names = policy.global_default if isinstance(policy.global_default, tuple) else ()
    yield f"global_default: {model}", replace(policy, global_default=model)
    if model in names and names[0] != model:
        others_ = tuple(each for each in names if each != model)
        yield f"{model} first in global_default", replace(policy, global_default=(model, *others_))


def _rule_edits(
    rules: Sequence[RoutingRule], model: str
) -> Iterator[tuple[str, tuple[RoutingRule, ...]]]:
    for place, rule in enumerate(rules):
        others = (*rules[:place], *rules[place + 1 :])
        yield f"without rule {rule.name}", others
        if place and model in rule.models:
            yield f"rule {rule.name} before all others", (rule, *others)
        if rule.use != model or rule.split is not UNSET or rule.table is not UNSET:
            own = replace(rule, use=model, split=UNSET, table=UNSET)
            yield f"rule {rule.name} uses {model}", (*rules[:place], own, *rules[place + 1 :])
