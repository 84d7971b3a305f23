"""Which intent a query is of: the first whose pattern is found in it. By RE2, in linear time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import re2

from pointsman.agents.policy import Intent

MAX_PATTERN: Final = 1_000
"""Characters in one pattern."""

MAX_TEXT: Final = 32_768
"""Characters of a query that patterns look at; what lies behind them is not seen."""


def _options() -> re2.Options:
    options = re2.Options()
    options.log_errors = False
    options.case_sensitive = False
    return options


def refusal(pattern: str) -> str:
    """Say why a pattern cannot be used; empty when it can."""
    if len(pattern) > MAX_PATTERN:
        return f"it is longer than {MAX_PATTERN} characters"
    try:
        re2.compile(pattern, _options())
    except re2.error as error:
        reason = error.args[0] if error.args else "it cannot be read"
        return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
    except UnicodeEncodeError:
        return "it holds half of a surrogate pair"
    return ""


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
                matcher.Add(pattern, _options())
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
