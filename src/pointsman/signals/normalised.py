"""A text as a reader sees it: no invisible characters, wide and look-alike letters as plain ones.

DETERMINISM: the tables stand here; those of Python's `unicodedata` change with its version.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

# Characters without a shape: soft hyphens, joiners, marks of direction, variation selectors, tags.
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\ufe00-\ufe0f\ufeff]"
)
# Sets of characters above U+FFFF are searched slowly: only texts that hold one pay for it.
_INVISIBLE_TAGS = re.compile("[\U000e0000-\U000e007f]")

_BLANKS = "\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
_DASHES = "\u2010\u2012\ufe58\ufe63"
_COMMON = ((" ", "\u00a0\u202f\u3000"), ("-", "\u2011\u2013\u2212"))
_FIRST_DIGITS = (0x0660, 0x06F0, 0x0966, 0x09E6, 0x0E50)
# Each of these blocks of mathematical letters holds A to Z and then a to z.
_MATHEMATICAL_LETTERS = range(0x1D400, 0x1D6A4, 52)
_MATHEMATICAL_DIGITS = range(0x1D7CE, 0x1D800, 10)
_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
# Signs of full width that prose in Chinese and Japanese is full of and no pattern asks for.
_PROSE = "\uff01\uff0c\uff1b\uff1f"


def _plain_signs() -> dict[str, str]:
    plain = {chr(code): chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}
    plain |= dict.fromkeys(_BLANKS, " ") | dict.fromkeys(_DASHES, "-") | {"\ufe6b": "@"}
    for first in _FIRST_DIGITS:
        plain |= {chr(first + digit): str(digit) for digit in range(10)}
    return {sign: stands_for for sign, stands_for in plain.items() if sign not in _PROSE}


def _plain_mathematics() -> dict[str, str]:
    plain: dict[str, str] = {}
    for first in _MATHEMATICAL_DIGITS:
        plain |= {chr(first + digit): str(digit) for digit in range(10)}
    for first in _MATHEMATICAL_LETTERS:
        plain |= {chr(first + place): letter for place, letter in enumerate(_ALPHABET)}
    return plain


_PLAIN = _plain_signs()
_SIGNS = re.compile(f"[{''.join(map(re.escape, _PLAIN))}]")
_PLAIN_MATHEMATICS = _plain_mathematics()
_MATHEMATICS = re.compile("[\U0001d400-\U0001d7ff]")

# Cyrillic, Greek and other letters that look like Latin ones, each with the one it looks like.
_LOOKS = dict(
    zip(
        "аеорсухіјѕһԁԛԝѵӏкАВЕКМНОРСТУХІЈЅԌҮԚԜοανρικυϲχΑΒΕΖΗΙΚΜΝΟΡΤΥΧıɑɡⅼ",
        "aeopcyxijshdqwvlkABEKMHOPCTYXIJSGYQWoavpikucxABEZHIKMNOPTYXiagl",
        strict=True,
    )
)
_LOOK = f"[{''.join(_LOOKS)}]"
_LOOKING = re.compile(_LOOK)
# In a word of its own alphabet a letter is no disguise: only beside a Latin letter or a digit
# is it one.
_DISGUISED = re.compile(rf"(?:{_LOOK}*[0-9A-Za-z]+)+{_LOOK}*")


def _utf8(signs: Iterable[str]) -> str:
    """Write characters as alternatives of their bytes in UTF-8, those of one lead byte together."""
    ends: dict[bytes, list[int]] = {}
    for sign in signs:
        encoded = sign.encode()
        ends.setdefault(encoded[:-1], []).append(encoded[-1])
    return "|".join(
        "".join(f"\\x{byte:02x}" for byte in lead)
        + "["
        + "".join(f"\\x{byte:02x}" for byte in last)
        + "]"
        for lead, last in ends.items()
    )


_INVISIBLE_SIGNS = [chr(code) for code in range(0x10000) if _INVISIBLE.match(chr(code))]
HIDING = (
    f"{_utf8([*_INVISIBLE_SIGNS, *_PLAIN])}"
    rf"|\xf0\x9d[\x90-\x9f]|\xf3\xa0[\x80\x81]"
)
"""Finds the bytes of signs that are invisible or stand for a plain one."""
MIXED = f"[0-9A-Za-z](?:{_utf8(_LOOKS)})|(?:{_utf8(_LOOKS)})[0-9A-Za-z]"
"""Finds the bytes of a letter of another alphabet beside a Latin letter or a digit."""


class Normalised(NamedTuple):
    """A text to be searched; `dropped` are the places that it lacks of the original."""

    text: str
    dropped: Sequence[int]

    def places(self, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Turn spans of this text into spans of the original, dropped characters included."""
        return _places(self.dropped, spans) if self.dropped else spans


def _places(dropped: Sequence[int], spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    # How many characters of the shorter text stand before each dropped one.
    kept = [place - count for count, place in enumerate(dropped)]
    return [
        (start + bisect_right(kept, start), end + bisect_right(kept, end - 1))
        for start, end in spans
    ]


def plain_blanks(text: str) -> str:
    """Return a text with the blanks and dashes of typesetters and web pages as plain ones."""
    for plain, signs in _COMMON:
        for sign in signs:
            text = text.replace(sign, plain)
    return text


def without_hiding(text: str) -> Normalised:
    """Return a text without invisible characters, wide ones as plain ones."""
    dropped = [match.start() for match in _INVISIBLE.finditer(text)]
    text = _INVISIBLE.sub("", text) if dropped else text
    text = _SIGNS.sub(lambda match: _PLAIN[match[0]], text)
    if max(text, default="") <= "\uffff":
        return Normalised(text, dropped)
    text = _MATHEMATICS.sub(lambda match: _PLAIN_MATHEMATICS.get(match[0], match[0]), text)
    tags = [match.start() for match in _INVISIBLE_TAGS.finditer(text)]
    if not tags:
        return Normalised(text, dropped)
    both = sorted(
        [*dropped, *(start for start, _ in _places(dropped, [(at, at + 1) for at in tags]))]
    )
    return Normalised(_INVISIBLE_TAGS.sub("", text), both)


def unmask(text: str) -> str:
    """Return a text with letters that look like Latin ones as these, in words that hold such."""
    return _DISGUISED.sub(_unmask_word, text)


def _unmask_word(word: re.Match[str]) -> str:
    return _LOOKING.sub(lambda match: _LOOKS[match[0]], word[0])
