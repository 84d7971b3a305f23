"""Reading the ledger: by id, by kind, chain by chain. Never writes, and takes no lease."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import apsw
from msgspec import Struct

from pointsman.errors import IntegrityFailure, LedgerError, MissingSnapshot
from pointsman.kernel.canonical import content_id
from pointsman.kernel.content import Sealed, seal_text
from pointsman.kernel.entry import Entry
from pointsman.kernel.instant import EPOCH, Instant
from pointsman.kernel.snapshot import SNAPSHOT, Snapshot, read_snapshot
from pointsman.storage.place import Where
from pointsman.storage.sqlite.database import SQL, check_reachable
from pointsman.storage.sqlite.place import place_of

AT_ONCE = 100
"""So many texts, or things by their names, are read by one statement."""

_MARKS = f"({', '.join('?' * AT_ONCE)})"
_SEVERAL = SQL["get_contents"].replace("(?)", _MARKS)
_ENDS = SQL["ends_and_verdicts"].replace("(?)", _MARKS)
_WHY_NOT = {"redacted": "was kept only in redacted form", "erased": "was erased"}


class Stored(Struct, frozen=True):
    """An entry and the number of the chain it stands in."""

    chain: int
    entry: Entry


class LedgerReader:
    """A view of the ledger as it is now."""

    def __init__(self, where: Where) -> None:
        self._connection = place_of(where).reading()

    def close(self) -> None:
        """Let go of the database."""
        self._connection.close()

    def ledger(self) -> str:
        """Return the id of the ledger the database belongs to."""
        row = self._connection.execute(SQL["read_meta"], ("ledger",)).fetchone()
        return str(row[0]) if row else ""

    def chains(self) -> dict[str, int]:
        """Return every chain's number by its name."""
        rows = self._connection.execute(SQL["list_chains"])
        return {str(name): int(number) for number, name in rows}

    def chain_entries(self, number: int, first: int = 0) -> Iterator[Entry]:
        """Return a chain's entries in order."""
        rows = self._connection.stream(SQL["chain_entries"], (number, first))
        return (Entry(*row) for row in rows)

    def of_kind(self, prefix: str, since: Instant = EPOCH) -> Iterator[Stored]:
        """Return the entries whose kind begins like this, in the order they happened."""
        rows = self._connection.stream(SQL["entries_of_kind"], (prefix, prefix + "\x7f", since))
        return (stored_entry(row) for row in rows)

    def decisions(
        self, number: int, first: int, end: int, since: Instant = EPOCH
    ) -> Iterator[tuple[Entry, bytes | None]]:
        """Return a chain's decisions in a range of entries, each with its facts."""
        rows = self._connection.stream(SQL["decisions_in_range"], (number, first, end, since))
        return ((Entry(*row[:-1]), row[-1]) for row in rows)

    def entries_in(self, number: int, first: int, end: int, prefix: str = "") -> Iterator[Entry]:
        """Return a chain's entries in a range whose kind begins like this, in order."""
        bound = (number, first, end, prefix, prefix + "\x7f")
        rows = self._connection.stream(SQL["entries_in_range"], bound)
        return (Entry(*row) for row in rows)

    def size(self, number: int) -> int:
        """Return the number of the entry that would come next in a chain."""
        return int(self._connection.execute(SQL["chain_size"], (number,)).get)

    def stamp(self, number: int) -> bytes:
        """Return the signature over a chain's end."""
        return bytes(self._connection.execute(SQL["read_stamp"], (number,)).get)

    def newest(self, kind: str) -> Stored | None:
        """Return the latest entry of a kind."""
        row = self._connection.execute(SQL["newest_of_kind"], (kind,)).fetchone()
        return stored_entry(row) if row else None

    def count(self, kind: str) -> int:
        """Count the entries of a kind."""
        return int(self._connection.execute(SQL["count_of_kind"], (kind,)).get)

    def recent(self, kind: str, before: Instant, most: int) -> list[Stored]:
        """Return the latest entries of a kind before an instant, the newest first."""
        rows = self._connection.execute(SQL["recent_of_kind"], (kind, before, most))
        return [stored_entry(row) for row in rows]

    def with_id(self, name: str) -> list[Stored]:
        """Return the entries with this id."""
        return [
            stored_entry(row) for row in self._connection.execute(SQL["entries_with_id"], (name,))
        ]

    def with_ref(self, ref: str) -> list[Stored]:
        """Return the entries that belong to this."""
        return [
            stored_entry(row) for row in self._connection.execute(SQL["entries_with_ref"], (ref,))
        ]

    def ends_and_verdicts(self, refs: Sequence[str]) -> Iterator[tuple[str, str, str, bytes]]:
        """Yield the ends, verdicts and further decisions that belong to these, in their order.

        Of each: kind, id, what it belongs to, and its payload.
        """
        for start in range(0, len(refs), AT_ONCE):
            asked = refs[start : start + AT_ONCE]
            yield from self._connection.execute(_ENDS, (*asked, *[""] * (AT_ONCE - len(asked))))

    def mentioning(self, kind: str, text: bytes) -> Stored | None:
        """Return the newest entry of a kind whose payload holds these bytes; reads all of them."""
        rows = self._connection.execute(SQL["newest_mentioning"], (kind, text))
        return next((stored_entry(row) for row in rows), None)

    def mentioning_all(self, text: bytes) -> Iterator[Stored]:
        """Return every entry whose payload holds these bytes; reads all of them."""
        rows = self._connection.stream(SQL["all_mentioning"], (text,))
        return (stored_entry(row) for row in rows)

    def attachments(self, stored: Stored) -> list[bytes]:
        """Return what an entry carries."""
        rows = self._connection.execute(SQL["entry_attachments"], (stored.chain, stored.entry.seq))
        return [bytes(row[0]) for row in rows]

    def attachment(self, stored: Stored, name: str) -> bytes:
        """Return the attachment with this content id."""
        bodies = self.attachments(stored)
        for body in bodies:
            if content_id(body) == name:
                return body
        if bodies:
            raise IntegrityFailure(f"what is stored as `{name}` holds other bytes")
        raise MissingSnapshot(f"`{name}` is not stored")

    def snapshot(self, name: str) -> Snapshot:
        """Return a snapshot by its content id; the caller verifies its signature."""
        for stored in self.with_id(name):
            if stored.entry.kind == SNAPSHOT:
                return read_snapshot(stored.entry, self.attachment(stored, name))
        raise MissingSnapshot(f"the snapshot `{name}` is not stored")

    def chain_attachments(self, number: int) -> Iterator[tuple[int, bytes, int | None, bytes]]:
        """Give, for every entry that names or has attachments: seq, digests, place, body."""
        return iter(self._connection.stream(SQL["chain_attachments"], (number,)))

    def attachments_in(
        self, number: int, first: int, end: int
    ) -> Iterator[tuple[int, bytes, int | None, bytes]]:
        """Return the same for the entries of a range."""
        return iter(self._connection.stream(SQL["attachments_in_range"], (number, first, end)))

    def stray(self) -> tuple[str, int, int] | None:
        """Return a row that belongs to no chain or entry: what, chain number, seq."""
        return self._connection.execute(SQL["stray_rows"]).fetchone()

    def damage(self) -> str:
        """Return the database's own complaint about its content, or nothing."""
        return self._connection.damage()


