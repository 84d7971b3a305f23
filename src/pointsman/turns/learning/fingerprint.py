"""What a turn looks like, and how alike two turns look. Companion of 002, §2.5.

The structural fingerprint compares sets and flags. Beside it stands a vector of the text itself:
character 3- to 5-grams hashed into 1,024 buckets. It has no weights to install, knows no language,
and is the same on every machine; an embedding model can take its place later.
"""

from __future__ import annotations

import re
import zlib
from array import array
from math import isqrt
from operator import mul
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import force_setattr

from pointsman.kernel.canonical import Form, content_id
from pointsman.kernel.columns import ascii_lower
from pointsman.kernel.number import ONE, SCALE, ZERO, Billionths, divide

MOST_CHARS = 2_048
"""How many characters of a text are looked at: half of them its first, half its last."""

MOST_MEMBERS = 64
"""How many members a set keeps: the first in their order."""

DIMENSIONS = 1_024
PEAK = 127
"""The largest number in a vector. INVARIANT: 1,024 x 127 x 127 stays below 2^24."""

ALPHA = Billionths(600_000_000)
"""The part of two texts in the likeness of two turns; the rest is that of their structures."""

WORKLOAD = Billionths(850_000_000)
"""The part of the workload in the likeness of two structures that both name theirs."""

SET_WEIGHTS = {
    "intent_tags": Billionths(300_000_000),
    "file_extensions": Billionths(200_000_000),
    "tool_names": Billionths(150_000_000),
    "file_path_buckets": Billionths(100_000_000),
    "side_effect_classes": Billionths(100_000_000),
}
BUCKET_WEIGHT = Billionths(100_000_000)
IMAGES_WEIGHT = Billionths(50_000_000)

_BUCKET_ENDS = (1_000, 10_000, 100_000)
# Spreads a checksum over its high bits: the checksum alone is linear, and like texts would collide.
_SPREAD = 0x9E3779B1
# DETERMINISM: ASCII rules only. What Unicode calls a word or lower case changes with its version.
_WORD = re.compile(r"\w+", re.ASCII)
_INTENTS = {
    "commit": ("commit", "stage"),
    "refactor": ("refactor", "rename", "extract", "inline", "cleanup"),
    "architecture": ("design", "module", "abstraction", "interface"),
    "debug": ("debug", "bug", "error", "broken", "fail", "fails"),
    "doc": ("doc", "docs", "document", "readme", "comment", "docstring"),
    "test": ("test", "tests", "pytest", "e2e"),
}
_INTENT_OF = {word: tag for tag, words in _INTENTS.items() for word in words}
_INTENT_PREFIXES = (("architect", "architecture"), ("simplif", "refactor"))
_INTENT_PAIRS = (
    (frozenset({"git", "add"}), re.compile(r"\bgit\s+add\b", re.ASCII), "commit"),
    (frozenset({"stack", "trace"}), re.compile(r"\bstack\s+trace\b", re.ASCII), "debug"),
)
_INTENT_WORDS = (*_INTENT_OF, *(begins for begins, _ in _INTENT_PREFIXES), "git", "stack")
# A text without any of these has no intent. One that contains another of them is not needed.
_INTENT_HINTS = tuple(
    word
    for word in _INTENT_WORDS
    if not any(other in word for other in _INTENT_WORDS if other != word)
)


class Fingerprint(Struct, frozen=True, forbid_unknown_fields=True):
    """The structure of a turn, version 1; however its sets are given, they are sorted and unique.

    `workspace_hash` keeps workspaces apart in the store; no two turns are compared by it.
    """

    file_extensions: tuple[str, ...] = ()
    file_path_buckets: tuple[str, ...] = ()
    tool_names: tuple[str, ...] = ()
    side_effect_classes: tuple[str, ...] = ()
    has_images: bool = False
    has_tool_calls_in_history: bool = False
    estimated_input_tokens_bucket: Annotated[int, Meta(ge=0, le=3)] = 0
    intent_tags: tuple[str, ...] = ()
    workspace_hash: str = ""
    workload_id: str | None = None

    def __post_init__(self) -> None:
        for name in SET_WEIGHTS:
            given = getattr(self, name)
            if given:
                members = sorted({_writable(each) for each in given})
                force_setattr(self, name, tuple(members[:MOST_MEMBERS]))
        if self.workload_id is not None:
            force_setattr(self, "workload_id", _writable(self.workload_id))


