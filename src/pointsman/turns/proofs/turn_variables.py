"""The facts of a turn as variables of a solver, beside a known turn that they may differ from.

A turn has one count of input tokens, as all surfaces record it; its workspace is written without
`.` and `..`. The facts that change nothing about which model takes a turn are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal

import re2
from msgspec import UNSET, UnsetType

from pointsman.errors import MissingSnapshot
from pointsman.expressions.checking import Declared
from pointsman.expressions.evaluate import EvaluationScope, RootNames, evaluate
from pointsman.expressions.syntax import Key, Node
from pointsman.expressions.values import MISSING, Missing, Value, follow_path
from pointsman.kernel.canonical import MAX_INT
from pointsman.placement.rules.zones import CLOUD, LOCAL
from pointsman.turns.facts import ANY_MODEL, TurnFacts
from pointsman.turns.proofs.solver import TRUE, Literals, Model, Solver
from pointsman.turns.proofs.texts import TextSearch
from pointsman.turns.registry.models import TIERS, provider_of
from pointsman.turns.rules.condition import Condition, FactsView, Patterns
from pointsman.turns.rules.fact_expression import (
    FACT_KINDS,
    fact_expression,
    fact_values,
    names_of_tree,
)
from pointsman.turns.rules.fact_formula import Atom, FlagAtom, KeyAtom, split_formula
from pointsman.turns.rules.split import DRAWS, SplitBy, draw_number, salt_of
from pointsman.turns.rules.text_patterns import TextPatterns, literal_pattern

PLAIN: Final = TurnFacts("hello", estimated_input_tokens={ANY_MODEL: 100})
"""A turn in which nothing is special."""

NumberName = Literal[
    "input_tokens", "local_minutes", "cost_today_microusd", "team_left_microusd"
]  # fmt: skip
FlagName = Literal[
    "has_images", "has_tool_calls_in_history", "has_tool_definitions", "has_system_prompt",
    "requires_structured_output", "is_worker", "stays_local", "has_workspace",
]  # fmt: skip
ChoiceName = Literal["override", "named_model", "sticky_model", "delegate_tier"]
CallerName = Literal["key_id", "key_name", "tenant", "agent"]

BOUNDS: Final[dict[NumberName, tuple[int, int]]] = {
    "input_tokens": (0, MAX_INT),
    "local_minutes": (0, 24 * 60 - 1),
    "cost_today_microusd": (0, MAX_INT),
    "team_left_microusd": (-MAX_INT, MAX_INT),
}
ODD_PATHS: Final = (r"(?s)\A/(.*/)?/", r"(?s)\A/(.*/)?\.{1,2}(/|\z)", r"(?s)\A/.*[^/]/\z")
"""Absolute paths that are not in their normal form."""

OpaqueKey = tuple[str, int, tuple[Key, ...] | None]
OPAQUE: Final = "expr "
"""What the names of differences begin with that only an expression sees."""

_ESCAPED: Final = r"\A\\@"
_BLANK_START: Final = r"\A[\t\n\v\f\r ]"
_EMPTY: Final = r"\A\z"


class TurnVariables:
    """One turn that is looked for. Each literal says something about its facts."""

    def __init__(
        self,
        base: TurnFacts = PLAIN,
        team_budgets: tuple[str, ...] = (),
        zones: tuple[str, ...] = (),
    ) -> None:
        self.base = base
        self.zones = zones
        """The zones beside the built-in ones that a turn may have to stay within."""
        self.team_budgets = team_budgets
        """The budgets for each tenant; one variable stands for what the tightest still allows."""
        self.solver = Solver(self._broken_texts)
        self.search = TextSearch(self.solver.spend)
        self.flags: dict[FlagName, int] = {}
        self.numbers: dict[NumberName, dict[int, int]] = {name: {} for name in BOUNDS}
        self.texts: dict[str, int] = {}
        self.paths: dict[str, int] = {}
        self.words: dict[tuple[str, str], int] = {}
        self.outages: dict[str, int] = {}
        self.choices: dict[ChoiceName, dict[str, int]] = {}
        self.callers: dict[CallerName, dict[str, int]] = {}
        self.draws: dict[tuple[str, SplitBy], dict[int, int]] = {}
        self.opaque: dict[OpaqueKey, tuple[int, int]] = {}
        """What expressions ask that is not looked into: where it is true, and where false."""
        self._conditions: dict[tuple[Condition, bool, bool], int] = {}

    def flag(self, name: FlagName) -> int:
        """Return the literal of a fact that is true or false."""
        if name not in self.flags:
            self.flags[name] = self.solver.choice(prefers=flag_of(self.base, name))
        return self.flags[name]

    def more(self, name: NumberName, limit: int) -> int:
        """Return a literal that holds where a number is above a limit."""
        least, most = BOUNDS[name]
        if not least <= limit < most:
            return TRUE if limit < least else -TRUE
        return self._above(self.numbers[name], limit, number_of(self.base, name))

    def drawn_above(self, rule: str, by: SplitBy, limit: int) -> int:
        """Return a literal that holds where the unit of a turn draws more than this for a rule."""
        if not 0 <= limit < DRAWS - 1:
            return TRUE if limit < 0 else -TRUE
        known = self.draws.setdefault((rule, by), {})
        return self._above(known, limit, _own_draw(self.base, rule, by))

    def _above(self, known: dict[int, int], limit: int, own: int) -> int:
        """Return the literal of a limit, in order with those of the same number."""
        if limit not in known:
            known[limit] = self.solver.choice(prefers=own > limit)
            below = max((each for each in known if each < limit), default=None)
            above = min((each for each in known if each > limit), default=None)
            if below is not None:
                self.solver.add((-known[limit], known[below]))
            if above is not None:
                self.solver.add((-known[above], known[limit]))
        return known[limit]

    def text(self, pattern: str) -> int:
        """Return a literal that holds where a pattern is found in the message."""
        if pattern not in self.texts:
            message = self.base.message
            if not isinstance(message, str):
                raise MissingSnapshot("a rule reads the message, and its text is not kept")
            is_found = bool(self.search.hits(message, (pattern,)))
            is_first = not self.texts
            self.texts[pattern] = self.solver.choice(prefers=is_found)
            if is_first:
                # A message that begins so is written without its first character, but for workers.
                self.solver.add((-self.text(_ESCAPED), self.flag("is_worker")))
        return self.texts[pattern]

    def path(self, pattern: str) -> int:
        """Return a literal that holds where a pattern is found in the workspace's path."""
        if pattern not in self.paths:
            own = self.base.workspace_path
            is_found = own is not None and bool(self.search.hits(own, (pattern,)))
            self.paths[pattern] = self.solver.choice(prefers=is_found)
            self.solver.add((-self.paths[pattern], self.flag("has_workspace")))
        return self.paths[pattern]

    def inside(self, workspace: str) -> int:
        """Return a literal that holds where the turn is in a workspace or below it."""
        stem = workspace.rstrip("/")
        return self.path(rf"\A{re2.escape(stem)}(/|\z)" if stem else r"\A/")

    def word(self, name: str, word: str) -> int:
        """Return a literal that holds where a skill or a file extension is among a turn's."""
        if (name, word) not in self.words:
            has = word in words_of(self.base, name)
            self.words[name, word] = self.solver.choice(prefers=has)
        return self.words[name, word]

    def zone(self, name: str) -> int:
        """Return a literal that holds where a turn must stay within a zone, and no wider one."""
        if name == LOCAL:
            return self.flag("stays_local")
        if name == CLOUD:
            bound = (-self.zone(each) for each in self.zones)
            return self.solver.both((-self.flag("stays_local"), *bound))
        if name not in self.zones:
            return -TRUE
        if ("zones", name) not in self.words:
            self.solver.add((-self.flag("stays_local"), -self.word("zones", name)))
        return self.word("zones", name)

    def out(self, model: str, *, is_local: bool) -> int:
        """Return a literal that holds where a model is out, lacks its key or is not permitted."""
        if model not in self.outages:
            is_out = was_out(self.base, model, is_local=is_local)
            self.outages[model] = self.solver.choice(prefers=is_out)
        return self.outages[model]

    def choose(self, name: ChoiceName, values: Sequence[str]) -> dict[str, int]:
        """Return the literals of the values that a fact may have; it may have none of them."""
        if name not in self.choices:
            own = choice_of(self.base, name)
            literals = {each: self.solver.choice(prefers=each == own) for each in values}
            self.choices[name] = literals
            self.solver.add_at_most_one([*literals.values()])
            if name == "override":
                some = self.solver.either(literals.values())
                for odd in (self.flag("is_worker"), self.text(_BLANK_START), self.text(_EMPTY)):
                    self.solver.add((-some, -odd))
        return self.choices[name]

    def tiers(self) -> dict[str, int]:
        """Return the literals of the tiers that a delegation may ask for."""
        return self.choose("delegate_tier", TIERS)

    def caller(self, name: CallerName, value: str) -> int:
        """Return a literal that holds where a fact about the turn's caller has this value."""
        known = self.callers.setdefault(name, {})
        if value not in known:
            own = caller_of(self.base, name)
            known[value] = self.solver.choice(prefers=value == own)
            for other in known.values():
                if other != known[value]:
                    self.solver.add((-other, -known[value]))
        return known[value]

    def holds(self, asked: Condition, *, has_team: bool = True, denied: bool = False) -> int:
        """Return the literal of a condition; `has_team` tells of budgets for each tenant.

        Inside of a `not` it is `denied`: it then holds where it is not false for certain.
        """
        key = (asked, has_team, denied)
        if key not in self._conditions:
            parts = self._parts(asked, has_team=has_team, denied=denied)
            self._conditions[key] = self.solver.both(parts)
        return self._conditions[key]

    def _parts(self, asked: Condition, *, has_team: bool, denied: bool) -> Iterable[int]:
        yield from self._text_parts(asked)
        yield from self._number_parts(asked)
        for name in ("has_images", "has_tool_calls_in_history"):
            wanted = getattr(asked, name)
            if wanted is not None:
                yield self.flag(name) if wanted else -self.flag(name)
        yield from self._word_parts(asked)
        limit = asked.team_budget_remaining_lt_microusd
        if limit is not UNSET:
            yield -self.more("team_left_microusd", limit - 1) if has_team else -TRUE
        if asked.expr is not UNSET:
            tree = fact_expression(asked.expr).expression.tree
            certain = self.tree(asked.expr, tree, FACT_KINDS, wanted=not denied, has_team=has_team)
            yield -certain if denied else certain
        yield from self._tree_parts(asked, has_team=has_team, denied=denied)

    def _tree_parts(self, asked: Condition, *, has_team: bool, denied: bool) -> Iterable[int]:
        if asked.any_of is not None:
            some = [self.holds(e, has_team=has_team, denied=denied) for e in asked.any_of]
            yield self.solver.either(some)
        for each in asked.all_of or ():
            yield self.holds(each, has_team=has_team, denied=denied)
        if asked.not_ is not None:
            yield -self.holds(asked.not_, has_team=has_team, denied=not denied)

    def tree(
        self, text: str, tree: Node, declared: Declared, *, wanted: bool, has_team: bool = True
    ) -> int:
        """Return the literal of an expression that is true, or false, for certain.

        A part that no predicate can say is true, false or unknown, whatever the turn is.
        """

        def join(is_all: bool, parts: Iterator[int]) -> int:  # noqa: FBT001 - as the fold has it
            return self.solver.both(parts) if is_all else self.solver.either(parts)

        def leaf(node: Node, is_true: bool, atom: Atom | None) -> int:  # noqa: FBT001 - as above
            match atom:
                case Condition():
                    return self.holds(atom, has_team=has_team)
                case FlagAtom():
                    return self.flag(atom.name) if atom.wanted else -self.flag(atom.name)
                case KeyAtom():
                    found = self.solver.either(self.caller(atom.name, e) for e in atom.values)
                    return found if atom.wanted else -found
            return self._opaque(text, node, declared)[0 if is_true else 1]

        return split_formula(tree, wanted, declared, join, leaf)

    def _opaque(self, text: str, node: Node, declared: Declared) -> tuple[int, int]:
        key = (text, node.at, declared.input_keys)
        if key not in self.opaque:
            own = fact_truth(node, declared, self.base)
            yes = self.solver.choice(prefers=own is True)
            no = self.solver.choice(prefers=own is False)
            self.solver.add((-yes, -no))
            self.opaque[key] = (yes, no)
        return self.opaque[key]

    def _word_parts(self, asked: Condition) -> Iterable[int]:
        lists = {
            "skills_matching_message": asked.skills_matching_message_includes,
            "file_extensions_in_context": asked.file_extensions_in_context,
            "tool_names": asked.tool_names_include,
            "labels": asked.label_includes,
        }
        for name, words in lists.items():
            if words is not None and words is not UNSET:
                yield self.solver.either(self.word(name, each) for each in words)
        if asked.zone_is is not UNSET:
            yield self.solver.either(self.zone(each) for each in asked.zone_is)
        callers: tuple[tuple[tuple[str, ...] | UnsetType, tuple[CallerName, ...]], ...] = (
            (asked.key_is, ("key_id", "key_name")),
            (asked.tenant_is, ("tenant",)),
            (asked.agent_is, ("agent",)),
        )
        for names, facts in callers:
            if names is not UNSET:
                yield self.solver.either(
                    self.caller(fact, each) for each in names for fact in facts
                )

    def _text_parts(self, asked: Condition) -> Iterable[int]:
        if asked.message_matches is not None:
            yield self.text(asked.message_matches)
        if asked.message_contains_any is not None:
            yield self.text(literal_pattern(asked.message_contains_any))
        if asked.workspace_path_matches is not None:
            yield self.path(asked.workspace_path_matches)

    def _number_parts(self, asked: Condition) -> Iterable[int]:
        if asked.estimated_input_tokens_gt is not None:
            yield self.more("input_tokens", asked.estimated_input_tokens_gt)
        if asked.estimated_input_tokens_lt is not None:
            yield -self.more("input_tokens", asked.estimated_input_tokens_lt - 1)
        if asked.cost_today_exceeds_microusd is not None:
            yield self.more("cost_today_microusd", asked.cost_today_exceeds_microusd)
        window = asked.time_of_day_between
        if window is not None and window.start != window.end:
            begun = self.more("local_minutes", window.start - 1)
            over = self.more("local_minutes", window.end - 1)
            is_plain = window.start < window.end
            join = self.solver.both if is_plain else self.solver.either
            yield join((begun, -over))

    def changes(self) -> dict[str, int]:
        """Return, for each fact, a literal that holds where it differs from the known turn's."""
        either, base = self.solver.either, self.base
        found: dict[str, int] = {
            name: -literal if flag_of(base, name) else literal
            for name, literal in self.flags.items()
            if name != "has_workspace"
        }
        for number, limits in self.numbers.items():
            own = number_of(base, number)
            found[number] = either(-lit if own > k else lit for k, lit in limits.items())
        found["message"] = either(self._differing(self.texts, base.message))
        moved = [*self._differing(self.paths, base.workspace_path)]
        has = self.flag("has_workspace")
        moved.append(has if base.workspace_path is None else -has)
        found["workspace"] = either(moved)
        for (name, word), literal in self.words.items():
            found[f"{name} {word}"] = -literal if word in words_of(base, name) else literal
        for model, literal in self.outages.items():
            # The value a variable prefers is that of the known turn.
            found[f"out {model}"] = -literal if self.prefers_out(model) else literal
        for choice, values in self.choices.items():
            own_choice = choice_of(base, choice)
            found[choice] = either(
                -lit if each == own_choice else lit for each, lit in values.items()
            )
        for by in dict.fromkeys(by for _, by in self.draws):
            found[f"split by {by}"] = either(
                -literal if _own_draw(base, rule, by) > limit else literal
                for (rule, unit), limits in self.draws.items()
                if unit == by
                for limit, literal in limits.items()
            )
        for caller, values in self.callers.items():
            own_value = caller_of(base, caller)
            found[f"caller {caller}"] = either(
                -lit if each == own_value else lit for each, lit in values.items()
            )
        for (text, place, _), pair in self.opaque.items():
            # The value a variable prefers is that of the known turn.
            found[f"{OPAQUE}{text} {place}"] = either(
                -each if self.solver.preference(each) else each for each in pair
            )
        return {name: literal for name, literal in found.items() if literal != -TRUE}

    def prefers_out(self, model: str) -> bool:
        """Tell whether a model is out in the known turn."""
        return self.solver.preference(self.outages[model])

    def _differing(self, known: Mapping[str, int], text: object) -> Iterable[int]:
        found = self.search.hits(text, known) if isinstance(text, str) and known else frozenset()
        return (-literal if each in found else literal for each, literal in known.items())

    def _broken_texts(self, model: Model) -> Iterable[Literals]:
        """Return why no message, or no path, can be as the values have it."""
        yield from self._broken(self.texts, model, frozenset(), self.base.message)
        if "has_workspace" in self.flags and model[self.flags["has_workspace"]] > 0:
            odd = frozenset(ODD_PATHS)
            yield from self._broken(self.paths, model, odd, self.base.workspace_path)

    def _broken(
        self, known: Mapping[str, int], model: Model, odd: frozenset[str], own: object
    ) -> Iterable[Literals]:
        wanted = frozenset(each for each, literal in known.items() if model[literal] > 0)
        if isinstance(own, str) and self.search.hits(own, known) == wanted:
            return
        unwanted = frozenset(known) - wanted | odd
        found = self.search.witness(wanted, unwanted)
        if not isinstance(found, str):
            needed, avoided = self.search.core(wanted, found)
            kept = (known[each] for each in sorted(avoided - odd))
            yield (*(-known[each] for each in sorted(needed)), *kept)

    def least(self, assumed: Iterable[int], others: Mapping[str, int]) -> Model | None:
        """Return the turn that differs in the fewest facts from the known one, if there is one.

        `others` are literals of differences that these variables do not know of.
        """
        assumptions = tuple(assumed)
        found = self.solver.solve(assumptions)
        if found is None:
            return None
        changes = [*self.changes().values(), *others.values()]
        found = self.solver.solve(assumptions) or found
        most = sum(is_met(found, each) for each in changes)
        counts = self._counts(changes, most)
        for limit in range(most):
            fewer = self.solver.solve((*assumptions, -counts[limit]))
            if fewer is not None:
                return fewer
        return found

    def _counts(self, literals: Sequence[int], most: int) -> list[int]:
        """Return literals that hold where more than 0, 1, … of the given ones do."""
        counts = [-TRUE] * most
        for literal in literals:
            before = [TRUE, *counts]
            counts = [
                self.solver.either((counts[n], self.solver.both((before[n], literal))))
                for n in range(most)
            ]
        return counts


