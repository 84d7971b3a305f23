"""Which intent a query is of: the first whose pattern is found in it. By RE2, in linear time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import re2

from pointsman.agents.policy import Intent
from pointsman.kernel.regex import options

MAX_TEXT: Final = 32_768
"""Characters of a query that patterns look at; what lies behind them is not seen."""


class IntentMatcher:
    """The patterns of all intents as one matcher. Letters match whatever their case."""

    def __init__(self, intents: Sequence[Intent]) -> None:
        self._intents = intents
        self._owners: list[int] = []
        self._filter: re2.Filter | None = None
        found = [
            (number, pattern)
            for number, intent in enumerate(intents)
            for pattern in intent.patterns
        ]
        if found:
            matcher = re2.Filter()
            for number, pattern in found:
                matcher.Add(pattern, options(is_case_sensitive=False))
                self._owners.append(number)
            matcher.Compile()
            self._filter = matcher

    @property
    def reads_text(self) -> bool:
        """Whether any pattern looks at the query."""
        return self._filter is not None

    def found(self, query: str) -> Intent | None:
        """Give the first intent that a query is of."""
        if self._filter is None:
            return None
        seen = query[:MAX_TEXT].encode("utf-8", "replace").decode()
        hits = self._filter.Match(seen)
        return self._intents[min(self._owners[hit] for hit in hits)] if hits else None
