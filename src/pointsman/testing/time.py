"""Time and ids that stand still until a test moves them."""

from __future__ import annotations

from pointsman.kernel.instant import SECOND, Instant, read_instant

START = read_instant("2026-01-01T00:00:00Z")


class FrozenClock:
    """A clock that shows one instant until it is moved."""

    def __init__(self, at: Instant = START) -> None:
        self._at = at

    def now(self) -> Instant:
        """Return the instant it was set to."""
        return self._at

    def advance(self, *, seconds: int = 0, microseconds: int = 0) -> None:
        """Move on, or back."""
        self._at = Instant(self._at + seconds * SECOND + microseconds)


class CountedIds:
    """Ids that count: the same test gives the same ids on every run."""

    def __init__(self, prefix: str = "id") -> None:
        self._prefix = prefix
        self._count = 0

    def new_id(self) -> str:
        """Return the next id."""
        self._count += 1
        return f"{self._prefix}-{self._count:06d}"
