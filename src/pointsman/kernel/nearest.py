"""The known name that a misspelt one most likely means. Ties go to the first known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_LONGEST = 64
"""Longer names are no typing mistakes of one another, and would be slow to compare."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that differs from `name` by a typing mistake or two, or None."""
    if len(name) > _LONGEST:
        return None
    best, best_distance = None, 1 + (len(name) + 1) // 4
    for candidate in known:
        distance = _distance(_fold(name), _fold(candidate[: _LONGEST + 1]))
        if distance < best_distance:
            best, best_distance = candidate, distance
    return best


def _fold(name: str) -> str:
    return name.lower().replace("-", "_")


def _distance(left: str, right: str) -> int:
    """Return how many letters to add, remove, replace or swap with the next make them equal."""
    before: list[int] = []
    above = list(range(len(right) + 1))
    for row, letter in enumerate(left, 1):
        current = [row]
        for column, other in enumerate(right, 1):
            cost = min(above[column] + 1, current[-1] + 1, above[column - 1] + (letter != other))
            if _is_swap(left, right, row, column):
                cost = min(cost, before[column - 2] + 1)
            current.append(cost)
        before, above = above, current
    return above[-1]


def _is_swap(left: Sequence[str], right: Sequence[str], row: int, column: int) -> bool:
    return (
        row > 1
        and column > 1
        and left[row - 2] == right[column - 1]
        and left[row - 1] == right[column - 2]
    )
