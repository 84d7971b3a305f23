"""Patterns as regular languages: a pattern of RE2 read into the steps of a machine.

What one sign of a pattern matches is asked of RE2 itself, over every character there is, so case
folding and the classes of Unicode are its own.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Final, Literal

import re2
from msgspec import Struct

from pointsman.errors import PolicyTooComplex
from pointsman.kernel.regex import options

Span = tuple[int, int]
"""The first and the last of neighbouring characters, as numbers."""

Assertion = Literal["start", "end", "line_start", "line_end", "edge", "no_edge"]


class Chars(Struct, frozen=True):
    """One character out of some, then the next step."""

    spans: tuple[Span, ...]
    to: int


class Fork(Struct, frozen=True):
    """Either of several steps, nothing read."""

    to: tuple[int, ...]


class Assert(Struct, frozen=True):
    """A step that is there only beside certain characters."""

    kind: Assertion
    to: int


class Language(Struct, frozen=True):
    """All texts in which a pattern is found: steps by number, the first, and the end (step 0)."""

    steps: tuple[Chars | Fork | Assert | None, ...]
    first: int
    distances: tuple[int, ...]
    """How many characters are at least to come before the end, for each step; -1 where none is."""


ANYTHING: Final = ((0, 0x10FFFF),)
END: Final = 0

_TOKEN = re.compile(
    r"""
    (?P<quoted>\\Q(?:.*?)(?:\\E|\Z))
  | (?P<assertion>\\[AzbB])
  | (?P<sign>\\(?:[pP]\{[^}]*\}|[pP].|x\{[0-9A-Fa-f]+\}|x[0-9A-Fa-f]{2}
              |0[0-7]{0,2}|[1-7][0-7]{1,2}|.))
  | (?P<set>\[\^?\]?(?:\[:\^?\w+:\]|\\(?:[pP]\{[^}]*\}|x\{[0-9A-Fa-f]+\}|.)|[^\]\\])*\])
  | (?P<group>\((?:\?P?<\w+>)?(?!\?))
  | (?P<flags>\(\?[imsU-]*[:)])
  | (?P<close>\))
  | (?P<either>\|)
  | (?P<again>(?:[*+?]|\{\d+(?:,\d*)?\})\??)
  | (?P<line>[\^$])
  | (?P<plain>.)
    """,
    re.VERBOSE | re.DOTALL,
)


class _Part(Struct, frozen=True):
    """One part of a pattern as it is read."""

    kind: Literal["chars", "assert", "sequence", "either", "again"]
    spans: tuple[Span, ...] = ()
    assertion: Assertion = "start"
    parts: tuple[_Part, ...] = ()
    least: int = 0
    most: int | None = None


@lru_cache(4096)
def language(pattern: str) -> Language:
    """Return the language of the texts in which a valid pattern is found."""
    try:
        part = _Reader(pattern).read()
        return _Builder().build(part)
    except RecursionError:
        raise PolicyTooComplex("a pattern is nested too deeply", hint=pattern) from None


class _Reader:
    """Reads a pattern that RE2 accepts."""

    def __init__(self, pattern: str) -> None:
        self._tokens = list(_TOKEN.finditer(pattern))
        self._place = 0

    def read(self) -> _Part:
        return self._alternatives("")

    def _alternatives(self, flags: str) -> _Part:
        """Read up to the end of the group; `flags` are those that are set."""
        branches: list[_Part] = []
        sequence: list[_Part] = []
        while self._place < len(self._tokens):
            token = self._tokens[self._place]
            self._place += 1
            kind, text = token.lastgroup, token[0]
            if kind == "close":
                break
            if kind == "either":
                branches.append(_Part("sequence", parts=tuple(sequence)))
                sequence = []
            elif kind == "flags" and text.endswith(")"):
                flags = _with_flags(flags, text)
            elif kind == "again":
                # A quoted text repeats its last character alone.
                sequence.append(_again(sequence.pop(), text))
            else:
                sequence += self._parts(kind or "", text, flags)
        branches.append(_Part("sequence", parts=tuple(sequence)))
        return branches[0] if len(branches) == 1 else _Part("either", parts=tuple(branches))

    def _parts(self, kind: str, text: str, flags: str) -> Sequence[_Part]:
        if kind in {"group", "flags"}:
            inside = _with_flags(flags, text) if kind == "flags" else flags
            return [self._alternatives(inside)]
        if kind == "quoted":
            body = text[2:].removesuffix("\\E")
            return [_chars(str(re2.escape(each)), flags) for each in body]
        if kind in {"assertion", "line"}:
            is_line = "m" in flags
            named: dict[str, Assertion] = {
                "\\A": "start", "\\z": "end", "\\b": "edge", "\\B": "no_edge",
                "^": "line_start" if is_line else "start", "$": "line_end" if is_line else "end",
            }  # fmt: skip
            return [_Part("assert", assertion=named[text])]
        if text == "\\C":
            raise PolicyTooComplex("`\\C` matches single bytes, which are no characters")
        return [_chars(text, flags)]


def _with_flags(flags: str, text: str) -> str:
    """Return the flags that hold behind `(?i-s)` and the like."""
    on, _, off = text[2:-1].partition("-")
    return "".join(sorted({*flags, *on} - {*off}))


def _again(part: _Part, text: str) -> _Part:
    simple: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
    if text[0] in simple:
        least, most = simple[text[0]]
    else:
        first, comma, last = text.rstrip("?").strip("{}").partition(",")
        least, most = int(first), (int(last) if last else None) if comma else int(first)
    return _Part("again", parts=(part,), least=least, most=most)


def _chars(sign: str, flags: str) -> _Part:
    if len(sign) == 1 and sign != "." and ("i" not in flags or _has_one_case(sign)):
        return _Part("chars", spans=((ord(sign), ord(sign)),))
    kept = "".join(each for each in "is" if each in flags)
    return _Part("chars", spans=spans_of(sign, kept))


def _has_one_case(sign: str) -> bool:
    return sign.isascii() and not sign.isalpha()


@cache
def spans_of(sign: str, flags: str = "") -> tuple[Span, ...]:
    """Return the characters that one sign of a pattern matches, as RE2 has it."""
    pattern = re2.compile(f"(?{flags}:{sign})+".encode(), options())
    runs = (match.group().decode() for match in pattern.finditer(_every_character()))
    return tuple((ord(run[0]), ord(run[-1])) for run in runs)


@cache
def _every_character() -> bytes:
    gap = range(0xD800, 0xE000)
    return "".join(chr(each) for each in range(0x110000) if each not in gap).encode()


class _Builder:
    """Puts the steps of a language together, from its end to its beginning."""

    MOST_PARTS: Final = 50_000
    """A pattern of more steps than RE2 itself would take is not built."""

    def __init__(self) -> None:
        self._steps: list[Chars | Fork | Assert | None] = [None]

    def build(self, part: _Part) -> Language:
        body = self._step(part, END)
        # A pattern is found anywhere: some characters may come before it.
        loop = self._add(Fork(()))
        skip = self._add(Chars(ANYTHING, loop))
        self._steps[loop] = Fork((body, skip))
        return Language(tuple(self._steps), loop, _distances(self._steps))

    def _add(self, step: Chars | Fork | Assert) -> int:
        if len(self._steps) >= self.MOST_PARTS:
            raise PolicyTooComplex("a pattern repeats too much")
        self._steps.append(step)
        return len(self._steps) - 1

    def _step(self, part: _Part, to: int) -> int:
        if part.kind == "chars":
            return self._add(Chars(part.spans, to))
        if part.kind == "assert":
            return self._add(Assert(part.assertion, to))
        if part.kind == "either":
            return self._add(Fork(tuple(self._step(each, to) for each in part.parts)))
        if part.kind == "sequence":
            for each in reversed(part.parts):
                to = self._step(each, to)
            return to
        return self._repeat_step(part, to)

    def _repeat_step(self, part: _Part, to: int) -> int:
        (inner,) = part.parts
        if part.most is None:
            loop = self._add(Fork(()))
            self._steps[loop] = Fork((self._step(inner, loop), to))
            to = loop
        else:
            end = to
            for _ in range(part.most - part.least):
                to = self._add(Fork((self._step(inner, to), end)))
        for _ in range(part.least):
            to = self._step(inner, to)
        return to


def _distances(steps: Sequence[Chars | Fork | Assert | None]) -> tuple[int, ...]:
    """Count the characters that are at least to come before the end, from each step."""
    before: list[list[int]] = [[] for _ in steps]
    for number, step in enumerate(steps):
        for to in () if step is None else step.to if isinstance(step, Fork) else (step.to,):
            before[to].append(number)
    found = [-1] * len(steps)
    found[END] = 0
    ring = deque([END])
    while ring:
        to = ring.popleft()
        for number in before[to]:
            cost = found[to] + isinstance(steps[number], Chars)
            if found[number] < 0 or cost < found[number]:
                found[number] = cost
                # A step that reads nothing is as near as the one behind it.
                (ring.append if cost > found[to] else ring.appendleft)(number)
    return tuple(found)