def database_damage(where: Where) -> str:
    """Return the database's own complaint about what a store holds, or nothing."""
    try:
        connection = place_of(where).reading()
    except (apsw.Error, LedgerError) as error:
        check_reachable(error, where)
        return str(error)
    try:
        return connection.damage()
    finally:
        connection.close()


class ContentReader:
    """A view of the kept texts."""

    def __init__(self, where: Where, key: bytes) -> None:
        self._key = key
        self._connection = place_of(where).reading() if where.exists() else None
        self._expected: frozenset[str] = frozenset()
        self._ahead: dict[str, tuple[str, bytes]] = {}

    def close(self) -> None:
        """Let go of the database."""
        if self._connection is not None:
            self._connection.close()

    def expect(self, digests: Iterable[str]) -> None:
        """Say which texts may be asked for soon: the first that is, brings all of them along."""
        self._expected, self._ahead = frozenset(digests), {}

    def text(self, seal: Sealed) -> str:
        """Return the whole text, or raise the reason why it is not kept."""
        kept, data = self._row(seal)
        if kept != "full":
            raise MissingSnapshot(f"the message text {_WHY_NOT[kept]}")
        text = data.decode("utf-8", "surrogatepass")
        if seal_text(text, self._key) != seal:
            raise MissingSnapshot("the message text is not the one that was sealed")
        return text

    def displayed_text(self, seal: Sealed) -> str:
        """Return the kept part of a text for showing, redacted or not."""
        kept, data = self._row(seal)
        if kept == "erased":
            raise MissingSnapshot(f"the message text {_WHY_NOT[kept]}")
        return data.decode("utf-8", "surrogatepass")

    def _row(self, seal: Sealed) -> tuple[str, bytes]:
        row = self._ahead.get(seal.digest)
        try:
            if row is None and seal.digest in self._expected:
                self._fetch()
                row = self._ahead.get(seal.digest)
            if row is None and self._connection is not None:
                row = self._connection.execute(SQL["get_content"], (seal.digest,)).fetchone()
        except (apsw.Error, LedgerError) as error:
            raise MissingSnapshot(f"the message text cannot be read: {error}") from error
        if row is None:
            raise MissingSnapshot("the message text was not kept")
        return str(row[0]), bytes(row[1])

    def _fetch(self) -> None:
        """Read all that is expected, in few statements: a server answers each after a while."""
        names, self._expected = sorted(self._expected), frozenset()
        if self._connection is None:
            return
        for start in range(0, len(names), AT_ONCE):
            asked = names[start : start + AT_ONCE]
            rows = self._connection.execute(_SEVERAL, (*asked, *[""] * (AT_ONCE - len(asked))))
            self._ahead.update({name: (kept, data) for name, kept, data in rows})


def stored_entry(row: tuple[object, ...]) -> Stored:
    """Return a row as an entry and its chain."""
    chain, *rest = row
    return Stored(chain, Entry(*rest))  # type: ignore[arg-type]  # STRICT tables fix the types
