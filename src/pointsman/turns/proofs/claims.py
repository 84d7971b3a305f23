"""Claims about every turn, as they are written, and exact answers to them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Literal

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from pointsman.errors import PolicyTooComplex, Problem
from pointsman.kernel.codes import Code
from pointsman.kernel.document import Document, Path
from pointsman.kernel.literal import Count, SignedUsd, Usd
from pointsman.kernel.number import MicroUsd, microusd
from pointsman.kernel.schema import conform
from pointsman.placement.rules.zones import ZoneName
from pointsman.turns.compiled import CompiledTurnPolicy
from pointsman.turns.facts import Privacy
from pointsman.turns.policy import RoutingRule, unknown_model_problems
from pointsman.turns.proofs.chain_formula import (
    ChainFormula,
    Winner,
    World,
    team_limits,
    world_of,
    zones_to_try,
)
from pointsman.turns.proofs.examples import Example, make_example
from pointsman.turns.proofs.similar_turns import SimilarTurns
from pointsman.turns.proofs.solver import Model
from pointsman.turns.proofs.turn_variables import OPAQUE, TurnVariables, is_met
from pointsman.turns.registry.models import Location, Tier, lies_within, model_id, provider_of
from pointsman.turns.rules.condition import Condition, When, Words, asked_zones, condition
from pointsman.turns.rules.condition import problems as condition_problems
from pointsman.turns.trace import Slot


class ClaimedTurns(When, frozen=True, forbid_unknown_fields=True):
    """The turns a claim is about: what rules can ask, and what else decides.

    `all_up` and `any_up` name models that no outage, missing key or permission keeps away.
    """

    has_tool_definitions: bool | UnsetType = UNSET
    has_system_prompt: bool | UnsetType = UNSET
    requires_structured_output: bool | UnsetType = UNSET
    is_worker: bool | UnsetType = UNSET
    privacy_level: Privacy | UnsetType = UNSET
    delegate_tier: Tier | Literal["none"] | UnsetType = UNSET
    chosen_by_hand: bool | UnsetType = UNSET
    similar_turns: bool | UnsetType = UNSET
    in_workspace: str | UnsetType = UNSET
    all_up: Words | UnsetType = UNSET
    any_up: Words | UnsetType = UNSET
    budget_left_usd: SignedUsd | UnsetType = UNSET
    max_output_tokens: Count | UnsetType = UNSET


class ClaimedDecision(Struct, frozen=True, forbid_unknown_fields=True):
    """What a claim says of the decision. Several keys mean that all hold."""

    model: Words | UnsetType = UNSET
    provider: Words | UnsetType = UNSET
    location: Location | UnsetType = UNSET
    outside: ZoneName | UnsetType = UNSET
    """A zone that the model does not lie within."""
    rule: Words | UnsetType = UNSET
    policy: Slot | UnsetType = UNSET
    no_model: bool | UnsetType = UNSET
    cost_exceeds_usd: Usd | UnsetType = UNSET


class Claim(Struct, frozen=True, forbid_unknown_fields=True):
    """One claim: what never, always or sometimes is decided about some turns."""

    note: str = ""
    when: ClaimedTurns = ClaimedTurns()
    never: ClaimedDecision | UnsetType = UNSET
    always: ClaimedDecision | UnsetType = UNSET
    some: ClaimedDecision | UnsetType = UNSET


class ClaimAnswer(Struct, frozen=True):
    """The answer to a claim.

    The example is the turn that refutes it, or for `some` the one that shows it; `differences`
    counts its facts that are not a plain turn's. `is_empty` tells that there is no turn of the
    kind it is about. `steps` count the work. `unknown` says why there is neither a proof nor a
    turn that refutes it: an expression that the proof does not look into.
    """

    holds: bool
    example: Example | None
    differences: int
    is_empty: bool
    steps: int
    unknown: str = ""


_KINDS: Final = ("never", "always", "some")
_FLAGS: Final = (
    "has_tool_definitions", "has_system_prompt", "requires_structured_output", "is_worker",
)  # fmt: skip
_OWN_FIELDS: Final = frozenset(ClaimedTurns.__struct_fields__) - frozenset(When.__struct_fields__)


def read_claims(document: Document, ready: CompiledTurnPolicy) -> tuple[Claim, ...]:
    """Read a list of claims, or raise with every problem at its place."""

    def problems(claims: tuple[Claim, ...], document: Document) -> Iterable[Problem]:
        if not claims:
            yield document.problem((), Code.TOO_SHORT, "there are no claims")
        for index, claim in enumerate(claims):
            yield from _problems(claim, ready, document, (index,))

    return conform(document, tuple[Claim, ...], problems)


def _problems(
    claim: Claim, ready: CompiledTurnPolicy, document: Document, at: Path
) -> Iterator[Problem]:
    said = [name for name in _KINDS if getattr(claim, name) is not UNSET]
    if len(said) != 1:
        message = "a claim says one of `never`, `always` and `some`"
        yield document.problem(at, Code.INVALID_VALUE, message)
    yield from condition_problems(claim.when, document, (*at, "when"))
    yield from _model_problems(claim.when.all_up, ready, document, (*at, "when", "all_up"))
    yield from _model_problems(claim.when.any_up, ready, document, (*at, "when", "any_up"))
    rules = {each.name for each in _rules(ready)}
    for kind in said:
        decision: ClaimedDecision = getattr(claim, kind)
        if all(getattr(decision, each) is UNSET for each in decision.__struct_fields__):
            message = "a claim that says nothing of the decision could not fail"
            yield document.problem((*at, kind), Code.TOO_SHORT, message)
        yield from _model_problems(decision.model, ready, document, (*at, kind, "model"))
        for rule in _words(decision.rule):
            if rule not in rules:
                message = f"`{rule}` is not a rule of routing.yaml"
                yield document.problem((*at, kind, "rule"), Code.UNKNOWN_VALUE, message)


def _model_problems(
    given: Words | UnsetType, ready: CompiledTurnPolicy, document: Document, at: Path
) -> Iterator[Problem]:
    for index, name in enumerate(_words(given)):
        if name not in ready.aliases:
            place = (*at, index) if (*at, index) in document.keys else at
            yield from unknown_model_problems(name, ready.models, document, place)


def _rules(ready: CompiledTurnPolicy) -> Iterator[RoutingRule]:
    yield from ready.policy.rules
    for workspace in ready.policy.workspaces:
        yield from workspace.rules


class Prover:
    """Answers claims about one policy; each answer makes the next one quicker."""

    def __init__(self, ready: CompiledTurnPolicy) -> None:
        self._ready = ready
        self._world = world_of([ready])
        self._known: dict[World, _Question] = {}

    def answer(self, claim: Claim) -> ClaimAnswer:
        """Answer a claim exactly, or raise where that takes too many steps."""
        when = claim.when
        limits = {*self._world.team_limits, *team_limits(own_condition(when))}
        world = replace(
            self._world,
            budget_left=_microusd(when.budget_left_usd),
            max_output_tokens=_or_none(when.max_output_tokens),
            team_limits=tuple(sorted(limits)),
            zones=zones_to_try((*self._world.zones, *asked_zones(own_condition(when)))),
        )
        question = self._known.get(world)
        if question is None:
            question = self._known[world] = _Question(self._ready, world)
        return question.answer(claim)


def own_condition(when: ClaimedTurns) -> Condition:
    """Return the part of a claim's turns that is said as in routing rules."""
    return condition(When(**{name: getattr(when, name) for name in When.__struct_fields__}))