def is_met(model: Model, literal: int) -> bool:
    """Tell whether a literal holds under the values of a model."""
    return (model[abs(literal)] > 0) == (literal > 0)


def number_of(facts: TurnFacts, name: NumberName) -> int:
    """Return a number of a turn's facts; a budget that is not there allows everything."""
    if name == "input_tokens":
        return facts.tokens_for(ANY_MODEL)
    if name == "team_left_microusd":
        return MAX_INT
    return facts.local_minutes if name == "local_minutes" else facts.cost_today_microusd


def _own_draw(facts: TurnFacts, rule: str, by: SplitBy) -> int:
    units = facts.split_units
    return draw_number(salt_of(rule), "" if units is UNSET else getattr(units, by))


def choice_of(facts: TurnFacts, name: ChoiceName) -> str | None:
    """Return the value of a fact that is one of several names, or none."""
    if name == "override":
        return None if facts.override is None else facts.override.alias
    value = getattr(facts, name)
    return None if value is UNSET else value


def was_out(facts: TurnFacts, model: str, *, is_local: bool) -> bool:
    """Tell whether an outage, a missing key or a permission keeps a model from a turn."""
    known = (facts.availability.get(provider_of(model)), facts.availability.get(model))
    stops = () if facts.stops is UNSET else facts.stops
    return (
        any(each.scope != "provider" or each.name == provider_of(model) for each in stops)
        or (facts.network_state == "offline" and not is_local)
        or any(each in {"unavailable", "rate_limited"} for each in known)
        or (facts.configured is not None and model not in facts.configured)
        or (facts.allowed_models is not None and model not in facts.allowed_models)
        or model in facts.excluded_models
    )


