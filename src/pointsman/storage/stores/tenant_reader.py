"""The ledger as one tenant may see it: without decisions and jobs that another tenant asked for.

The calls of a decision and feedback on it are found through it, a job's entries through its start,
and so they are hidden with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

import msgspec
from msgspec import Struct

from pointsman.kernel.entry import Entry
from pointsman.kernel.instant import EPOCH, LATEST, Instant
from pointsman.kernel.record import DECISION
from pointsman.storage.place import Where
from pointsman.storage.sqlite.database import SQL
from pointsman.storage.stores.entries import LedgerReader, Stored, stored_entry

JOB_STARTED: Final = "event.job.started"


class TenantReader(LedgerReader):
    """A view of the ledger that holds a tenant's own decisions."""

    def __init__(self, where: Where, tenant: str) -> None:
        super().__init__(where)
        self._tenant = tenant
        self._mark = b'"tenant":"%b"' % tenant.encode()

    def of_kind(self, prefix: str, since: Instant = EPOCH) -> Iterator[Stored]:
        """Return the tenant's entries whose kind begins like this, in the order they happened."""
        return (each for each in super().of_kind(prefix, since) if self._is_own(each.entry))

    def decisions(
        self, number: int, first: int, end: int, since: Instant = EPOCH
    ) -> Iterator[tuple[Entry, bytes | None]]:
        """Return the tenant's decisions in a range of a chain, each with its facts."""
        return (
            each for each in super().decisions(number, first, end, since) if self._is_own(each[0])
        )

    def newest(self, kind: str) -> Stored | None:
        """Return the tenant's latest entry of a kind."""
        return next(iter(self.recent(kind, LATEST, 1)), None)

    def recent(self, kind: str, before: Instant, most: int) -> list[Stored]:
        """Return the tenant's latest entries of a kind before an instant, the newest first."""
        if not kind.startswith(DECISION):
            return super().recent(kind, before, most)
        return [*islice(self._mentioning(kind, before, self._mark), most)]

    def with_id(self, name: str) -> list[Stored]:
        """Return the entries with this id, unless another's decision has it."""
        return [each for each in super().with_id(name) if self._is_own(each.entry)]

    def with_ref(self, ref: str) -> list[Stored]:
        """Return the entries that belong to this, without the decisions of others."""
        return [each for each in super().with_ref(ref) if self._is_own(each.entry)]

    def mentioning(self, kind: str, text: bytes) -> Stored | None:
        """Return the tenant's newest entry of a kind whose payload holds these bytes."""
        return next(self._mentioning(kind, LATEST, text), None)

    def _mentioning(self, kind: str, before: Instant, text: bytes) -> Iterator[Stored]:
        rows = self._connection.stream(SQL["entries_mentioning"], (kind, before, text))
        return (each for each in map(stored_entry, rows) if self._is_own(each.entry))

    def _is_own(self, entry: Entry) -> bool:
        if not entry.kind.startswith(DECISION) and entry.kind != JOB_STARTED:
            return True
        if self._mark not in entry.payload:
            return False
        try:
            if entry.kind == JOB_STARTED:
                return _STARTED.decode(entry.payload).tenant == self._tenant
            # A caller's own input may hold the same bytes: what counts stands beside the decision.
            return _RECORDED.decode(entry.payload).aside.tenant == self._tenant
        except msgspec.MsgspecError:
            return False


class _Aside(Struct):
    tenant: str = ""


class _Recorded(Struct):
    aside: _Aside


_RECORDED = msgspec.json.Decoder(_Recorded)
_STARTED = msgspec.json.Decoder(_Aside)
