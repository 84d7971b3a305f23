"""The facts of a turn as variables of a solver, beside a known turn that they may differ from.

A turn has one count of input tokens, as all surfaces record it; its workspace is written without
`.` and `..`. The facts that change nothing about which model takes a turn are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal

import re2
from msgspec import UNSET
from msgspec.structs import replace

from pointsman.errors import MissingSnapshot
from pointsman.kernel.canonical import MAX_INT
from pointsman.kernel.number import MicroUsd
from pointsman.turns.facts import ANY_MODEL, BudgetLeft, TurnFacts
from pointsman.turns.proofs.solver import TRUE, Literals, Model, Solver
from pointsman.turns.proofs.texts import TextSearch
from pointsman.turns.registry.models import TIERS, provider_of
from pointsman.turns.rules.condition import Condition
from pointsman.turns.rules.text_patterns import literal_pattern

PLAIN: Final = TurnFacts("hello", estimated_input_tokens={ANY_MODEL: 100})
"""A turn in which nothing is special."""

NumberName = Literal["input_tokens", "local_minutes", "cost_today_microusd"]
FlagName = Literal[
    "has_images", "has_tool_calls_in_history", "has_tool_definitions", "has_system_prompt",
    "requires_structured_output", "is_worker", "stays_local", "has_workspace",
]  # fmt: skip
ChoiceName = Literal["override", "named_model", "sticky_model", "delegate_tier"]

_BOUNDS: Final[dict[NumberName, tuple[int, int]]] = {
    "input_tokens": (0, MAX_INT),
    "local_minutes": (0, 24 * 60 - 1),
    "cost_today_microusd": (0, MAX_INT),
}
_ODD_PATHS: Final = (r"(?s)\A/(.*/)?/", r"(?s)\A/(.*/)?\.{1,2}(/|\z)", r"(?s)\A/.*[^/]/\z")
"""Absolute paths that are not in their normal form."""

_ESCAPED: Final = r"\A\\@"
_BLANK_START: Final = r"\A[\t\n\v\f\r ]"
_EMPTY: Final = r"\A\z"


class TurnVariables:
    """One turn that is looked for. Each literal says something about its facts."""

    def __init__(self, base: TurnFacts = PLAIN) -> None:
        self.base = base
        self.solver = Solver(self._broken_texts)
        self.search = TextSearch(self.solver.spend)
        self._flags: dict[FlagName, int] = {}
        self._numbers: dict[NumberName, dict[int, int]] = {name: {} for name in _BOUNDS}
        self._texts: dict[str, int] = {}
        self._paths: dict[str, int] = {}
        self._words: dict[tuple[str, str], int] = {}
        self._out: dict[str, int] = {}
        self._choices: dict[ChoiceName, dict[str, int]] = {}
        self._conditions: dict[Condition, int] = {}

    def flag(self, name: FlagName) -> int:
        """Return the literal of a fact that is true or false."""
        if name not in self._flags:
            self._flags[name] = self.solver.choice(prefers=_flag_of(self.base, name))
        return self._flags[name]

    def more(self, name: NumberName, limit: int) -> int:
        """Return a literal that holds where a number is above a limit."""
        least, most = _BOUNDS[name]
        if not least <= limit < most:
            return TRUE if limit < least else -TRUE
        known = self._numbers[name]
        if limit not in known:
            known[limit] = self.solver.choice(prefers=number_of(self.base, name) > limit)
            below = max((each for each in known if each < limit), default=None)
            above = min((each for each in known if each > limit), default=None)
            if below is not None:
                self.solver.add((-known[limit], known[below]))
            if above is not None:
                self.solver.add((-known[above], known[limit]))
        return known[limit]

    def text(self, pattern: str) -> int:
        """Return a literal that holds where a pattern is found in the message."""
        if pattern not in self._texts:
            message = self.base.message
            if not isinstance(message, str):
                raise MissingSnapshot("a rule reads the message, and its text is not kept")
            is_found = bool(self.search.hits(message, (pattern,)))
            is_first = not self._texts
            self._texts[pattern] = self.solver.choice(prefers=is_found)
            if is_first:
                # A message that begins so is written without its first character, but for workers.
                self.solver.add((-self.text(_ESCAPED), self.flag("is_worker")))
        return self._texts[pattern]

    def path(self, pattern: str) -> int:
        """Return a literal that holds where a pattern is found in the workspace's path."""
        if pattern not in self._paths:
            own = self.base.workspace_path
            is_found = own is not None and bool(self.search.hits(own, (pattern,)))
            self._paths[pattern] = self.solver.choice(prefers=is_found)
            self.solver.add((-self._paths[pattern], self.flag("has_workspace")))
        return self._paths[pattern]

    def inside(self, workspace: str) -> int:
        """Return a literal that holds where the turn is in a workspace or below it."""
        stem = workspace.rstrip("/")
        return self.path(rf"\A{re2.escape(stem)}(/|\z)" if stem else r"\A/")

    def word(self, name: str, word: str) -> int:
        """Return a literal that holds where a skill or a file extension is among a turn's."""
        if (name, word) not in self._words:
            has = word in _words_of(self.base, name)
            self._words[name, word] = self.solver.choice(prefers=has)
        return self._words[name, word]

    def out(self, model: str, *, is_local: bool) -> int:
        """Return a literal that holds where a model is out, lacks its key or is not permitted."""
        if model not in self._out:
            is_out = was_out(self.base, model, is_local=is_local)
            self._out[model] = self.solver.choice(prefers=is_out)
        return self._out[model]

    def choose(self, name: ChoiceName, values: Sequence[str]) -> dict[str, int]:
        """Return the literals of the values that a fact may have; it may have none of them."""
        if name not in self._choices:
            own = choice_of(self.base, name)
            literals = {each: self.solver.choice(prefers=each == own) for each in values}
            self._choices[name] = literals
            self.solver.add_at_most_one([*literals.values()])
            if name == "override":
                some = self.solver.either(literals.values())
                for odd in (self.flag("is_worker"), self.text(_BLANK_START), self.text(_EMPTY)):
                    self.solver.add((-some, -odd))
        return self._choices[name]

    def tiers(self) -> dict[str, int]:
        """Return the literals of the tiers that a delegation may ask for."""
        return self.choose("delegate_tier", TIERS)

    def holds(self, asked: Condition) -> int:
        """Return the literal of a condition of routing rules."""
        if asked not in self._conditions:
            self._conditions[asked] = self.solver.both(self._parts(asked))
        return self._conditions[asked]

    def _parts(self, asked: Condition) -> Iterable[int]:
        yield from self._text_parts(asked)
        yield from self._number_parts(asked)
        for name in ("has_images", "has_tool_calls_in_history"):
            wanted = getattr(asked, name)
            if wanted is not None:
                yield self.flag(name) if wanted else -self.flag(name)
        for name in ("skills_matching_message", "file_extensions_in_context"):
            words = asked.skills_matching_message_includes
            words = words if name.startswith("skills") else asked.file_extensions_in_context
            if words is not None:
                yield self.solver.either(self.word(name, each) for each in words)
        if asked.any_of is not None:
            yield self.solver.either(map(self.holds, asked.any_of))
        yield from map(self.holds, asked.all_of or ())
        if asked.not_ is not None:
            yield -self.holds(asked.not_)

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
            name: -literal if _flag_of(base, name) else literal
            for name, literal in self._flags.items()
            if name != "has_workspace"
        }
        for number, limits in self._numbers.items():
            own = number_of(base, number)
            found[number] = either(-lit if own > k else lit for k, lit in limits.items())
        found["message"] = either(self._differing(self._texts, base.message))
        moved = [*self._differing(self._paths, base.workspace_path)]
        has = self.flag("has_workspace")
        moved.append(has if base.workspace_path is None else -has)
        found["workspace"] = either(moved)
        for (name, word), literal in self._words.items():
            found[f"{name} {word}"] = -literal if word in _words_of(base, name) else literal
        for model, literal in self._out.items():
            # The value a variable prefers is that of the known turn.
            found[f"out {model}"] = -literal if self._was_out(model) else literal
        for choice, values in self._choices.items():
            own_choice = choice_of(base, choice)
            found[choice] = either(
                -lit if each == own_choice else lit for each, lit in values.items()
            )
        return {name: literal for name, literal in found.items() if literal != -TRUE}

    def _was_out(self, model: str) -> bool:
        return self.solver.preference(self._out[model])

    def _differing(self, known: Mapping[str, int], text: object) -> Iterable[int]:
        found = self.search.hits(text, known) if isinstance(text, str) and known else frozenset()
        return (-literal if each in found else literal for each, literal in known.items())

    def _broken_texts(self, model: Model) -> Iterable[Literals]:
        """Return why no message, or no path, can be as the values have it."""
        yield from self._broken(self._texts, model, frozenset(), self.base.message)
        if "has_workspace" in self._flags and model[self._flags["has_workspace"]] > 0:
            odd = frozenset(_ODD_PATHS)
            yield from self._broken(self._paths, model, odd, self.base.workspace_path)

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

    def facts(self, model: Model) -> TurnFacts:
        """Return the facts of a turn that was found; what similar turns say is left out."""
        base = self.base
        changed: dict[str, object] = {}
        for flag, literal in self._flags.items():
            if flag not in {"stays_local", "has_workspace"}:
                changed[flag] = model[literal] > 0
        if "stays_local" in self._flags and (
            _flag_of(base, "stays_local") != (model[self._flags["stays_local"]] > 0)
        ):
            changed["privacy_level"] = "local" if model[self._flags["stays_local"]] > 0 else "auto"
            changed["placement"] = None
        tokens = self._number(model, "input_tokens")
        if tokens != number_of(base, "input_tokens"):
            changed["estimated_input_tokens"] = {ANY_MODEL: tokens}
        changed["local_minutes"] = self._number(model, "local_minutes")
        changed["cost_today_microusd"] = self._number(model, "cost_today_microusd")
        changed["message"] = self._text(model, self._texts, frozenset(), base.message)
        changed["workspace_path"] = self._workspace(model)
        for name in ("skills_matching_message", "file_extensions_in_context"):
            changed[name] = self._word_list(model, name)
        for choice, values in self._choices.items():
            if choice != "override":
                chosen = next((each for each, lit in values.items() if model[lit] > 0), None)
                is_unset = choice == "named_model" and chosen is None
                changed[choice] = UNSET if is_unset else chosen
        return replace(self._with_outages(model), **changed)

    def alias(self, model: Model) -> str | None:
        """Return the alias that the message begins with."""
        values = self._choices.get("override", {})
        return next((each for each, literal in values.items() if model[literal] > 0), None)

    def _number(self, model: Model, name: NumberName) -> int:
        limits = self._numbers[name]
        first, last = _BOUNDS[name]
        first = max((k + 1 for k, literal in limits.items() if model[literal] > 0), default=first)
        last = min((k for k, literal in limits.items() if model[literal] < 0), default=last)
        return max(first, min(last, number_of(self.base, name)))

    def _text(
        self, model: Model, known: Mapping[str, int], odd: frozenset[str], own: object
    ) -> object:
        wanted = frozenset(each for each, literal in known.items() if model[literal] > 0)
        if not known or (isinstance(own, str) and self.search.hits(own, known) == wanted):
            return own
        return self.search.witness(wanted, frozenset(known) - wanted | odd)

    def _workspace(self, model: Model) -> object:
        if "has_workspace" not in self._flags:
            return self.base.workspace_path
        if model[self._flags["has_workspace"]] < 0:
            return None
        return self._text(model, self._paths, frozenset(_ODD_PATHS), self.base.workspace_path)

    def _word_list(self, model: Model, name: str) -> tuple[str, ...]:
        known = {word: lit for (kind, word), lit in self._words.items() if kind == name}
        kept = [each for each in _words_of(self.base, name) if each not in known]
        return (*kept, *(each for each, literal in known.items() if model[literal] > 0))

    def _with_outages(self, model: Model) -> TurnFacts:
        moved = [each for each, lit in self._out.items() if (model[lit] > 0) != self._was_out(each)]
        out = {each for each in moved if model[self._out[each]] > 0}
        up = [each for each in moved if each not in out]
        base = self.base
        if up:
            still = (each for each in self._out if model[self._out[each]] > 0)
            freed: dict[str, object] = {
                "availability": {}, "configured": None, "allowed_models": None,
                "excluded_models": (), "network_state": "online",
            }  # fmt: skip
            base, out = replace(base, **freed), {*out, *still}
        if not out:
            return base
        there = {**base.availability, **dict.fromkeys(sorted(out), "unavailable")}
        return replace(base, availability=there)


