"""Semantic memory on disk: namespaces of keys, every version kept with its origin.

Written by the effector of an executed request alone; a version, once there, stays. A
request writes once: executed again, it returns its version.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar, cast

import apsw
import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from pointsman.errors import LedgerError, SemNotFound, SemWriteFail
from pointsman.kernel.canonical import ContentId, Form, content_id
from pointsman.kernel.instant import Instant
from pointsman.storage.connection import Connection
from pointsman.storage.place import StorePlace, Where
from pointsman.storage.sqlite.database import in_transaction, named_blocks, sql_text
from pointsman.storage.sqlite.place import place_of

SEMANTIC = "semantic"
"""What the store is called in a home."""
ATTEMPTS = 100
PAUSE_S = 0.01

_SQL = named_blocks(sql_text("semantic_queries.sql"))
_SCHEMA = "semantic.sql"

_Row = tuple[str, str, int, bytes | None, str, str, str, str, str, int]

T = TypeVar("T")


class Provenance(Struct, frozen=True, forbid_unknown_fields=True):
    """By which request a version came to be, and the ledger entry that let it happen."""

    request_id: str
    entry: str
    action_hash: str
    requested_by: str
    approved_by: tuple[str, ...]
    at: Instant


class SemEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """One version of a key; `value` is canonical JSON, or None where the key was removed."""

    namespace: str
    key: str
    version: int
    value: bytes | None
    provenance: Provenance


class _Held(Struct, frozen=True, forbid_unknown_fields=True):
    namespace: str
    key: str
    version: int
    value_id: str


class _Holding(Struct, frozen=True, forbid_unknown_fields=True):
    held: tuple[_Held, ...]


_HOLDING_FORM = Form(_Holding)
_NAMES = msgspec.json.Decoder(tuple[str, ...])


class SemanticMemory:
    """Reads semantic memory; may be shared by threads. There is no way to write through it."""

    def __init__(self, where: Where) -> None:
        self._place = place_of(where)
        self._lock = threading.Lock()
        self._reading: Connection | None = None

    def close(self) -> None:
        """Let go of the database."""
        with self._lock:
            if self._reading is not None:
                self._reading.close()
                self._reading = None

    def get(self, namespace: str, key: str) -> SemEntry:
        """Return what a key holds now."""
        found = self._entries("newest", (namespace, key))
        if not found or found[0].value is None:
            raise SemNotFound(f"nothing is kept as `{key}` in `{namespace}`")
        return found[0]

    def history(self, namespace: str, key: str) -> list[SemEntry]:
        """Return every version of a key, the oldest first; a removal is a version too."""
        return self._entries("history", (namespace, key))

    def list_namespace(self, namespace: str) -> list[SemEntry]:
        """Return the entries of a namespace, by key."""
        return self._entries("listed", (namespace,))

    def every_version(self) -> list[SemEntry]:
        """Return all entries, ordered by namespace, key and version."""
        return self._entries("all_versions", ())

    def snapshot_id(self, namespace: str) -> ContentId:
        """Name what a namespace holds now by its content."""
        held = tuple(
            _Held(each.namespace, each.key, each.version, content_id(each.value or b""))
            for each in self.list_namespace(namespace)
        )
        return _HOLDING_FORM.id(_Holding(held))

    def _entries(self, name: str, values: tuple[str, ...]) -> list[SemEntry]:
        found = self._read(lambda each: each.execute(_SQL[name], values).fetchall())
        return [_entry(row) for row in found or ()]

    def _read(self, work: Callable[[Connection], T]) -> T | None:
        with self._lock, self._place.told_errors():
            if self._reading is None:
                if not self._place.exists():
                    return None
                reading = self._place.reading()
                if reading.execute(_SQL["is_made"]).fetchone() is None:
                    # The process that makes the database is not done, or was killed: it is empty.
                    reading.close()
                    return None
                self._reading = reading
            return work(self._reading)


def write_version(
    where: Where, namespace: str, key: str, value: bytes | None, provenance: Provenance
) -> SemEntry:
    """Add the next version of a key, durable when this returns; None removes its value.

    INVARIANT: only `approvals/effects.py` calls this, for a request that was claimed. A
    request that has written before writes nothing: its version is given back.
    """
    try:
        connection = _open(place_of(where))
    except (apsw.Error, LedgerError, OSError) as error:
        raise SemWriteFail(f"semantic memory cannot be opened: {error}") from error
    try:
        in_transaction(connection, lambda: _add(connection, namespace, key, value, provenance))
        rows = connection.execute(_SQL["by_request"], (provenance.request_id,)).fetchall()
    except (apsw.Error, LedgerError, OSError) as error:
        raise SemWriteFail(f"nothing was kept: {error}") from error
    finally:
        connection.close()
    return _entry(rows[0])


def _open(place: StorePlace) -> Connection:
    """Open for writing; while a reader looks at a database being made, SQLite does not wait."""
    for _ in range(ATTEMPTS):
        with suppress(apsw.BusyError):
            return place.writing(_SCHEMA)
        time.sleep(PAUSE_S)
    return place.writing(_SCHEMA)


def _add(
    connection: Connection, namespace: str, key: str, value: bytes | None, by: Provenance
) -> None:
    if connection.execute(_SQL["by_request"], (by.request_id,)).fetchone() is not None:
        return
    origin = {**asdict(by), "approved_by": msgspec.json.encode(by.approved_by).decode()}
    written = {"namespace": namespace, "key": key, "value": value}
    connection.execute(_SQL["add_version"], {**written, **origin})


def _entry(row: object) -> SemEntry:
    # The table is STRICT: its columns have these types.
    namespace, key, version, value, *origin, approved, at = cast("_Row", row)
    request_id, entry, action_hash, requested_by = origin
    names, when = _NAMES.decode(approved), Instant(at)
    by = Provenance(request_id, entry, action_hash, requested_by, names, when)
    return SemEntry(namespace, key, version, None if value is None else bytes(value), by)
