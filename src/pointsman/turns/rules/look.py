"""One look at a turn's facts: what several rules ask about the text is found out once."""

from __future__ import annotations

from msgspec import Struct

from pointsman.errors import MissingSnapshot
from pointsman.turns.facts import TurnFacts
from pointsman.turns.rules.text_patterns import TextPatterns


class Patterns(Struct, frozen=True):
    """The patterns of a policy: those for messages and those for workspace paths."""

    message: TextPatterns
    path: TextPatterns


class FactsView:
    """The facts of a turn, and the patterns that match them, found when first asked."""

    __slots__ = ("_hits", "_path_hits", "_patterns", "facts")

    def __init__(self, facts: TurnFacts, patterns: Patterns) -> None:
        self.facts = facts
        self._patterns = patterns
        self._hits: frozenset[int] | None = None
        self._path_hits: frozenset[int] | None = None

    @property
    def hits(self) -> frozenset[int]:
        """The numbers of the patterns that match the message."""
        if self._hits is None:
            text = self.facts.message
            if not isinstance(text, str):
                raise MissingSnapshot("a rule reads the message, and its text is not kept")
            self._hits = self._patterns.message.hits(text)
        return self._hits

    @property
    def path_hits(self) -> frozenset[int]:
        """The numbers of the patterns that match the workspace's path; none without a path."""
        if self._path_hits is None:
            path = self.facts.workspace_path
            self._path_hits = frozenset() if path is None else self._patterns.path.hits(path)
        return self._path_hits
