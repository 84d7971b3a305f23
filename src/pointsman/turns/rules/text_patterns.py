"""All text patterns of a policy as one matcher, by RE2: linear time, whatever the text is."""

from __future__ import annotations

from collections.abc import Sequence

import re2

from pointsman.kernel.regex import options

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
        seen = text[:MAX_TEXT].encode("utf-8", "replace").decode()
        return frozenset(self._filter.Match(seen) or ())
