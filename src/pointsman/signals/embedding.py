"""Vectors of a text: its letters, hashed, and the sum of its tokens' static vectors.

`hashed_letters` is `turns.fingerprint.hashed_vector`, number for number, many times faster: a CRC
is linear, so the checksum of a window is the exclusive or of what each character adds to it.
"""

from __future__ import annotations

import re
import zlib
from functools import cache, lru_cache, reduce
from itertools import chain
from operator import xor
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from pointsman.kernel.text import ascii_lower
from pointsman.turns.evidence_arrays import normal_rows
from pointsman.turns.evidence_look import TOKENS
from pointsman.turns.fingerprint import DIMENSIONS, PEAK, looked_at, signed_root, spaced_text

TOKEN_REACH: Final = 381
"""The length of a token vector; single numbers are cut at 127."""

SHORTEST: Final = 3
LONGEST: Final = 5

_SPREAD, _SHIFT, _BYTE = np.uint32(0x9E3779B1), np.uint32(21), np.uint32(0xFF)
_WORD = re.compile(r"[a-z0-9]+|[^\s\x00-\x20]", re.ASCII)
_DATA = Path(__file__).with_name("token_vectors")
_LONGEST_WORD = 100

Words = npt.NDArray[np.uint32]


def text_vector(text: str) -> bytes:
    """Give letters and tokens, one after the other, as the pattern store takes them."""
    letters = hashed_letters(text)
    return letters + (static_tokens(text) or bytes(TOKENS)) if letters else b""


def hashed_letters(text: str) -> bytes:
    """Give the vector of a text's letters as 1,024 signed bytes, or nothing without text."""
    spread = _checksums(np.frombuffer(spaced_text(text), np.uint32)) * _SPREAD
    # Ten bits name the bucket, the next one its sign.
    pairs = np.bincount((spread >> _SHIFT).astype(np.intp), minlength=2 * DIMENSIONS)
    counts = pairs[0::2] - pairs[1::2]
    square = int(counts @ counts)
    if square == 0:
        return b""
    low, high = int(counts.min()), int(counts.max())
    # Few counts differ, so each is scaled once, in whole numbers.
    scale = [signed_root(count, PEAK, square) for count in range(low, high + 1)]
    return bytes(np.array(scale, np.int8)[counts - low])


def static_tokens(text: str) -> bytes:
    """Give the vector of a text's tokens as 128 signed bytes, or nothing where none is known."""
    words = _WORD.findall(ascii_lower(looked_at(text)))
    places = [*chain.from_iterable(map(_pieces, words))]
    if not places:
        return b""
    # Whole numbers up to 127, at most 2,049 of them: float32 adds them up exactly.
    total = _vectors().take(places, axis=0).sum(axis=0).astype(np.int64)
    found = normal_rows(total[None, :], TOKEN_REACH)[0].clip(-PEAK, PEAK)
    return found.astype(np.int8).tobytes() if found.any() else b""


def _checksums(characters: Words) -> Words:
    """Give the CRC of every window of three, four and five characters."""
    most = int(characters.max(initial=0))
    # Of the four bytes of a character, the last is always 0; the middle ones are, in plain text.
    used = 1 if most < 0x100 else 2 if most < 0x10000 else 3
    parts = [(characters >> np.uint32(8 * n) & _BYTE).astype(np.intp) for n in range(used)]
    # What a character adds depends only on how many follow it in its window.
    added = [
        reduce(xor, (_table(4 * after + 3 - n)[part] for n, part in enumerate(parts)))
        for after in range(LONGEST)
    ]
    windows = []
    for size in range(SHORTEST, LONGEST + 1):
        count = max(0, len(characters) - size + 1)
        shifted = (added[size - 1 - step][step : step + count] for step in range(size))
        windows.append(reduce(xor, shifted) ^ np.uint32(zlib.crc32(bytes(4 * size))))
    return np.concatenate(windows)


@cache
def _table(after: int) -> Words:
    """Tell what each value of a byte adds to a CRC when this many bytes follow it."""
    nothing = zlib.crc32(bytes(after + 1))
    found = [zlib.crc32(bytes([value, *bytes(after)])) ^ nothing for value in range(256)]
    return np.array(found, np.uint32)


@cache
def _vectors() -> npt.NDArray[np.float32]:
    return np.fromfile(_DATA / "vectors.i8", np.int8).reshape(-1, TOKENS).astype(np.float32)


@cache
def _places() -> dict[str, int]:
    text = (_DATA / "tokens.txt").read_text(encoding="utf-8")
    return {token: place for place, token in enumerate(text.rstrip("\n").split("\n"))}


@lru_cache(maxsize=65_536)
def _pieces(word: str) -> tuple[int, ...]:
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
