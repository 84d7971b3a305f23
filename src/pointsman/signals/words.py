"""One pass for all words that call a reader, which then looks at the place around them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from pointsman.signals.health import TERMS, term
from pointsman.signals.hit import Found
from pointsman.signals.named import LABELS, Reader, Word
from pointsman.signals.scanned import Scanned


def _readers() -> dict[bytes, Reader]:
    readers: dict[bytes, Reader] = {}
    for terms in TERMS:
        for words, is_weak in ((terms.weak, True), (terms.strong, False)):
            reader = partial(term, terms=terms, is_weak=is_weak)
            readers |= {word.encode(): reader for word in words.split("|") if word}
    for named, labels in LABELS:
        readers |= {label.encode(): named for label in labels.split("|")}
    return readers


_READERS = _readers()


def _pattern(word: bytes) -> str:
    written = "".join(re.escape(chr(byte)) if byte < 0x80 else f"\\x{byte:02x}" for byte in word)
    return written + (r"\b" if word[-1:].isalnum() else "")


def _alternatives(words: list[bytes]) -> str:
    # The longest first: RE2 takes the first alternative that matches.
    return "|".join(map(_pattern, sorted(words, key=lambda word: (-len(word), word))))


_WORDS = (
    rf"(?i:(?:\b|_)(?:{_alternatives([word for word in _READERS if word[0] < 0x80])})"
    # RE2 sees no edge of a word before a letter above ASCII.
    rf"|(?:{_alternatives([word for word in _READERS if word[0] >= 0x80])}))"
)
PATTERNS = (_WORDS,)


def find_by_words(text: Scanned) -> Iterator[Found]:
    """Find documents, births, accounts, patients, illnesses and medicines by their words."""
    for start, end in text.spans(_WORDS):
        written = text.data[start:end].lower()
        word = written.lstrip(b"_")
        reader = _READERS.get(word)
        following = text.data[end : end + 1]
        if reader is not None and not (following.isalnum() or following == b"_"):
            yield from reader(text, Word(end - len(word), end))