class _NotDecided(Exception):
    """The turn that was found is none: it rests on what an expression was taken to say."""


class _Question:
    """The formula of a policy under one budget."""

    def __init__(self, ready: CompiledTurnPolicy, world: World) -> None:
        self._ready = ready
        self._world = world
        self._turn = TurnVariables(team_budgets=world.team_budgets, zones=world.zones)
        self._similar = SimilarTurns(self._turn, self._world.models)
        self._chain = ChainFormula(ready, self._turn, self._world, self._similar)

    def answer(self, claim: Claim) -> ClaimAnswer:
        solver = self._turn.solver
        before = solver.steps
        asked = [self._turns_literal(claim.when)]
        for decision in (claim.never, claim.some):
            asked += [] if decision is UNSET else [self._decision_literal(decision)]
        asked += [] if claim.always is UNSET else [-self._decision_literal(claim.always)]
        found = self._least(asked)
        is_found, is_wanted = found is not None, claim.some is not UNSET
        is_empty = not is_found and not is_wanted and solver.solve(asked[:1]) is None
        try:
            example = self._example(found)
        except _NotDecided as refusal:
            # A turn in which no such expression says other than usual can be shown.
            usual = (-lit for name, lit in self._turn.changes().items() if name.startswith(OPAQUE))
            found = self._least([*asked, *usual])
            try:
                example = self._example(found)
            except _NotDecided:
                example = None
            if example is not None:
                return ClaimAnswer(
                    holds=is_wanted,
                    example=example,
                    differences=0 if found is None else self._count(found),
                    is_empty=False,
                    steps=solver.steps - before,
                )
            steps = solver.steps - before
            return ClaimAnswer(
                holds=False,
                example=None,
                differences=0,
                is_empty=False,
                steps=steps,
                unknown=str(refusal),
            )
        return ClaimAnswer(
            is_found is is_wanted,
            example,
            0 if found is None else self._count(found),
            is_empty,
            solver.steps - before,
        )

    def _least(self, assumed: list[int]) -> Model | None:
        return self._turn.least(assumed, self._similar.changes())

    def _count(self, model: Model) -> int:
        changes = {**self._turn.changes(), **self._similar.changes()}
        return sum(
            is_met(model, each) for name, each in changes.items() if not name.startswith(OPAQUE)
        )

    def _example(self, model: Model | None) -> Example | None:
        if model is None:
            return None
        example = make_example(self._ready, self._turn, self._similar, self._world, model)
        if example is None:
            raise PolicyTooComplex("no recorded turns were found that speak for this model")
        said = [each for each, lit in self._chain.wins.items() if model[abs(lit)] * lit > 0]
        if example.winner != (said[0] if said else None):
            if self._turn.opaque:
                texts = dict.fromkeys(text for text, _, _ in self._turn.opaque)
                raise _NotDecided(f"not looked into: {'; '.join(texts)}")
            raise AssertionError(f"the formula says {said}, the chain decides {example.winner}")
        return example

    def _turns_literal(self, when: ClaimedTurns) -> int:
        """Return where a turn is of the kind that a claim is about."""
        turn, solver = self._turn, self._turn.solver
        parts = [turn.holds(own_condition(when), has_team=bool(self._world.team_budgets))]
        for name in _FLAGS:
            value = getattr(when, name)
            if value is not UNSET:
                literal = turn.flag(name)
                parts.append(literal if value else -literal)
        if when.privacy_level is not UNSET:
            stays = turn.flag("stays_local")
            parts.append(stays if when.privacy_level == "local" else -stays)
        if when.delegate_tier is not UNSET:
            tiers = turn.tiers()
            none = -solver.either(tiers.values())
            parts.append(none if when.delegate_tier == "none" else tiers[when.delegate_tier])
        if when.in_workspace is not UNSET:
            parts.append(turn.inside(when.in_workspace))
        parts += self._choices(when)
        return solver.both([*parts, *self._outages(when)])

    def _choices(self, when: ClaimedTurns) -> Iterator[int]:
        turn, world, either = self._turn, self._world, self._turn.solver.either
        if when.chosen_by_hand is not UNSET:
            by_hand = either((
                *turn.choose("override", world.aliases).values(),
                *turn.choose("named_model", world.models).values(),
                *turn.choose("sticky_model", world.models).values(),
            ))  # fmt: skip
            yield by_hand if when.chosen_by_hand else -by_hand
        if when.similar_turns is not UNSET:
            said = either(self._similar.changes().values())
            yield said if when.similar_turns else -said

    def _outages(self, when: ClaimedTurns) -> Iterator[int]:
        yield from (-self._out(name) for name in _words(when.all_up))
        if when.any_up is not UNSET:
            yield self._turn.solver.either(-self._out(name) for name in _words(when.any_up))

    def _out(self, given: str) -> int:
        name = self._name(given)
        return self._turn.out(name, is_local=self._ready.models[name].location == "local")

    def _name(self, given: str) -> str:
        return self._ready.aliases.get(given) or model_id(given)

    def _decision_literal(self, asked: ClaimedDecision) -> int:
        """Return where the decision is as a claim says."""
        chain, both = self._chain, self._turn.solver.both
        taken = chain.takes(lambda winner: self._is_asked(winner, asked))
        limit = _microusd(asked.cost_exceeds_usd)
        if limit is not None:
            taken = both((taken, chain.costs_more(limit)))
        if asked.no_model is UNSET:
            return taken
        if not asked.no_model:
            return both((taken, -chain.no_model))
        others = (each for each in asked.__struct_fields__ if each != "no_model")
        is_alone = all(getattr(asked, each) is UNSET for each in others)
        return chain.no_model if is_alone else both((taken, chain.no_model))

    def _is_asked(self, winner: Winner, asked: ClaimedDecision) -> bool:
        model = self._ready.models[winner.model]
        return (
            (asked.model is UNSET or winner.model in map(self._name, _words(asked.model)))
            and (asked.provider is UNSET or provider_of(winner.model) in _words(asked.provider))
            and (asked.location is UNSET or model.location == asked.location)
            and (asked.outside is UNSET or not lies_within(model, [asked.outside]))
            and (asked.rule is UNSET or winner.rule in _words(asked.rule))
            and (asked.policy is UNSET or winner.slot == asked.policy)
        )


def _words(value: Words | UnsetType) -> tuple[str, ...]:
    if isinstance(value, UnsetType):
        return ()
    return (value,) if isinstance(value, str) else value


def _or_none(value: int | UnsetType) -> int | None:
    return None if isinstance(value, UnsetType) else value


def _microusd(value: object) -> MicroUsd | None:
    return None if isinstance(value, UnsetType) else microusd(f"{value:f}")
