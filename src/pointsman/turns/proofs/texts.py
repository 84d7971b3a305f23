"""Texts in which some patterns are found and others are not: a shortest one, or that none exists.

All machines walk over the same text. Of a wanted pattern one way through its steps is followed at
a time; of an unwanted one all ways at once, since none may come to its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import count, product
from typing import Final

from msgspec import Struct

from pointsman.turns.proofs.languages import END, Assert, Chars, Fork, Language, Span, language
from pointsman.turns.rules.text_patterns import MAX_TEXT, TextPatterns

Spend = Callable[[int], None]
"""Counts steps, and raises when there were too many."""

_EDGE, _LINE, _WORD, _OTHER = range(4)
"""What stands beside a place in a text: nothing, the end of a line, a letter of a word, else."""

_LINE_END: Final = ((10, 10),)
_WORD_LETTERS: Final = ((48, 57), (65, 90), (95, 95), (97, 122))
_NICEST: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 _-.,/:@"


class _Symbol(Struct, frozen=True):
    """Characters that no pattern tells apart: one of them, and its kind."""

    character: int
    kind: int


class TextSearch:
    """Finds texts by the patterns found in them, and keeps the answers."""

    def __init__(self, spend: Spend) -> None:
        self._spend = spend
        self._known: dict[tuple[frozenset[str], frozenset[str]], str | None] = {}
        self._numbers: dict[str, int] = {}
        self._patterns: TextPatterns | None = None

    def hits(self, text: str, asked: Iterable[str]) -> frozenset[str]:
        """Return those of the patterns that are found in a text."""
        asked = frozenset(asked)
        if self._patterns is None or not asked <= self._numbers.keys():
            self._patterns = TextPatterns()
            listed = sorted(asked | self._numbers.keys())
            self._numbers = {each: self._patterns.number(each) for each in listed}
            self._patterns.ready()
        found = self._patterns.hits(text)
        return frozenset(each for each in asked if self._numbers[each] in found)

    def witness(self, wanted: frozenset[str], unwanted: frozenset[str]) -> str | frozenset[str]:
        """Return a text with the wanted patterns and without the unwanted ones.

        Where there is none, return the unwanted patterns of which that follows already.
        """
        avoided: frozenset[str] = frozenset()
        while True:
            text = self.shortest(wanted, avoided)
            if text is None:
                return avoided
            broken = self.hits(text, unwanted)
            if not broken:
                return text
            avoided |= broken

    def core(
        self, wanted: frozenset[str], avoided: frozenset[str]
    ) -> tuple[frozenset[str], frozenset[str]]:
        """Return as few of these patterns as are needed for no text to exist."""
        for each in sorted(avoided):
            if self.shortest(wanted, avoided - {each}) is None:
                avoided -= {each}
        for each in sorted(wanted):
            if self.shortest(wanted - {each}, avoided) is None:
                wanted -= {each}
        return wanted, avoided

    def shortest(self, wanted: frozenset[str], unwanted: frozenset[str]) -> str | None:
        """Return a text with and without these, a shortest one of one wanted pattern; else None."""
        key = (wanted, unwanted)
        if key not in self._known:
            ours, theirs = map(_languages, (wanted, unwanted))
            self._known[key] = _Walk(ours, theirs, self._spend).shortest()
        return self._known[key]


def _languages(patterns: Iterable[str]) -> list[Language]:
    return [language(each) for each in sorted(patterns)]


_State = tuple[int, tuple[int, ...], tuple[frozenset[int], ...]]
"""The kind of the last character, a step of each wanted machine, the steps of each unwanted one."""

_DONE: Final = END


class _Walk:
    """One search through the texts."""

    def __init__(
        self, wanted: Sequence[Language], unwanted: Sequence[Language], spend: Spend
    ) -> None:
        self._wanted = wanted
        self._unwanted = unwanted
        self._spend = spend
        self._symbols = [*_symbols((*wanted, *unwanted))]
        self._near: dict[tuple[int, int, int, int], tuple[tuple[Chars, ...], bool]] = {}
        self._reads: dict[tuple[Span, ...], frozenset[int]] = {}

    def shortest(self) -> str | None:
        order = count()
        first: _State = (
            _EDGE,
            tuple(each.first for each in self._wanted),
            tuple(frozenset((each.first,)) for each in self._unwanted),
        )
        came: dict[_State, tuple[_State, int] | None] = {first: None}
        queue = [(self._rest(first), next(order), 0, first)]
        while queue:
            _, _, length, state = heappop(queue)
            if self._ends(state):
                return _text(came, state)
            if length >= MAX_TEXT:
                continue
            for symbol in self._symbols:
                for after in self._after(state, symbol):
                    if after not in came:
                        came[after] = (state, symbol.character)
                        rest = length + 1 + self._rest(after)
                        heappush(queue, (rest, next(order), length + 1, after))
        return None

    def _rest(self, state: _State) -> int:
        """Return how many characters the wanted patterns still need, read one after another."""
        return sum(each.distances[at] for each, at in zip(self._wanted, state[1], strict=True))

    def _after(self, state: _State, symbol: _Symbol) -> Iterator[_State]:
        last, ours, theirs = state
        self._spend(1 + len(ours) + len(theirs))
        avoided: list[frozenset[int]] = []
        for number, steps in enumerate(theirs, len(self._wanted)):
            found: set[int] = set()
            for step in steps:
                chars, is_end = self._closure(number, step, last, symbol.kind)
                if is_end:
                    return
                found.update(each.to for each in chars if self._can_read(each, symbol))
            avoided.append(frozenset(found))
        ways: list[list[int]] = []
        for number, step in enumerate(ours):
            ways.append(self._ways(number, step, last, symbol))
            if not ways[-1]:
                return
        for ahead in product(*ways):
            yield symbol.kind, ahead, tuple(avoided)

    def _ways(self, number: int, step: int, last: int, symbol: _Symbol) -> list[int]:
        """Return where one wanted machine may go; one that is at its end stays there."""
        if step == _DONE:
            return [_DONE]
        chars, is_end = self._closure(number, step, last, symbol.kind)
        if is_end:
            return [_DONE]
        distances = self._wanted[number].distances
        there = dict.fromkeys(each.to for each in chars if self._can_read(each, symbol))
        return [each for each in there if distances[each] >= 0]

    def _ends(self, state: _State) -> bool:
        last, ours, theirs = state
        if not all(
            step == _DONE or self._closure(number, step, last, _EDGE)[1]
            for number, step in enumerate(ours)
        ):
            return False
        return not any(
            self._closure(number, step, last, _EDGE)[1]
            for number, steps in enumerate(theirs, len(self._wanted))
            for step in sorted(steps)
        )

    def _closure(
        self, number: int, step: int, last: int, ahead: int
    ) -> tuple[tuple[Chars, ...], bool]:
        """Return the characters that may be read at a step, and whether the end is there."""
        key = (number, step, last, ahead)
        if key not in self._near:
            many = len(self._wanted)
            own = self._wanted[number] if number < many else self._unwanted[number - many]
            self._near[key] = _closure(own, step, last, ahead)
        return self._near[key]

    def _can_read(self, step: Chars, symbol: _Symbol) -> bool:
        spans = step.spans
        if spans not in self._reads:
            self._reads[spans] = frozenset(
                each.character for each in self._symbols if _holds(spans, each.character)
            )
        return symbol.character in self._reads[spans]


def _closure(own: Language, step: int, last: int, ahead: int) -> tuple[tuple[Chars, ...], bool]:
    found: list[Chars] = []
    seen: set[int] = set()
    waiting = [step]
    while waiting:
        at = waiting.pop()
        if at in seen:
            continue
        seen.add(at)
        here = own.steps[at]
        if isinstance(here, Chars):
            found.append(here)
        elif isinstance(here, Fork):
            waiting += reversed(here.to)
        elif isinstance(here, Assert) and _is_met(here.kind, last, ahead):
            waiting.append(here.to)
    return tuple(found), END in seen


def _is_met(kind: str, last: int, ahead: int) -> bool:
    is_edge = (last == _WORD) != (ahead == _WORD)
    met = {
        "start": last == _EDGE,
        "end": ahead == _EDGE,
        "line_start": last in {_EDGE, _LINE},
        "line_end": ahead in {_EDGE, _LINE},
        "edge": is_edge,
        "no_edge": not is_edge,
    }
    return met[kind]


def _symbols(machines: Sequence[Language]) -> Iterator[_Symbol]:
    """Yield one character of each class that no machine tells apart, the most readable first."""
    spans = {step.spans for own in machines for step in own.steps if isinstance(step, Chars)}
    told = [_LINE_END, _WORD_LETTERS, *sorted(spans)]
    starts = sorted({each for some in told for first, last in some for each in (first, last + 1)})
    candidates = [ord(each) for each in _NICEST]
    candidates += [each for each in (0, *starts) if each <= 0x10FFFF]
    classes: dict[tuple[bool, ...], int] = {}
    for character in candidates:
        # Half a surrogate pair is no character; the next one beyond them stands in the same class.
        place = 0xE000 if 0xD800 <= character < 0xE000 else character
        classes.setdefault(tuple(_holds(some, place) for some in told), place)
    for signature, character in classes.items():
        kind = _LINE if signature[0] else _WORD if signature[1] else _OTHER
        yield _Symbol(character, kind)


def _holds(spans: tuple[Span, ...], character: int) -> bool:
    return any(first <= character <= last for first, last in spans)


def _text(came: dict[_State, tuple[_State, int] | None], state: _State) -> str:
    read: list[str] = []
    step = came[state]
    while step is not None:
        read.append(chr(step[1]))
        step = came[step[0]]
    return "".join(reversed(read))
