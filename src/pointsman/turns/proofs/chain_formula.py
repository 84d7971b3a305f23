"""The chain of a policy as literals: for each way a turn can be decided, where it is taken.

It says what `decide` says of every turn there is; each example that is drawn from it is decided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import UNSET, Struct, UnsetType

from pointsman.kernel.canonical import MAX_INT
from pointsman.kernel.number import MicroUsd
from pointsman.placement.rules.zones import BUILT_IN_ZONES
from pointsman.turns.compiled import CompiledTurnPolicy, WorkspaceScope
from pointsman.turns.learning.pattern import PatternSettings
from pointsman.turns.policy import RoutingRule, known_zones
from pointsman.turns.proofs.similar_turns import SimilarTurns
from pointsman.turns.proofs.solver import TRUE
from pointsman.turns.proofs.turn_variables import TurnVariables
from pointsman.turns.registry.models import TIERS, Model, call_estimate, lies_within
from pointsman.turns.rules.condition import Condition, asked_zones
from pointsman.turns.rules.fact_formula import known_conditions, lower_expressions
from pointsman.turns.rules.split import share_starts
from pointsman.turns.rules.table import RoutingTable, TableConditions
from pointsman.turns.trace import Slot

UNKNOWN: Final = "unknown:model"
"""Stands for every name that a request may give and no policy knows."""


ELSEWHERE: Final = "elsewhere"
"""Stands for every zone in which no model is."""


class Winner(Struct, frozen=True, order=True):
    """One way a turn can be decided: the slot, its rule where it is one, and the model."""

    slot: Slot
    rule: str
    model: str


class World(Struct, frozen=True):
    """The names and amounts that all turns of one question share.

    A turn whose budgets allow less than it may cost is looked at where `budget_left` is given.
    """

    aliases: tuple[str, ...]
    models: tuple[str, ...]
    budget_left: MicroUsd | None = None
    max_output_tokens: int | None = None
    team_budgets: tuple[str, ...] = ()
    team_limits: tuple[MicroUsd, ...] = ()
    zones: tuple[str, ...] = ()


class ChainFormula:
    """The decisions of one policy over the turns of some variables."""

    def __init__(
        self, ready: CompiledTurnPolicy, turn: TurnVariables, world: World, similar: SimilarTurns
    ) -> None:
        self.ready = ready
        self.wins: dict[Winner, int] = {}
        self.rules: dict[str, int] = {}
        """For each rule, where it is asked and holds, whatever becomes of its model."""
        self._turn = turn
        self._world = world
        self._similar = similar
        self._both, self._either = turn.solver.both, turn.solver.either
        self._vetoes: dict[str, int] = {}
        self._kept_here = -TRUE
        """Where a local model was chosen by hand and could not take the turn."""
        self._no_model: list[int] = []
        budgets = ready.policy.budgets
        self._zones = world.zones
        self._has_team = any(each.each == "tenant" for each in budgets)
        rest = self._by_hand()
        for scope, inside in self._scopes():
            self._run_scope(scope, self._both((rest, inside)))
        self.no_model = self._either(self._no_model)

    def costs_more(self, limit: MicroUsd) -> int:
        """Return where the model that takes the turn may cost more than a limit, or unknown."""
        return self._either(
            self._both((literal, self._is_dearer(self.ready.models[winner.model], limit)))
            for winner, literal in self.wins.items()
        )

    def takes(self, is_asked: Callable[[Winner], bool]) -> int:
        """Return where one of the ways that are asked for decides the turn."""
        return self._either(lit for winner, lit in self.wins.items() if is_asked(winner))

    def _win(self, slot: Slot, rule: str, model: str, where: int) -> int:
        """Let a model take the turns that no veto keeps from it; return the others."""
        taken = self._both((where, -self._veto(model)))
        if taken != -TRUE:
            winner = Winner(slot, rule, model)
            self.wins[winner] = self._either((taken, self.wins.get(winner, -TRUE)))
        return self._both((where, -taken))

    def _veto(self, name: str) -> int:
        rejected = self._veto_of(name)
        model = self.ready.models.get(name)
        if model is None or model.location == "local":
            return rejected
        return self._either((rejected, self._kept_here))

    def _veto_of(self, name: str) -> int:
        """Return where a veto rejects a model, by its own and the turn's properties."""
        if name not in self._vetoes:
            model = self.ready.models.get(name)
            vetoes = (TRUE,) if model is None else self._reasons(name, model)
            self._vetoes[name] = self._either(vetoes)
        return self._vetoes[name]

    def _reasons(self, name: str, model: Model) -> Iterator[int]:
        turn, can = self._turn, model.capabilities
        if model.location != "local":
            yield turn.flag("stays_local")
            yield from (turn.zone(each) for each in self._zones if not lies_within(model, [each]))
        yield turn.out(name, is_local=model.location == "local")
        if can.supports_images is False:
            yield turn.flag("has_images")
        if can.max_context_tokens is not None:
            yield turn.more("input_tokens", can.max_context_tokens)
        if can.supports_tools is False:
            yield turn.flag("has_tool_definitions")
        if can.supports_system_prompt is False:
            yield turn.flag("has_system_prompt")
        if can.supports_structured_output is False:
            yield turn.flag("requires_structured_output")
        if self._world.budget_left is not None:
            yield self._is_dearer(model, self._world.budget_left)
        for limit in self._world.team_limits if self._world.team_budgets else ():
            # A tenant's budget allows as much as the rules that ask for it leave open.
            is_below = -turn.more("team_left_microusd", limit - 1)
            yield self._both((is_below, self._is_dearer(model, MicroUsd(limit - 1))))

    def _is_dearer(self, model: Model, limit: MicroUsd) -> int:
        """Return where a call may cost more than a limit: above some count of input tokens.

        A call that costs nothing costs no more than any limit.
        """
        limit = max(limit, MicroUsd(0))

        def is_within(tokens: int) -> bool:
            cost = call_estimate(model, tokens, self._world.max_output_tokens)
            return cost is not None and cost <= limit

        # A call never costs less for more tokens.
        within, beyond = -1, MAX_INT + 1
        while beyond - within > 1:
            middle = (within + beyond) // 2
            within, beyond = (middle, beyond) if is_within(middle) else (within, middle)
        return self._turn.more("input_tokens", within)

    def _by_hand(self) -> int:
        """Let a person's choice take the turn; return where none did and the chain goes on."""
        turn, both = self._turn, self._both
        user = -turn.flag("is_worker")
        rest = TRUE
        for alias, literal in turn.choose("override", self._world.aliases).items():
            name = self.ready.aliases[alias]
            left = self._win("per_message_override", "", name, both((literal, user)))
            rest = both((rest, self._either((-literal, -user, left))))
            self._keep_here(name, left)
        named = turn.choose("named_model", (*self._world.models, UNKNOWN))
        open_turn, is_named = rest, both((user, self._either(named.values())))
        for name, literal in named.items():
            where = both((open_turn, user, literal))
            self._no_model.append(self._win("manual_sticky", "", name, where))
        rest = both((rest, -is_named))
        unnamed, kept_here = rest, self._kept_here
        for name, literal in turn.choose("sticky_model", self._world.models).items():
            where = both((unnamed, user, literal))
            left = self._win("manual_sticky", "", name, where)
            rest = both((rest, self._either((-where, left))))
            kept_here = self._either((kept_here, left if self._is_local(name) else -TRUE))
        self._kept_here = kept_here
        return rest

    def _keep_here(self, name: str, rejected: int) -> None:
        if self._is_local(name):
            self._kept_here = self._either((self._kept_here, rejected))

    def _is_local(self, name: str) -> bool:
        model = self.ready.models.get(name)
        return model is not None and model.location == "local"

    def _scopes(self) -> Iterator[tuple[WorkspaceScope, int]]:
        """Yield each scope with where it holds: of nested workspaces the closest."""
        paths = sorted(
            (each.path for each in self.ready.policy.workspaces),
            key=lambda path: -path.rstrip("/").count("/"),
        )
        closer: list[int] = []
        for path in paths:
            inside = self._turn.inside(path)
            yield self.ready.scope(path), self._both((inside, *(-each for each in closer)))
            closer.append(inside)
        yield self.ready.scope(None), self._both(-each for each in closer)

    def _run_scope(self, scope: WorkspaceScope, where: int) -> None:
        rest = where
        for each in scope.rules:
            name = each.rule.name
            hit = self._both((rest, self._turn.holds(each.rule.when, has_team=self._has_team)))
            self.rules[name] = self._either((self.rules.get(name, -TRUE), hit))
            left = self._win_rule(each.rule, hit)
            rest = self._either((self._both((rest, -hit)), left))
        rest = self._pattern(scope.pattern, rest)
        rest = self._delegate(scope.tiers, rest)
        rest = self._defaults("workspace_default", scope.defaults, rest)
        self._no_model.append(self._global_default(rest))

    def _win_rule(self, rule: RoutingRule, where: int) -> int:
        """Let a rule's model take the turns, or each model of its split or table its share."""
        if rule.table is not UNSET:
            return self._win_table(rule.name, rule.table, where)
        if rule.split is UNSET:
            return self._win("rule", rule.name, rule.use, where)
        left = []
        for model, first, last in share_starts(rule.split):
            by = rule.split.by
            is_drawn = self._both((
                self._turn.drawn_above(rule.name, by, first - 1),
                -self._turn.drawn_above(rule.name, by, last),
            ))  # fmt: skip
            left.append(self._win("rule", rule.name, model, self._both((where, is_drawn))))
        return self._either(left)

    def _win_table(self, name: str, table: RoutingTable, where: int) -> int:
        """Let the model of each row take its turns; return those that go on to the next rule."""
        left = []
        for model, hit in self._table_shares(table):
            taken = self._both((where, hit))
            left.append(taken if model is None else self._win("rule", name, model, taken))
        return self._either(left)

    def _table_shares(self, table: RoutingTable) -> Iterator[tuple[str | None, int]]:
        """Yield the model of each row, and of the default, with where it is chosen.

        A row whose condition is not looked into is true or not, whatever the turn is.
        """
        conditions = TableConditions(table.input, [row.when for row in table.rows])
        holds = [
            self._turn.tree(
                f"{table.decision}: {each.text}", each.tree, conditions.declared,
                wanted=True, has_team=self._has_team,
            )
            for each in conditions.rows
        ]  # fmt: skip
        taken: list[int] = []
        is_ordered = table.hit in {"first", "lowest"}
        for number in table.order:
            others = taken if is_ordered else self._rivals(table, number, holds)
            hit = self._both((holds[number], *(-each for each in others)))
            yield table.rows[number].model, hit
            taken.append(holds[number] if is_ordered else hit)
        yield table.default, self._both(-each for each in taken)

    def _rivals(self, table: RoutingTable, number: int, holds: Sequence[int]) -> list[int]:
        """Return the rows that leave a row no say where they hold too."""
        rank, rows = table.rows[number].rank, table.rows
        is_any = table.hit == "any"
        return [
            each
            for other, each in enumerate(holds)
            if other != number and not (is_any and rows[other].rank == rank)
        ]

    def _pattern(self, settings: PatternSettings, where: int) -> int:
        if settings.mode != "apply":
            return where
        tiers = self._turn.tiers().values()
        asked = self._both((where, -self._turn.flag("is_worker"), *(-each for each in tiers)))
        rest = where
        for name, literal in self._similar.literals(settings).items():
            said = self._both((asked, literal))
            left = self._win("pattern", "", name, said)
            rest = self._both((rest, self._either((-said, left))))
        return rest

    def _delegate(self, models: Mapping[str, str], where: int) -> int:
        for tier, literal in self._turn.tiers().items():
            left = self._both((where, literal))
            for step in TIERS[TIERS.index(tier) :]:
                if step not in models and step == tier:
                    break
                if step in models:
                    left = self._win("delegate_request", "", models[step], left)
            # The planner asked for a tier: no default may stand in for it.
            self._no_model.append(left)
        return self._both((where, *(-each for each in self._turn.tiers().values())))

    def _defaults(self, slot: Slot, names: Sequence[str], where: int) -> int:
        for name in names:
            where = self._win(slot, "", name, where)
        return where

    def _global_default(self, where: int) -> int:
        ready = self.ready
        left = self._defaults("global_default", ready.defaults, where)
        if not ready.defaults or ready.local_model in ready.defaults:
            return left
        bound = (self._turn.zone(each) for each in self._zones)
        is_kept = self._either((self._turn.flag("stays_local"), self._kept_here, *bound))
        stays = self._both((left, is_kept))
        kept = self._win("global_default", "", ready.local_model, stays)
        return self._either((self._both((left, -stays)), kept))


