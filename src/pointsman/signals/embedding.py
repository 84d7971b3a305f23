"""Vectors of a text: its letters, hashed, and the sum of its tokens' static vectors.

`hashed_letters` is `turns.fingerprint.hashed_vector`, number for number, many times faster: a CRC
is linear, so the checksum of a window is the exclusive or of what each character adds to it.
"""

from __future__ import annotations

import re
import zlib
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from pointsman.kernel.columns import ascii_lower
from pointsman.turns.learning.evidence_arrays import normal_row
from pointsman.turns.learning.evidence_look import TOKENS
from pointsman.turns.learning.fingerprint import (
    DIMENSIONS,
    MOST_CHARS,
    PEAK,
    looked_at,
    spaced_bytes,
    spaced_text,
)

TOKEN_REACH: Final = 381
"""The length of a token vector; single numbers are cut at 127."""

LONGEST: Final = 5
"""Windows of three characters up to this many are hashed."""

_SPREAD, _SHIFT, _BYTE = np.uint32(0x9E3779B1), np.uint32(21), np.uint32(0xFF)
_WORD = re.compile(r"[a-z0-9]+|[^\s\x00-\x20]", re.ASCII)
_DATA = Path(__file__).with_name("token_vectors")
_LONGEST_WORD = 100
_KNOWN_WORDS = 65_536
# A token has a character at least.
_ONES: Final = np.ones(MOST_CHARS + 1, np.float32)

Words = npt.NDArray[np.uint32]


def text_vector(text: str) -> bytes:
    """Return letters and tokens, one after the other, as the pattern store takes them."""
    letters = hashed_letters(text)
    return letters + (static_tokens(text) or bytes(TOKENS)) if letters else b""


def hashed_letters(text: str) -> bytes:
    """Return the vector of a text's letters as 1,024 signed bytes, or nothing without text."""
    spread = _checksums(_characters(text))
    spread *= _SPREAD
    # Ten bits name the bucket, the next one its sign.
    spread >>= _SHIFT
    pairs = np.bincount(spread, minlength=2 * DIMENSIONS)
    counts = (pairs[0::2] - pairs[1::2]).astype(np.float64)
    found = normal_row(counts, PEAK)
    return b"" if found is counts else found.astype(np.int8).tobytes()


def static_tokens(text: str) -> bytes:
    """Return the vector of a text's tokens as 128 signed bytes, or nothing where none is known."""
    places = [*chain.from_iterable(map(_pieces().__getitem__, words_of(text)))]
    if not places:
        return b""
    # Whole numbers up to 127, at most 2,049 of them: float32 adds them up exactly.
    vectors = _vectors().take(places, axis=0).astype(np.float32)
    total = (_ONES[: len(places)] @ vectors).astype(np.float64)
    found = normal_row(total, TOKEN_REACH)
    if found is total:
        return b""
    return np.minimum(np.maximum(found, -PEAK), PEAK).astype(np.int8).tobytes()


def words_of(text: str) -> list[str]:
    """Return the words and single signs of a text; only ASCII capitals are lowered."""
    return _WORD.findall(ascii_lower(looked_at(text)))


def pieces_of(word: str) -> tuple[int, ...]:
    """Return the places in `token_names` of the pieces of a word; none where one is not known."""
    return _pieces()[word]


def _characters(text: str) -> Words | npt.NDArray[np.uint8]:
    """Return the characters of `spaced_text`; of plain text a byte each."""
    if text.isascii():
        return np.frombuffer(spaced_bytes(text), np.uint8)
    return np.frombuffer(spaced_text(text), np.uint32)


def _checksums(characters: Words | npt.NDArray[np.uint8]) -> Words:
    """Return the CRC of every window of three, four and five characters."""
    count = len(characters)
    three, four, five = (max(0, count - size + 1) for size in (3, 4, 5))
    found = np.empty(three + four + five, np.uint32)
    added = _crc_of(characters)
    # A window is what its first character adds, and the shorter window that follows it.
    threes, fours = found[:three], found[three : three + four]
    np.bitwise_xor(added[2, :three], added[1, 1 : three + 1], out=threes)
    threes ^= added[0, 2:]
    np.bitwise_xor(added[3, :four], threes[1:], out=fours)
    np.bitwise_xor(added[4, :five], fours[1:], out=found[three + four :])
    return found


def _crc_of(characters: Words | npt.NDArray[np.uint8]) -> Words:
    """Tell what each character adds to the CRC of a window in which so many follow it."""
    if characters.dtype == np.uint8:
        return _table(0).take(characters, axis=1)
    most = int(characters.max(initial=0))
    # Of the four bytes of a character, the last is always 0; one in the middle can be, too.
    found: Words = _table(0).take(characters & _BYTE, axis=1)
    for byte in range(1, 2 if most < 0x10000 else 3):
        found ^= _table(byte).take(characters >> np.uint32(8 * byte) & _BYTE, axis=1)
    return found


@cache
def _table(byte: int) -> Words:
    """Tell what each value of a character's byte adds, a row for how many characters follow."""
    found = np.array([_bytes_add(4 * after + 3 - byte) for after in range(LONGEST)], np.uint32)
    if byte == 0:
        # What a CRC begins with, which depends on the length of the window.
        begins = [zlib.crc32(bytes(4 * size)) for size in (3, 4, 5)]
        found[2] ^= np.uint32(begins[0])
        found[3] ^= np.uint32(begins[0] ^ begins[1])
        found[4] ^= np.uint32(begins[1] ^ begins[2])
    return found


def _bytes_add(after: int) -> list[int]:
    nothing = zlib.crc32(bytes(after + 1))
    return [zlib.crc32(bytes([value, *bytes(after)])) ^ nothing for value in range(256)]


@cache
def _vectors() -> npt.NDArray[np.int8]:
    return np.fromfile(_DATA / "vectors.i8", np.int8).reshape(-1, TOKENS)


@cache
def token_names() -> tuple[str, ...]:
    """Return the pieces of words there are, by place."""
    return tuple((_DATA / "tokens.txt").read_text(encoding="utf-8").rstrip("\n").split("\n"))


@cache
def _places() -> dict[str, int]:
    return {token: place for place, token in enumerate(token_names())}


class _Pieces(dict[str, tuple[int, ...]]):
    """The places of words' pieces: found when they are first asked for, then kept."""

    def __missing__(self, word: str) -> tuple[int, ...]:
        if len(self) >= _KNOWN_WORDS:
            self.clear()
        found = self[word] = _split_word(word)
        return found


@cache
def _pieces() -> _Pieces:
    return _Pieces()


def _split_word(word: str) -> tuple[int, ...]:
    """Split a word into the longest pieces there are vectors of; none where a rest has none."""
    places = _places()
    found: list[int] = []
    start = 0
    while start < len(word) <= _LONGEST_WORD:
        head = "##" if start else ""
        ends = range(len(word), start, -1)
        end = next((end for end in ends if head + word[start:end] in places), 0)
        if not end:
            return ()
        found.append(places[head + word[start:end]])
        start = end
    return tuple(found)
