"""A small satisfiability solver: clauses, learning, and theories that are asked last.

A literal is a variable's number, negated by its sign. Work is counted in steps, never in time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from pointsman.errors import PolicyTooComplex

MOST_STEPS: Final = 20_000_000
"""Clauses looked at by one solver, after which a question counts as too large to answer."""

TRUE: Final = 1

Literals = tuple[int, ...]
Model = Sequence[int]
"""The value of each variable by its number: 1, -1, or 0 while it has none."""

Theory = Callable[[Model], Iterable[Literals]]
"""Returns clauses that a complete assignment breaks; none where it can be met."""


class Solver:
    """Clauses over numbered variables, and whether something meets them all."""

    def __init__(self, theory: Theory, most_steps: int = MOST_STEPS) -> None:
        self.steps = 0
        self._theory = theory
        self._most_steps = most_steps
        self._value = [0, 1]
        self._level = [0, 0]
        self._reason: list[Literals | None] = [None, None]
        self._watches: dict[int, list[list[int]]] = {1: [], -1: []}
        self._trail: list[int] = []
        self._limits: list[int] = []
        self._head = 0
        self._choices: list[int] = []
        self._preferred: set[int] = set()
        self._decided = 0
        self._gates: dict[Literals, int] = {}
        self._is_void = False

    def choice(self, *, prefers: bool = False) -> int:
        """Return a new variable that the search decides; the value it prefers is tried first."""
        number = self._variable()
        self._choices.append(number if prefers else -number)
        if prefers:
            self._preferred.add(number)
        return number

    def preference(self, number: int) -> bool:
        """Return the value that a decided variable prefers."""
        return number in self._preferred

    def both(self, literals: Iterable[int]) -> int:
        """Return a literal that holds where all of these do."""
        kept = {each for each in literals if each != TRUE}
        if -TRUE in kept or any(-each in kept for each in kept):
            return -TRUE
        key = tuple(sorted(kept))
        if len(key) < 2:
            return key[0] if key else TRUE
        if key not in self._gates:
            gate = self._gates[key] = self._variable()
            for each in key:
                self.add((-gate, each))
            self.add((gate, *(-each for each in key)))
        return self._gates[key]

    def either(self, literals: Iterable[int]) -> int:
        """Return a literal that holds where one of these does."""
        return -self.both(-each for each in literals)

    def add(self, clause: Iterable[int]) -> None:
        """Add a clause: one of its literals must hold."""
        self._back_to(0)
        kept = [each for each in dict.fromkeys(clause) if self._of(each) >= 0]
        if any(self._of(each) > 0 or -each in kept for each in kept):
            return
        if len(kept) < 2:
            self._is_void = self._is_void or not kept or not self._take(kept[0], None)
            return
        self._watch(kept)

    def add_at_most_one(self, literals: Sequence[int]) -> None:
        """Let at most one of these hold."""
        before = -TRUE
        for each in literals:
            self.add((-each, -before))
            before = self.either((before, each))

    def solve(self, assumed: Iterable[int] = ()) -> Model | None:
        """Return values that meet all clauses and the assumptions; None where none do."""
        assumptions = tuple(dict.fromkeys(assumed))
        self._back_to(0)
        while not self._is_void:
            broken = self._propagate()
            if broken is not None:
                self._learn(broken)
                continue
            chosen = self._next_choice(assumptions)
            if chosen is None:
                return None
            if chosen:
                self._limits.append(len(self._trail))
                self._take(chosen, None)
                continue
            model = tuple(self._value)
            lemmas = [*self._theory(model)]
            if not lemmas:
                return model
            for lemma in lemmas:
                self.add(lemma)
        return None

    def spend(self, steps: int) -> None:
        """Count work; too much of it ends the question."""
        self.steps += steps
        if self.steps > self._most_steps:
            raise PolicyTooComplex

    def _variable(self) -> int:
        number = len(self._value)
        self._value.append(0)
        self._level.append(0)
        self._reason.append(None)
        self._watches[number], self._watches[-number] = [], []
        return number

    def _of(self, literal: int) -> int:
        return self._value[literal] if literal > 0 else -self._value[-literal]

    def _watch(self, clause: list[int]) -> None:
        self._watches[clause[0]].append(clause)
        self._watches[clause[1]].append(clause)

    def _take(self, literal: int, reason: Literals | None) -> bool:
        known = self._of(literal)
        if known:
            return known > 0
        number = abs(literal)
        self._value[number] = 1 if literal > 0 else -1
        self._level[number] = len(self._limits)
        self._reason[number] = reason
        self._trail.append(literal)
        return True

    def _propagate(self) -> Sequence[int] | None:
        """Draw all conclusions; return a clause that is broken, if one is."""
        while self._head < len(self._trail):
            denied = -self._trail[self._head]
            self._head += 1
            watching = self._watches[denied]
            self.spend(len(watching) + 1)
            kept: list[list[int]] = []
            for place, clause in enumerate(watching):
                if clause[0] == denied:
                    clause[0], clause[1] = clause[1], denied
                if self._of(clause[0]) > 0 or not self._move_watch(clause):
                    kept.append(clause)
                    if self._of(clause[0]) < 0:
                        self._watches[denied] = kept + watching[place + 1 :]
                        return clause
                    self._take(clause[0], tuple(clause))
            self._watches[denied] = kept
        return None

    def _move_watch(self, clause: list[int]) -> bool:
        for place in range(2, len(clause)):
            if self._of(clause[place]) >= 0:
                clause[1], clause[place] = clause[place], clause[1]
                self._watches[clause[1]].append(clause)
                return True
        return False

    def _next_choice(self, assumptions: Literals) -> int | None:
        """Return what to decide next: 0 where all is decided, None where an assumption fails."""
        while len(self._limits) < len(assumptions):
            literal = assumptions[len(self._limits)]
            if self._of(literal) < 0:
                return None
            if not self._of(literal):
                return literal
            self._limits.append(len(self._trail))
        # All choices before this one stay decided until the search goes back.
        while self._decided < len(self._choices) and self._of(self._choices[self._decided]):
            self._decided += 1
        return self._choices[self._decided] if self._decided < len(self._choices) else 0

    def _learn(self, broken: Sequence[int]) -> None:
        """Learn the first clause that would have drawn the conclusion earlier, and go back."""
        if not self._limits:
            self._is_void = True
            return
        seen: set[int] = set()
        learned: list[int] = []
        pending, place, reason = 0, len(self._trail), broken
        while True:
            self.spend(len(reason))
            for literal in reason:
                number = abs(literal)
                if number in seen or not self._level[number] or self._of(literal) > 0:
                    continue
                seen.add(number)
                if self._level[number] == len(self._limits):
                    pending += 1
                else:
                    learned.append(literal)
            while abs(self._trail[place - 1]) not in seen:
                place -= 1
            place -= 1
            literal = self._trail[place]
            pending -= 1
            if not pending:
                break
            reason = self._reason[abs(literal)] or ()
        learned.sort(key=lambda each: -self._level[abs(each)])
        clause = [-literal, *learned]
        self._back_to(self._level[abs(learned[0])] if learned else 0)
        if learned:
            self._watch(clause)
        self._take(-literal, tuple(clause) if learned else None)

    def _back_to(self, level: int) -> None:
        if len(self._limits) <= level:
            return
        start = self._limits[level]
        for literal in self._trail[start:]:
            self._value[abs(literal)] = 0
        del self._trail[start:], self._limits[level:]
        self._head, self._decided = min(self._head, start), 0