def world_of(policies: Iterable[CompiledTurnPolicy]) -> World:
    """Return the names that a person may choose by: aliases that all policies know, all models."""
    given = [*policies]
    shared = [alias for alias in given[0].aliases if all(alias in each.aliases for each in given)]
    models = dict.fromkeys(name for each in given for name in each.models)
    policies_of = [each.policy for each in given]
    budgets = [each for policy in policies_of for each in policy.budgets if each.each == "tenant"]
    rules = [rule for policy in policies_of for rule in policy.rules]
    rules += [rule for policy in policies_of for own in policy.workspaces for rule in own.rules]
    limits = sorted({
        limit
        for rule in rules
        for asked in (rule.when, *table_asked(rule.table))
        for limit in team_limits(asked)
    })  # fmt: skip
    names = dict.fromkeys(each.name for each in budgets)
    return World(
        tuple(shared),
        tuple(models),
        team_budgets=tuple(names),
        team_limits=tuple(limits),
        zones=zones_to_try(
            (
                *(zone for policy in policies_of for zone in known_zones(policy)),
                *(zone for rule in rules for zone in asked_zones(rule.when)),
            )
        ),
    )


def table_asked(table: RoutingTable | UnsetType) -> Iterator[Condition]:
    """Yield what the rows of a table ask, as far as predicates say it."""
    if table is UNSET:
        return
    conditions = TableConditions(table.input, [row.when for row in table.rows])
    for each in conditions.rows:
        yield from known_conditions(each.tree, conditions.declared)


def zones_to_try(named: Iterable[str]) -> tuple[str, ...]:
    """Return the zones that a turn may be bound to: those named, and one of no model."""
    found = frozenset(named)
    return tuple(sorted((found | {ELSEWHERE}) - {*BUILT_IN_ZONES})) if found else ()


def team_limits(asked: Condition) -> Iterator[MicroUsd]:
    """Yield the amounts of a tenant's budget that a condition asks about."""
    yield from _team_limits(lower_expressions(asked))


def _team_limits(asked: Condition) -> Iterator[MicroUsd]:
    if asked.team_budget_remaining_lt_microusd is not UNSET:
        yield asked.team_budget_remaining_lt_microusd
    denied = () if asked.not_ is None else (asked.not_,)
    for inner in (*(asked.any_of or ()), *(asked.all_of or ()), *denied):
        yield from _team_limits(inner)
