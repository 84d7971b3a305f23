"""The turns that two policies decide differently, all of them, by how each of them decides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from pointsman.turns.compiled import CompiledTurnPolicy
from pointsman.turns.facts import GivenFacts
from pointsman.turns.policy import RoutingRule
from pointsman.turns.proofs.chain_formula import ChainFormula, Winner, World, world_of
from pointsman.turns.proofs.examples import decide_example, example_facts
from pointsman.turns.proofs.similar_turns import SimilarTurns
from pointsman.turns.proofs.solver import TRUE, Model
from pointsman.turns.proofs.turn_variables import TurnVariables, is_met
from pointsman.turns.rules.condition import Condition
from pointsman.turns.rules.implication import parts
from pointsman.turns.rules.review import condition_text
from pointsman.turns.trace import Slot

MOST_KINDS: Final = 200
"""Kinds of turns that are told apart; a comparison with more of them says so."""

_BY_HAND: Final[tuple[Slot, ...]] = ("per_message_override", "manual_sticky", "pattern")

Way = tuple[str, str, str]
"""How a turn is decided: slot, rule, and the model; nothing thrice where no model takes it."""


class TurnKind(Struct, frozen=True):
    """One kind of turns: how each policy decides them, where, and the smallest of them.

    It is met where `where` holds, empty for any turn, and nothing of `unless`. `is_exact` tells
    that this says all; else the limits of models, outages or a person's choice matter too.
    `is_usual` tells that some such turns need no outage and no such choice. An example is left
    out where no rows of similar turns were found for it.
    """

    before: Way
    after: Way
    before_model: str
    after_model: str
    where: str
    unless: tuple[str, ...]
    is_exact: bool
    is_usual: bool
    example: GivenFacts | None


class PolicyDifference(Struct, frozen=True):
    """All kinds of turns that differ; `is_complete` unless there are more than are told apart."""

    kinds: tuple[TurnKind, ...]
    is_complete: bool
    notes: tuple[str, ...]
    steps: int


def way_of(winner: Winner | None) -> Way:
    """Return the way a turn is decided; of a choice by hand, whichever model it names."""
    if winner is None:
        return ("", "", "")
    return (winner.slot, winner.rule, "" if winner.slot in _BY_HAND else winner.model)


def differences(before: CompiledTurnPolicy, after: CompiledTurnPolicy) -> PolicyDifference:
    """Return every kind of turns on which two policies choose another model."""
    return _Comparison(before, after).run()


class _Comparison:
    """Two policies over the turns of the same variables."""

    def __init__(self, before: CompiledTurnPolicy, after: CompiledTurnPolicy) -> None:
        self._policies = (before, after)
        self._world: World = world_of(self._policies)
        self._turn = TurnVariables(team_budgets=self._world.team_budgets, zones=self._world.zones)
        self._similar = SimilarTurns(self._turn, self._world.models)
        self._chains = tuple(
            ChainFormula(each, self._turn, self._world, self._similar) for each in self._policies
        )
        self._ways = tuple(_ways(chain, self._turn) for chain in self._chains)
        self._differ = self._turn.solver.either(self._choices_differ())
        self._usual = self._turn.solver.both(-each for each in self._unusual())

    def run(self) -> PolicyDifference:
        found: list[TurnKind] = []
        for usual in (self._usual, TRUE):
            found += self._kinds(usual, found)
        is_complete = self._next_model(TRUE, found) is None
        return PolicyDifference(
            tuple(found), is_complete, tuple(self._notes()), self._turn.solver.steps
        )

    def _kinds(self, usual: int, known: Sequence[TurnKind]) -> Iterator[TurnKind]:
        told = [*known]
        while len(told) < MOST_KINDS:
            model = self._next_model(usual, told)
            if model is None:
                return
            told.append(self._kind(model, usual))
            yield told[-1]

    def _next_model(self, usual: int, known: Iterable[TurnKind]) -> Model | None:
        """Return a turn of a kind that is not known yet."""
        others = (-self._literal((each.before, each.after)) for each in known)
        return self._turn.solver.solve((self._differ, usual, *others))

    def _kind(self, model: Model, usual: int) -> TurnKind:
        ways = [
            next(way for way, literal in known.items() if is_met(model, literal))
            for known in self._ways
        ]
        pair = (ways[0], ways[1])
        literal = self._literal(pair)
        asked = (self._differ, usual, literal)
        least = self._turn.least(asked, self._similar.changes()) or model
        example = example_facts(self._policies, self._turn, self._similar, self._world, least)
        chosen = [self._chosen(chain, least) for chain in self._chains]
        if example is not None:
            decided = [decide_example(each, example) for each in self._policies]
            is_so = [way_of(each) for each in decided] == ways
            if not is_so and self._turn.opaque:
                # It rests on what an expression was taken to say: there is no turn to show.
                example = None
            elif not is_so:
                raise AssertionError(f"the formula says {ways}, the chains decide {decided}")
        where, unless, is_exact = self._where(pair, literal)
        return TurnKind(
            *pair, chosen[0], chosen[1], where, unless, is_exact, usual != TRUE, example
        )

    def _chosen(self, chain: ChainFormula, model: Model) -> str:
        return next((each.model for each, lit in chain.wins.items() if is_met(model, lit)), "")

    def _literal(self, pair: tuple[Way, Way]) -> int:
        first, second = pair
        return self._turn.solver.both((self._ways[0][first], self._ways[1][second]))

    def _choices_differ(self) -> Iterator[int]:
        both, (first, second) = self._turn.solver.both, self._chains
        for name in self._world.models:
            ours = first.takes(lambda winner, name=name: winner.model == name)  # type: ignore[misc] # bound now
            theirs = second.takes(lambda winner, name=name: winner.model == name)  # type: ignore[misc] # bound now
            yield both((ours, -theirs))
        yield both((first.no_model, -second.no_model))

    def _unusual(self) -> Iterator[int]:
        """Yield where a model is out, a person or a planner chooses, or similar turns speak."""
        yield from self._turn.outages.values()
        for values in self._turn.choices.values():
            yield from values.values()
        yield self._turn.flag("is_worker")
        yield self._turn.flag("stays_local")
        yield from self._similar.changes().values()

    def _where(self, pair: tuple[Way, Way], literal: int) -> tuple[str, tuple[str, ...], bool]:
        """Say in words where a kind of turns is met, and whether that says all."""
        turn, solver = self._turn, self._turn.solver
        asked: dict[Condition, None] = {}
        places: dict[str, None] = {}
        denied: dict[Condition, None] = {}
        for policy, way in zip(self._policies, pair, strict=True):
            rule, workspace = _rule(policy, way[1])
            if rule is not None:
                asked[rule.when] = None
            if workspace:
                places[workspace] = None
        here = [*map(turn.holds, asked), *map(turn.inside, places), self._usual]
        for policy, way in zip(self._policies, pair, strict=True):
            for rule in _earlier(policy, way[1]):
                if rule.when not in asked and solver.solve((*here, turn.holds(rule.when))):
                    denied[rule.when] = None
        told = solver.both((*here, *(-turn.holds(each) for each in denied)))
        is_exact = (
            solver.solve((self._differ, literal, self._usual, -told)) is None
            and solver.solve((told, -solver.both((self._differ, literal)))) is None
        )
        unless = tuple(map(condition_text, denied))
        return _words(asked, places), unless, is_exact

    def _notes(self) -> Iterator[str]:
        before, after = self._policies
        for one, other, name in ((before, after, "after"), (after, before, "before")):
            for alias in one.aliases:
                if alias not in other.aliases:
                    yield f"`@{alias}` names no model {name}"
        for text in dict.fromkeys(text for text, _, _ in self._turn.opaque):
            yield f"not looked into, so that a kind without an example may be none: {text}"


def _ways(chain: ChainFormula, turn: TurnVariables) -> dict[Way, int]:
    found: dict[Way, list[int]] = {way_of(None): [chain.no_model]}
    for winner, literal in chain.wins.items():
        found.setdefault(way_of(winner), []).append(literal)
    return {way: turn.solver.either(literals) for way, literals in found.items()}


def _rule(policy: CompiledTurnPolicy, name: str) -> tuple[RoutingRule | None, str]:
    """Return a rule by its name, and the workspace whose own it is."""
    for rule in policy.policy.rules:
        if name and rule.name == name:
            return rule, ""
    for workspace in policy.policy.workspaces:
        for rule in workspace.rules:
            if name and rule.name == name:
                return rule, workspace.path
    return None, ""


def _earlier(policy: CompiledTurnPolicy, name: str) -> Iterator[RoutingRule]:
    """Yield the rules that stand before one in its list; of no rule, all that hold everywhere."""
    lists = [each.rules for each in policy.policy.workspaces]
    own = next((rules for rules in lists if name in {each.name for each in rules}), None)
    for rule in policy.policy.rules if own is None else own:
        if rule.name == name:
            return
        yield rule


def _words(asked: Iterable[Condition], places: Iterable[str]) -> str:
    joined = Condition(all_of=tuple(asked))
    lines = [condition_text(joined)] if parts(joined) else []
    return " and ".join([*lines, *(f"in workspace {each}" for each in places)])
