"""Runs of models added up by likeness, in whole numbers: parts of a ledger add up to the whole.

Runs are alike that used the same tools and kinds of input, had an input of the same size to a power
of two, and that the other policy decides by the same slot and rule.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from pointsman.audit.backtest.model_runs import ModelRun, Tokens
from pointsman.turns.facts import TurnFacts

KINDS = 5
"""Estimated input, and the four kinds of tokens that were used."""

_PAIRS = tuple((row, column) for row in range(KINDS) for column in range(row, KINDS))


class Likeness(Struct, frozen=True, order=True):
    """What makes turns alike; `way` is the slot and the rule under the other policy."""

    way: str
    traits: str
    size: int


def likeness_of(facts: TurnFacts, way: str) -> Likeness:
    """Return what makes other turns like this one."""
    traits = "".join(
        letter
        for letter, holds in (
            ("t", facts.has_tool_definitions or facts.has_tool_calls_in_history),
            ("s", facts.requires_structured_output),
            ("i", facts.has_images),
            ("w", facts.is_worker),
        )
        if holds
    )
    size = max(facts.estimated_input_tokens.values(), default=0).bit_length()
    return Likeness(way, traits, size)


class RunSums(Struct, frozen=True):
    """Runs of one model that are alike, added up; a run that failed adds to `failed` alone.

    `firsts` are the sums of the estimated input and of the four kinds of tokens, `seconds` those of
    their products, `times` and `scores` how many there are, their sum and the sum of squares.
    """

    runs: int = 0
    failed: int = 0
    firsts: tuple[int, ...] = (0,) * KINDS
    seconds: tuple[int, ...] = (0,) * len(_PAIRS)
    times: tuple[int, int] = (0, 0)
    scores: tuple[int, int, int] = (0, 0, 0)


class RunAdder:
    """Adds runs of one model up."""

    __slots__ = ("_failed", "_firsts", "_runs", "_scores", "_seconds", "_times")

    def __init__(self) -> None:
        self._runs = self._failed = 0
        self._firsts = [0] * KINDS
        self._seconds = [0] * len(_PAIRS)
        self._times = [0, 0]
        self._scores = [0, 0, 0]

    def add(self, estimated: int, run: ModelRun) -> None:
        """Add a run whose input was estimated before it was made."""
        if not run.is_answered:
            self._failed += 1
            return
        self._runs += 1
        values = (estimated, *run.tokens)
        for place, value in enumerate(values):
            self._firsts[place] += value
        for place, (row, column) in enumerate(_PAIRS):
            self._seconds[place] += values[row] * values[column]
        self._times[0] += run.elapsed_ms
        self._times[1] += run.elapsed_ms * run.elapsed_ms
        if run.score is not None:
            self._scores[0] += 1
            self._scores[1] += run.score
            self._scores[2] += run.score * run.score

    def sums(self) -> RunSums:
        """Return the sums so far."""
        return RunSums(
            self._runs,
            self._failed,
            tuple(self._firsts),
            tuple(self._seconds),
            (self._times[0], self._times[1]),
            (self._scores[0], self._scores[1], self._scores[2]),
        )


def add_run_sums(parts: Iterable[RunSums]) -> RunSums:
    """Add up sums."""
    found = [*parts]
    if len(found) == 1:
        return found[0]
    return RunSums(
        sum(each.runs for each in found),
        sum(each.failed for each in found),
        tuple(map(sum, zip(*(each.firsts for each in found), strict=True))),
        tuple(map(sum, zip(*(each.seconds for each in found), strict=True))),
        (sum(each.times[0] for each in found), sum(each.times[1] for each in found)),
        (
            sum(each.scores[0] for each in found),
            sum(each.scores[1] for each in found),
            sum(each.scores[2] for each in found),
        ),
    )


def second(sums: RunSums, row: int, column: int) -> int:
    """Return the sum of the products of two kinds."""
    return sums.seconds[_PAIRS.index((min(row, column), max(row, column)))]


class CalledTurnSums(Struct, frozen=True):
    """Turns that were called, as they went: their cost, tokens, time and scores.

    `unpriced` had a call whose price was not known; they are in no other sum.
    """

    turns: int = 0
    unpriced: int = 0
    microusd: int = 0
    tokens: Tokens = (0, 0, 0, 0)
    ms: int = 0
    failed: int = 0
    scored: int = 0
    score: int = 0

    def __add__(self, other: CalledTurnSums) -> CalledTurnSums:
        """Add other turns."""
        mine, theirs = self.tokens, other.tokens
        return CalledTurnSums(
            self.turns + other.turns,
            self.unpriced + other.unpriced,
            self.microusd + other.microusd,
            (
                mine[0] + theirs[0],
                mine[1] + theirs[1],
                mine[2] + theirs[2],
                mine[3] + theirs[3],
            ),
            self.ms + other.ms,
            self.failed + other.failed,
            self.scored + other.scored,
            self.score + other.score,
        )


NO_TURNS = CalledTurnSums()
