"""A memo of facts about bytes: by digest, bounded in size, the least used dropped.

INVARIANT: remembered facts are pure functions of the bytes, so nothing that is decided or
recorded depends on what the memo holds. It holds digests, counts and places, never text.
"""

from __future__ import annotations

from typing import Final, Generic, Protocol, TypeVar

MOST_BYTES: Final = 8 * 1024 * 1024
"""Size of one memo; a conversation of 150 KB takes some 30 KB of it."""


class Facts(Protocol):
    """Facts that know their size."""

    @property
    def size(self) -> int:
        """About how many bytes they take in memory, their digest included."""
        ...


T = TypeVar("T", bound=Facts)


class FactMemo(Generic[T]):
    """Facts by digest, in two generations: what the younger lacks is taken over from the older.

    When the younger one is full, the older one is dropped. So a look costs no list of uses.
    """

    __slots__ = ("_most", "_old", "_size", "_young")

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes // 2
        self._young: dict[bytes, T] = {}
        self._old: dict[bytes, T] = {}
        self._size = 0

    def find(self, digest: bytes) -> T | None:
        """Return the facts of some bytes, if they are remembered."""
        facts = self._young.get(digest)
        if facts is None and (facts := self._old.get(digest)) is not None:
            self.keep(digest, facts)
        return facts

    def keep(self, digest: bytes, facts: T) -> None:
        """Remember facts; those that would fill a generation alone are not."""
        size = facts.size
        if size > self._most:
            return
        if self._size + size > self._most:
            self._old, self._young, self._size = self._young, {}, 0
        self._young[digest] = facts
        self._size += size
