"""Redaction for keeping text: whatever looks like an address, a number or a key is replaced.

Errs on the side of replacing. Word by word, so its cost grows with the text and nothing else.
"""

from __future__ import annotations

import re

MOST_DIGITS = 4
LONGEST_WORD = 24

_WORD = re.compile(r"\S+")


def redacted(text: str) -> str:
    """Give the text with everything suspicious replaced by its kind in brackets."""
    return _WORD.sub(lambda match: _kept(match[0]), text)


def _kept(word: str) -> str:
    if "@" in word[1:]:
        return "[address]"
    if sum(char.isdigit() for char in word) > MOST_DIGITS:
        return "[number]"
    if len(word) > LONGEST_WORD:
        return "[long]"
    return word
