"""How varied a string is, and whether it only stands where a secret would.

DETERMINISM: entropy is compared exactly, in integers; no float takes part.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise

_LONGEST = 64
_PLACEHOLDER = re.compile(
    r"example|change.?me|change.?this|place.?holder|your[_\-. ]|[_\-. ]here\b|insert|replace"
    r"|redacted|dummy|sample|removed|hidden|masked|undefined|x{5}|\*{3}|\.{3}|#{4}|-{6}|_{6}"
    r"|(?:foo|bar|baz){2}|\xe2\x80\xa6|goes.?here|fill.?in|\btodo\b|not.?set"
    r"|my[_\-](?:secret|token|key|pass)"
    r"|^(?:none|null|true|false|secret|password|passwd|token|string|value|default|required)$",
    re.IGNORECASE,
)
_TEMPLATE = re.compile(
    r"^\$[A-Za-z_({]|\$\{|\{\{|%\(|\$\(|^<[^>]*>?$|<[A-Za-z _\-]+>|^%[A-Za-z_]+%?$|^\{"
    r"|^\[[^\]]*\]?$|^[&@][A-Za-z.]+$|\]\]$|\}\}$"
)


def is_varied(text: str, half_bits: int) -> bool:
    """Say whether a text holds at least so many half bits of entropy a character.

    With n characters, c of each kind: n**n / prod(c**c) >= 2**(n * bits), both sides squared.
    """
    looked_at = text[:_LONGEST]
    count = len(looked_at)
    if count == 0:
        return False
    held = 1
    for each in Counter(looked_at).values():
        held *= each**each
    most: int = count ** (2 * count)
    return most >= held * held << (half_bits * count)


def is_placeholder(text: str) -> bool:
    """Say whether a text is a stand-in, a template variable, a sequence, or one thing repeated."""
    if _TEMPLATE.search(text) or _PLACEHOLDER.search(text):
        return True
    return len(set(text)) <= 2 or _is_sequence(text[:_LONGEST])


def _is_sequence(text: str) -> bool:
    steps = sum(ord(right) - ord(left) == 1 for left, right in pairwise(text))
    return steps * 10 >= 7 * (len(text) - 1)