def flag_of(facts: TurnFacts, name: FlagName) -> bool:
    """Return a fact that is true or false."""
    if name == "has_workspace":
        return facts.workspace_path is not None
    if name == "stays_local":
        return LOCAL in facts.zones
    return bool(getattr(facts, name))


def words_of(facts: TurnFacts, name: str) -> tuple[str, ...]:
    """Return the words of a fact that is a list."""
    words: tuple[str, ...] | UnsetType = getattr(facts, name)
    return () if isinstance(words, UnsetType) else words


def caller_of(facts: TurnFacts, name: CallerName) -> str:
    """Return a fact about the caller of a turn; empty where there is none."""
    value: str = "" if facts.caller is UNSET else getattr(facts.caller, name)
    return value


def fact_truth(node: Node, declared: Declared, facts: TurnFacts) -> bool | None:
    """Return what an expression says of known facts; None where it has no answer."""
    look = FactsView(facts, Patterns(TextPatterns(), TextPatterns()))
    try:
        context = fact_values(names_of_tree(node, declared), look, ANY_MODEL)
    except MissingSnapshot:
        return None
    given: Value | Missing = MISSING
    if declared.input_keys:
        given = follow_path(context, declared.input_keys)
    elif declared.input_keys is not None:
        given = context
    found = evaluate(node, EvaluationScope(context, given), RootNames()).value
    return found if isinstance(found, bool) else None
