"""Asking what was spent. Never writes; what was spent in the last moment may not be there yet."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from pointsman.storage.place import Where
from pointsman.storage.sqlite.place import place_of
from pointsman.storage.stores.spend import SQL, SpendAmounts

By = Literal["all", "day", "key", "session", "workspace", "model"]

_EVER = 2**53


class Total(Struct, frozen=True):
    """The sum over all calls of one day, key, session, workspace or model."""

    what: str
    amounts: SpendAmounts


class SpendQuery(Struct, frozen=True):
    """Which calls to add up: of one session or key or all, from one day up to another."""

    session_id: str | None = None
    key_id: str | None = None
    first_day: int = 0
    end_day: int = _EVER


class SpendReader:
    """A view of the sums as they are on disk."""

    def __init__(self, where: Where) -> None:
        self._place = place_of(where)
        with self._place.told_errors():
            self._connection = self._place.reading()

    def close(self) -> None:
        """Let go of the database."""
        self._connection.close()

    def totals(self, by: By, asked: SpendQuery = SpendQuery()) -> list[Total]:  # noqa: B008 - frozen
        """Return sums in the order of what they are by; a day counts from 1970."""
        bound = {
            "by": by,
            "session": asked.session_id,
            "key": asked.key_id,
            "first": asked.first_day,
            "end": asked.end_day,
        }
        with self._place.told_errors():
            rows = [*self._connection.execute(SQL["totals"], bound)]
        return [Total(str(row[0]), SpendAmounts(*map(int, row[1:]))) for row in rows]
