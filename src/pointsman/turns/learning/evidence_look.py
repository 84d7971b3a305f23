"""A turn as one vector of whole numbers, and how alike two of them are: `pattern.method: evidence`.

Three parts stand side by side: the letters of the text (hashed, as `fingerprint` does it), its
tokens (static vectors), and its structure. What all recorded turns have in common, their centre, is
taken off first, so that likeness tells what sets a turn apart.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from math import isqrt
from typing import Final

from pointsman.kernel.number import SCALE, Billionths, divide
from pointsman.turns.learning.fingerprint import SET_WEIGHTS, Fingerprint

LETTERS: Final = 384
TOKENS: Final = 128
STRUCTURE: Final = 32
LENGTH: Final = LETTERS + TOKENS + STRUCTURE

STATIC: Final = b""
MINILM: Final = b"minilm/1"
"""Marks of who made token numbers, put after them; numbers of two makers never compare.

Only rows of earlier releases carry the second: the sentence model it stands for was removed.
"""

UNIT: Final = 1_024
"""The length of each part before the centre is taken off."""

CENTRE_UNIT: Final = 16
"""A centre is kept in sixteenths."""

TEXT_REACH: Final = 1_373
STRUCTURE_REACH: Final = 647
"""The length of a part in the end: 0.45 of the whole for letters and tokens, 0.1 for structure.

INVARIANT: the product of two vectors' lengths stays below 2^24, so that float32 adds up their
scalar product exactly, in whatever order.
"""

WHOLE: Final = 2 * TEXT_REACH**2 + STRUCTURE_REACH**2
"""The scalar product of two equal turns, were the centre zero."""

LOUD: Final = (104,) * LETTERS + (68,) * TOKENS + (104,) * STRUCTURE
"""A number of a look that is further from the centre is loud: its sign tells much about products.

Less is asked of tokens: there are fewer, so that those of the other look are larger, too.
"""

HEARD: Final = 96
"""So many letters are listened to, where there are tokens that tell more."""

_SPREAD = 0x9E3779B1


def structure_counts(fingerprint: Fingerprint) -> list[int]:
    """Hash what a turn is made of into signed buckets."""
    counts = [0] * STRUCTURE
    for word in structure_words(fingerprint):
        spread = zlib.crc32(word.encode("utf-8", "surrogatepass")) * _SPREAD
        counts[spread >> 27 & STRUCTURE - 1] += 1 - (spread >> 24 & 2)
    return counts


def structure_words(fingerprint: Fingerprint) -> list[str]:
    """Name everything about a turn besides its text; the workspace is never compared."""
    words = [f"{name}:{word}" for name in SET_WEIGHTS for word in getattr(fingerprint, name)]
    words.append(f"bucket:{fingerprint.estimated_input_tokens_bucket}")
    words += ["images"] * fingerprint.has_images
    words += ["tools"] * fingerprint.has_tool_calls_in_history
    if fingerprint.workload_id is not None:
        words.append(f"workload:{fingerprint.workload_id}")
    return words


def normal(vector: Sequence[int], reach: int) -> list[int]:
    """Return a vector this length, each number rounded half to even; a zero vector stays one."""
    square = sum(each * each for each in vector)
    return (
        [scale_to_length(each, reach, square) for each in vector] if square else [0] * len(vector)
    )


def shown_likeness(dot: int) -> Billionths:
    """Return a scalar product as a fraction; turns that point apart have nothing in common."""
    return Billionths(min(SCALE, max(0, divide(dot * SCALE, WHOLE))))


def scale_to_length(value: int, reach: int, square: int) -> int:
    """Return value * reach / sqrt(square), rounded half to even, in whole numbers only."""
    wanted = 4 * (value * reach) ** 2
    halves = isqrt(wanted // square)
    has_rest = halves * halves * square != wanted
    rounded = divide(2 * halves + has_rest, 4)
    return -rounded if value < 0 else rounded
