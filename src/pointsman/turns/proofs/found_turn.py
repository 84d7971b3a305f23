"""The turn that values describe: its facts, as near to the known turn's as the values allow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import UNSET
from msgspec.structs import replace

from pointsman.errors import PolicyTooComplex
from pointsman.kernel.number import MicroUsd
from pointsman.kernel.wb1 import Salted
from pointsman.placement.rules.zones import BUILT_IN_ZONES
from pointsman.turns.facts import (
    ANY_MODEL,
    BudgetLeft,
    CallerFacts,
    Override,
    SplitUnits,
    TurnFacts,
    placed_within,
)
from pointsman.turns.proofs.solver import Model
from pointsman.turns.proofs.turn_variables import (
    BOUNDS,
    ODD_PATHS,
    NumberName,
    TurnVariables,
    caller_of,
    flag_of,
    number_of,
    words_of,
)
from pointsman.turns.rules.split import DRAWS, draw_number, salt_of

MOST_NAMES: Final = 100_000
"""Names that are tried for a unit: ten splits by it, each with a share of a third, need as many."""


class FoundTurn:
    """One turn that was found: variables and their values."""

    def __init__(self, turn: TurnVariables, model: Model) -> None:
        self._turn = turn
        self._model = model

    def facts(self) -> TurnFacts:
        """Return the facts of a turn that was found; what similar turns say is left out."""
        base = self._turn.base
        changed: dict[str, object] = {}
        for flag, literal in self._turn.flags.items():
            if flag not in {"stays_local", "has_workspace"}:
                changed[flag] = self._model[literal] > 0
        if "stays_local" in self._turn.flags and (
            flag_of(base, "stays_local") != (self._model[self._turn.flags["stays_local"]] > 0)
        ):
            changed["privacy_level"] = (
                "local" if self._model[self._turn.flags["stays_local"]] > 0 else "auto"
            )
            changed["placement"] = None
        tokens = self._number("input_tokens")
        if tokens != number_of(base, "input_tokens"):
            changed["estimated_input_tokens"] = {ANY_MODEL: tokens}
        changed["local_minutes"] = self._number("local_minutes")
        changed["cost_today_microusd"] = self._number("cost_today_microusd")
        changed["message"] = self._text(self._turn.texts, frozenset(), base.message)
        changed["workspace_path"] = self._workspace()
        changed |= self._lists()
        if self._turn.callers:
            changed["caller"] = self._caller_facts()
        left = self._number("team_left_microusd")
        if left != number_of(base, "team_left_microusd"):
            others = (each for each in base.budgets if each.name not in self._turn.team_budgets)
            own = (BudgetLeft(name, MicroUsd(left)) for name in self._turn.team_budgets)
            changed["budgets"] = (*others, *own)
        for choice, values in self._turn.choices.items():
            if choice != "override":
                chosen = next((each for each, lit in values.items() if self._model[lit] > 0), None)
                is_unset = choice == "named_model" and chosen is None
                changed[choice] = UNSET if is_unset else chosen
        return replace(self._with_outages(), **changed, **self._drawn_units())

    def alias(self) -> str | None:
        """Return the alias that the message begins with."""
        values = self._turn.choices.get("override", {})
        return next((each for each, literal in values.items() if self._model[literal] > 0), None)

    def override(self, aliases: Mapping[str, str]) -> Override | None:
        """Return the override of the message under a policy with these aliases."""
        alias = self.alias()
        return None if alias is None else Override(alias, aliases[alias])

    def _number(self, name: NumberName) -> int:
        limits = self._turn.numbers[name]
        first, last = BOUNDS[name]
        first = max(
            (k + 1 for k, literal in limits.items() if self._model[literal] > 0), default=first
        )
        last = min((k for k, literal in limits.items() if self._model[literal] < 0), default=last)
        return max(first, min(last, number_of(self._turn.base, name)))

    def _text(self, known: Mapping[str, int], odd: frozenset[str], own: object) -> object:
        wanted = frozenset(each for each, literal in known.items() if self._model[literal] > 0)
        if not known or (isinstance(own, str) and self._turn.search.hits(own, known) == wanted):
            return own
        return self._turn.search.witness(wanted, frozenset(known) - wanted | odd)

    def _workspace(self) -> object:
        if "has_workspace" not in self._turn.flags:
            return self._turn.base.workspace_path
        if self._model[self._turn.flags["has_workspace"]] < 0:
            return None
        return self._text(self._turn.paths, frozenset(ODD_PATHS), self._turn.base.workspace_path)

    def _caller_facts(self) -> CallerFacts:
        chosen = {
            name: next((each for each, lit in values.items() if self._model[lit] > 0), "")
            for name, values in self._turn.callers.items()
            if caller_of(self._turn.base, name) not in values
            or self._model[values[caller_of(self._turn.base, name)]] < 0
        }
        known = self._turn.base.caller
        return replace(CallerFacts() if known is UNSET else known, **chosen)

    def _drawn_units(self) -> dict[str, SplitUnits]:
        """Return names by which the turn draws the models that were found."""
        if not self._turn.draws:
            return {}
        base = self._turn.base.split_units
        known = SplitUnits() if base is UNSET else base
        found: dict[str, str] = {}
        for by in dict.fromkeys(by for _, by in self._turn.draws):
            shares = [
                (salt_of(rule), *self._share(limits))
                for (rule, each), limits in self._turn.draws.items()
                if each == by
            ]
            names = (getattr(known, by), "", *(f"{by}-{n}" for n in range(MOST_NAMES)))
            fitting = (name for name in names if _draws(name, shares))
            name = next(fitting, None)
            if name is None:
                raise PolicyTooComplex(f"no {by} was found that draws these models in all splits")
            found[by] = name
        return {"split_units": replace(known, **found)}

    def _share(self, limits: Mapping[int, int]) -> tuple[int, int]:
        """Return the first and the last number that the literals of a draw leave."""
        above = (limit + 1 for limit, literal in limits.items() if self._model[literal] > 0)
        below = (limit for limit, literal in limits.items() if self._model[literal] < 0)
        return max(above, default=0), min(below, default=DRAWS - 1)

    def _lists(self) -> dict[str, object]:
        """Return the facts that are lists of words; that of zones stands in a placement."""
        base = self._turn.base
        names = dict.fromkeys(name for name, _ in self._turn.words)
        lists = {name: self._word_list(name) for name in names}
        zones = lists.pop("zones", base.zones)
        labels = lists.pop("labels", base.labels)
        found: dict[str, object] = {**lists}
        zones, own = (
            tuple(each for each in given if each not in BUILT_IN_ZONES)
            for given in (zones, base.zones)
        )
        if (zones, labels) != (own, base.labels):
            literal = self._turn.flags.get("stays_local")
            stays = flag_of(base, "stays_local") if literal is None else self._model[literal] > 0
            found["placement"] = placed_within(zones, labels, is_local=stays)
        return found

    def _word_list(self, name: str) -> tuple[str, ...]:
        known = {word: lit for (kind, word), lit in self._turn.words.items() if kind == name}
        kept = [each for each in words_of(self._turn.base, name) if each not in known]
        return (*kept, *(each for each, literal in known.items() if self._model[literal] > 0))

    def _with_outages(self) -> TurnFacts:
        moved = [
            each
            for each, lit in self._turn.outages.items()
            if (self._model[lit] > 0) != self._turn.prefers_out(each)
        ]
        out = {each for each in moved if self._model[self._turn.outages[each]] > 0}
        up = [each for each in moved if each not in out]
        base = self._turn.base
        if up:
            still = (
                each for each in self._turn.outages if self._model[self._turn.outages[each]] > 0
            )
            freed: dict[str, object] = {
                "availability": {}, "configured": None, "allowed_models": None,
                "excluded_models": (), "stops": UNSET, "network_state": "online",
            }  # fmt: skip
            base, out = replace(base, **freed), {*out, *still}
        if not out:
            return base
        there = {**base.availability, **dict.fromkeys(sorted(out), "unavailable")}
        return replace(base, availability=there)


def _draws(name: str, shares: Sequence[tuple[Salted, int, int]]) -> bool:
    return all(first <= draw_number(salted, name) <= last for salted, first, last in shares)


def with_budget(facts: TurnFacts, left: MicroUsd | None) -> TurnFacts:
    """Return facts with what a budget still allows; without a budget where that is None."""
    if left is None:
        return facts
    return replace(facts, budgets=(BudgetLeft("left", left), *facts.budgets))
