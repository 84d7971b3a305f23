"""All text patterns of a policy as one matcher, by RE2: linear time, whatever the text is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import re2
from msgspec import Struct
from msgspec.structs import replace

from pointsman.kernel.regex import options

_TOKEN = re.compile(
    r"""
    (?P<escape>\\(?:[pPx]\{[^}]*\}|x[0-9A-Fa-f]{2}|[pP]?.))
  | (?P<set>\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\])
  | (?P<open>\((?:\?(?:P?<\w+>|[imsU-]*:?))?)
  | (?P<close>\))
  | (?P<either>\|)
  | (?P<again>[*+?]\??|\{\d+(?:,\d*)?\}\??)
  | (?P<plain>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_WORD_CLASS = re.compile(r"\\[wW]|\[:\^?(?:alpha|alnum|word|lower|upper):\]")
_ZERO_WIDTH = ("^", "$", "\\A", "\\z", "\\b", "\\B", "\\Q", "\\E")


class _Atom(Struct, frozen=True):
    """One part of a pattern. `letter` is one beyond ASCII that it names; a group has `branches`."""

    text: str
    letter: str = ""
    may_lack: bool = False
    branches: tuple[tuple[_Atom, ...], ...] = ()


def ascii_only(pattern: str) -> tuple[str, str]:
    r"""Return the `\b` or `\w` that misses a letter of its own pattern, and that letter.

    `\b` misses one that stands beside it, `\w` any that the same alternative names. Both are empty
    where none is missed.
    """
    for branch in _branches(_TOKEN.finditer(pattern)):
        sequences = list(_sequences((branch,)))
        for sequence in sequences:
            for at, atom in enumerate(sequence):
                letter = _first(sequence[at + 1 :]) or _first(sequence[:at], is_last=True)
                if atom.text in {"\\b", "\\B"} and letter:
                    return atom.text, letter
        atoms = [atom for sequence in sequences for atom in sequence]
        letters = [atom.letter for atom in atoms if atom.letter]
        classes = [found[0] for atom in atoms if (found := _WORD_CLASS.search(atom.text))]
        if letters and classes:
            return classes[0], letters[0]
    return "", ""


def _first(sequence: Sequence[_Atom], *, is_last: bool = False) -> str:
    """Return the letter beyond ASCII that may come first, or last, in a sequence."""
    for atom in reversed(sequence) if is_last else sequence:
        inside = (_first(each, is_last=is_last) for each in atom.branches)
        letter = atom.letter or next(filter(None, inside), "")
        if letter or not atom.may_lack:
            return letter
    return ""


def _sequences(branches: tuple[tuple[_Atom, ...], ...]) -> Iterator[tuple[_Atom, ...]]:
    for sequence in branches:
        yield sequence
        for atom in sequence:
            yield from _sequences(atom.branches)


def _branches(tokens: Iterator[re.Match[str]]) -> tuple[tuple[_Atom, ...], ...]:
    """Read what a group holds, up to its end."""
    found: list[list[_Atom]] = [[]]
    for token in tokens:
        kind, text = token.lastgroup, token[0]
        if kind == "close":
            break
        if kind == "either":
            found.append([])
        elif kind == "again":
            may_lack = text.startswith(("?", "*", "{0"))
            last = found[-1].pop() if found[-1] else _Atom("")
            found[-1].append(replace(last, may_lack=last.may_lack or may_lack))
        elif kind == "open":
            inner = _branches(tokens)
            may_lack = any(all(atom.may_lack for atom in each) for each in inner)
            found[-1].append(_Atom("", may_lack=may_lack, branches=inner))
        else:
            found[-1].append(_Atom(text, _letter(text), text in _ZERO_WIDTH))
    return tuple(map(tuple, found))


def _letter(text: str) -> str:
    """Return the letter beyond ASCII that a character, an escape or a set names."""
    if text.startswith(("[^", "\\P")):
        return ""
    if text.startswith("\\x"):
        text = chr(int(text[2:].strip("{}"), 16))
    named = re.search(r"\\p(?:\{[^}]*\}|.)", text)
    return named[0] if named else next((each for each in text if _is_beyond(each)), "")


def _is_beyond(letter: str) -> bool:
    return letter.isalpha() and not letter.isascii()


MAX_TEXT = 32_768
"""Characters of a message that patterns look at; what lies behind them is not seen."""

_WARM_UP = ("hello", "Please write a commit message for the change to src/main.py.", "x" * 200)


def literal_pattern(words: Sequence[str]) -> str:
    """Return a pattern that finds any of the words, whatever their case."""
    return "(?i:" + "|".join(str(re2.escape(word)) for word in words) + ")"


class TextPatterns:
    """The patterns of a policy, numbered; `ready` must be called once all have a number."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._filter: re2.Filter | None = None

    def number(self, pattern: str) -> int:
        """Return the number of a pattern, the same for the same pattern."""
        return self._numbers.setdefault(pattern, len(self._numbers))

    def ready(self) -> None:
        """Compile all patterns into one matcher and let it meet some text."""
        if not self._numbers:
            return
        matcher = re2.Filter()
        for pattern in self._numbers:
            matcher.Add(pattern, options())
        matcher.Compile()
        self._filter = matcher
        for text in _WARM_UP:
            self.hits(text)

    def hits(self, text: str) -> frozenset[int]:
        """Return the numbers of the patterns that match somewhere in the text."""
        if self._filter is None:
            return frozenset()
        return frozenset(self._filter.Match(seen_text(text)) or ())


def seen_text(text: str) -> str:
    """Return the part of a text that rules look at."""
    return text[:MAX_TEXT].encode("utf-8", "replace").decode()