FINGERPRINT_FORM = Form(Fingerprint)


class Surroundings(Struct, frozen=True):
    """What a fingerprint is taken from, besides the message."""

    file_extensions: tuple[str, ...] = ()
    file_paths: tuple[str, ...] = ()
    tool_names: tuple[str, ...] = ()
    side_effect_classes: tuple[str, ...] = ()
    has_images: bool = False
    has_tool_calls_in_history: bool = False
    estimated_input_tokens: int = 0
    workspace_path: str | None = None
    workload_id: str | None = None


def fingerprint_of(message: str, around: Surroundings) -> Fingerprint:
    """Take the structural fingerprint of a turn."""
    workspace = around.workspace_path
    return Fingerprint(
        file_extensions=tuple(_lower(each) for each in around.file_extensions),
        file_path_buckets=tuple(path_bucket(path) for path in around.file_paths),
        tool_names=around.tool_names,
        side_effect_classes=around.side_effect_classes,
        has_images=around.has_images,
        has_tool_calls_in_history=around.has_tool_calls_in_history,
        estimated_input_tokens_bucket=token_bucket(around.estimated_input_tokens),
        intent_tags=intent_tags(message),
        workspace_hash="" if workspace is None else content_id(_bytes(workspace)),
        workload_id=around.workload_id,
    )


def fingerprint_id(fingerprint: Fingerprint, vector: bytes) -> str:
    """Name a turn's looks: its structure, and its text where there is a vector of it."""
    canonical = FINGERPRINT_FORM.encode(fingerprint)
    return content_id(canonical + b"\0" + vector if vector else canonical)


def intent_tags(text: str) -> tuple[str, ...]:
    """Return the intents that the words of a message name, of six kinds, in alphabetical order."""
    seen = ascii_lower(looked_at(text))
    if True not in map(seen.__contains__, _INTENT_HINTS):
        return ()
    words = set(_WORD.findall(seen))
    found = {_INTENT_OF[word] for word in words & _INTENT_OF.keys()}
    for begins, tag in _INTENT_PREFIXES:
        if begins in seen and any(word.startswith(begins) for word in words):
            found.add(tag)
    for both, said, tag in _INTENT_PAIRS:
        if both <= words and said.search(seen):
            found.add(tag)
    return tuple(sorted(found))


def path_bucket(path: str) -> str:
    """Return the top-level folder of a path, `.` for a file outside every folder."""
    *folders, _name = path.replace("\\", "/").split("/")
    return next((each for each in folders if each not in {"", "."}), ".")


def token_bucket(tokens: int) -> int:
    """Return 0 below 1,000 tokens, 1 below 10,000, 2 below 100,000, else 3."""
    return sum(tokens >= end for end in _BUCKET_ENDS)


def similarity(left: Fingerprint, right: Fingerprint) -> Billionths:
    """Return how alike two structures are, by weighted Jaccard; each share is rounded half to even.

    Two empty sets are alike. Where both turns name a workload, it weighs most.
    """
    shares = [
        jaccard_share(weight, set(getattr(left, name)), set(getattr(right, name)))
        for name, weight in SET_WEIGHTS.items()
    ]
    if left.estimated_input_tokens_bucket == right.estimated_input_tokens_bucket:
        shares.append(BUCKET_WEIGHT)
    if left.has_images == right.has_images:
        shares.append(IMAGES_WEIGHT)
    structural = Billionths(sum(shares))
    if left.workload_id is None or right.workload_id is None:
        return structural
    return blend(WORKLOAD, ONE if left.workload_id == right.workload_id else ZERO, structural)


