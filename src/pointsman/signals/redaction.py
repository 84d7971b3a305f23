"""Redaction for keeping text: hits are replaced by their kind, then whatever is still suspicious.

Errs on the side of replacing. Its cost grows with the text and nothing else.
"""

from __future__ import annotations

import re
from typing import Final

from pointsman.signals.detectors import detect
from pointsman.signals.kinds import KINDS

SECRETS: Final = frozenset(each.name for each in KINDS if each.group == "secret")
MOST_DIGITS = 4
LONGEST_WORD = 24
MOST_ROUNDS = 4
"""A replaced hit may have hidden one beside it; two rounds are enough for most texts."""

_MARK = r"\[(?:address|number|long|" + "|".join(kind.name for kind in KINDS) + r")\]"
_WORD = re.compile(rf"{_MARK}|(?:[^\s\[]|(?!{_MARK})\[)+")


def redact(text: str) -> str:
    """Return the text with everything suspicious replaced by its kind in brackets."""
    for _ in range(MOST_ROUNDS):
        before, text = text, _WORD.sub(lambda match: _redact_word(match[0]), _without_hits(text))
        if text == before:
            break
    return text


def hide_secrets(text: str) -> str:
    """Return the text with every secret that has a known form replaced by its kind."""
    return _without_hits(text, SECRETS)


def _without_hits(text: str, kinds: frozenset[str] | None = None) -> str:
    kept, end = [], 0
    for hit in detect(text):
        if kinds is not None and hit.kind not in kinds:
            continue
        kept += [text[end : hit.start], f"[{hit.kind}]"]
        end = hit.end
    return "".join((*kept, text[end:]))


def _redact_word(word: str) -> str:
    if "@" in word[1:]:
        return "[address]"
    if sum(char.isdigit() for char in word) > MOST_DIGITS:
        return "[number]"
    return "[long]" if len(word) > LONGEST_WORD else word