def is_met(model: Model, literal: int) -> bool:
    """Tell whether a literal holds under the values of a model."""
    return (model[abs(literal)] > 0) == (literal > 0)


def with_budget(facts: TurnFacts, left: MicroUsd | None) -> TurnFacts:
    """Return facts with what a budget still allows; without a budget where that is None."""
    return facts if left is None else replace(facts, budgets=(BudgetLeft("left", left),))


def number_of(facts: TurnFacts, name: NumberName) -> int:
    """Return a number of a turn's facts."""
    if name == "input_tokens":
        return facts.tokens_for(ANY_MODEL)
    return facts.local_minutes if name == "local_minutes" else facts.cost_today_microusd


def choice_of(facts: TurnFacts, name: ChoiceName) -> str | None:
    """Return the value of a fact that is one of several names, or none."""
    if name == "override":
        return None if facts.override is None else facts.override.alias
    value = getattr(facts, name)
    return None if value is UNSET else value


def was_out(facts: TurnFacts, model: str, *, is_local: bool) -> bool:
    """Tell whether an outage, a missing key or a permission keeps a model from a turn."""
    known = (facts.availability.get(provider_of(model)), facts.availability.get(model))
    return (
        (facts.network_state == "offline" and not is_local)
        or any(each in {"unavailable", "rate_limited"} for each in known)
        or (facts.configured is not None and model not in facts.configured)
        or (facts.allowed_models is not None and model not in facts.allowed_models)
        or model in facts.excluded_models
    )


def _flag_of(facts: TurnFacts, name: FlagName) -> bool:
    if name == "has_workspace":
        return facts.workspace_path is not None
    if name == "stays_local":
        placed = facts.placement
        return facts.privacy_level == "local" or (placed is not None and placed.gate == "local")
    return bool(getattr(facts, name))


def _words_of(facts: TurnFacts, name: str) -> tuple[str, ...]:
    words: tuple[str, ...] = getattr(facts, name)
    return words