def jaccard_share(weight: Billionths, left: set[str], right: set[str]) -> Billionths:
    """Return a weight times the share that two sets have in common (Jaccard)."""
    either = len(left | right)
    return Billionths(divide(weight * len(left & right), either)) if either else weight


def blend(part: Billionths, first: Billionths, second: Billionths) -> Billionths:
    """Return a part of the first and the rest of the second, rounded half to even."""
    return Billionths(divide(part * first + (SCALE - part) * second, SCALE))


def likeness(
    left: Fingerprint, right: Fingerprint, left_vector: bytes, right_vector: bytes
) -> Billionths:
    """Return how alike two turns are: texts and structures, or structures alone.

    Structures alone where a vector is missing (empty) or the two are of different length. Texts
    that point apart count as texts that have nothing in common.
    """
    structural = similarity(left, right)
    if not left_vector or len(left_vector) != len(right_vector):
        return structural
    return blend(ALPHA, max(ZERO, cosine(left_vector, right_vector)), structural)


def hashed_vector(text: str) -> bytes:
    """Return the vector of a text as 1,024 signed bytes, or nothing where there is no text."""
    counts = [0] * DIMENSIONS
    characters = spaced_text(text)
    for size in (12, 16, 20):
        for start in range(0, len(characters) - size + 1, 4):
            spread = zlib.crc32(characters[start : start + size]) * _SPREAD
            counts[spread >> 22 & 1023] += 1 - (spread >> 20 & 2)
    square = sum(map(mul, counts, counts))
    if square == 0:
        return b""
    scale = {count: signed_root(count, PEAK, square) for count in set(counts)}
    return array("b", [scale[count] for count in counts]).tobytes()


def cosine(left: bytes, right: bytes) -> Billionths:
    """Return the cosine of two signed-byte vectors, rounded half to even; 0 beside a zero one."""
    first, second = memoryview(left).cast("b"), memoryview(right).cast("b")
    dot = sum(map(mul, first, second))
    return cosine_of(dot, sum(map(mul, first, first)), sum(map(mul, second, second)))


def cosine_of(dot: int, left_square: int, right_square: int) -> Billionths:
    """Return the cosine from a scalar product and the two squared lengths, all exact."""
    squares = left_square * right_square
    return Billionths(signed_root(dot, SCALE, squares)) if squares else ZERO


def signed_root(value: int, scale: int, square: int) -> int:
    """Return value * scale / sqrt(square), rounded half to even, in whole numbers only."""
    wanted = 4 * (value * scale) ** 2
    halves = isqrt(wanted // square)
    has_rest = halves * halves * square != wanted
    rounded = divide(2 * halves + has_rest, 4)
    return -rounded if value < 0 else rounded


def spaced_text(text: str) -> bytes:
    """Return a text in lower case with single spaces round its words, four bytes a character."""
    spaced = spaced_bytes(text).decode("utf-8", "surrogatepass")
    return spaced.encode("utf-32-le", "surrogatepass")


def spaced_bytes(text: str) -> bytes:
    """Return a text in lower case with single spaces round its words, in UTF-8."""
    return b" ".join([b"", *_bytes(looked_at(text)).lower().split(), b""])


def looked_at(text: str) -> str:
    """Return the part of a text that is looked at: all of it, or its beginning and its end."""
    if len(text) <= MOST_CHARS:
        return text
    half = MOST_CHARS // 2
    return f"{text[:half]} {text[-half:]}"


def _lower(text: str) -> str:
    return _bytes(text).lower().decode("utf-8", "surrogatepass")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _writable(text: str) -> str:
    # Half a surrogate pair, as file names can hold, has no canonical bytes.
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
