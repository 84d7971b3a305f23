"""Prove that a copy of a home is whole: compare every row, and verify every chain anew."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from typing import Final

import msgspec
from msgspec import Struct

from pointsman.access.book import rebuild
from pointsman.audit.verify import LedgerReport, verify_ledger
from pointsman.kernel.entry import Chain
from pointsman.kernel.record import OUTCOME
from pointsman.operations.store.copy import ENTRY_COLUMNS, TURN_COLUMNS, StoreCopy, read_or_nothing
from pointsman.storage.connection import Row
from pointsman.storage.copied_tables import CONTENTS, TABLES, CopiedTable
from pointsman.storage.stores.entries import LedgerReader
from pointsman.storage.stores.spend import SPEND, SpendAmounts, SpendKey
from pointsman.storage.writer.checkpoints import CheckpointFolder

_ENCODE: Final = msgspec.msgpack.Encoder().encode

LEDGER: Final = (
    CopiedTable("ledger", "chains", ("id", "name", "stamp"), ("id",)),
    CopiedTable("ledger", "entries", ENTRY_COLUMNS, ("chain", "seq")),
    CopiedTable(
        "ledger", "attachments", ("chain", "seq", "place", "body"), ("chain", "seq", "place")
    ),
)
_KEY: Final = ", ".join(SpendKey._fields)
_ADDED: Final = ", ".join(f"CAST(sum({each}) AS BIGINT)" for each in SpendAmounts._fields)
_SUMS: Final = f"SELECT {_KEY}, {_ADDED} FROM spent GROUP BY {_KEY} ORDER BY {_KEY}"  # noqa: S608 - our own names
_TURNS: Final = f"SELECT {', '.join(TURN_COLUMNS[:5])} FROM turns ORDER BY session_id"  # noqa: S608 - as above


class ComparedTable(Struct, frozen=True):
    """One table on both sides: how many rows, and a digest over all of them in order."""

    table: str
    rows: int
    copied: int
    digest: str
    copied_digest: str

    @property
    def is_equal(self) -> bool:
        """Tell whether both sides hold the same."""
        return (self.rows, self.digest) == (self.copied, self.copied_digest)


class CopyProof(Struct, frozen=True):
    """The compared tables, and how the ledger verifies from the copy alone."""

    tables: tuple[ComparedTable, ...]
    ledger: LedgerReport
    has_checkpoints: bool

    @property
    def is_whole(self) -> bool:
        """Tell whether the copy holds everything, and nothing else."""
        tables = all(each.is_equal for each in self.tables)
        return tables and self.ledger.is_intact and self.has_checkpoints


def prove(copy: StoreCopy) -> CopyProof:
    """Compare every table of a copy with its source, and verify the copied ledger."""
    return CopyProof(
        tables=tuple(_compare_tables(copy)),
        ledger=verify_ledger(copy.copied),
        has_checkpoints=has_checkpoints(copy),
    )


def prove_ledger(copy: StoreCopy) -> CopyProof:
    """Verify the copied ledger alone: the rest may have changed since it was copied."""
    return CopyProof((), verify_ledger(copy.copied), has_checkpoints(copy))


def has_checkpoints(copy: StoreCopy) -> bool:
    """Tell whether the database has every checkpoint that was signed in the home."""
    ledger = copy.source.identity.ledger
    root = copy.source.checkpoints
    with closing(copy.target.place("ledger").reading()) as reading:
        rows = reading.execute("SELECT chain, note FROM checkpoints ORDER BY chain, size")
        there = {(str(chain), str(note)) for chain, note in rows}
    return all(
        (name, text) in there
        for name in copy.source.notes.chains()
        for text in CheckpointFolder(root, Chain(ledger, name)).texts()[0]
    )


def _compare_tables(copy: StoreCopy) -> Iterator[ComparedTable]:
    for each in (*LEDGER, CONTENTS, *TABLES):
        with ExitStack() as stack:
            place, source = copy.source.place(each.place), None
            if place.exists():
                source = stack.enter_context(closing(place.reading()))
            target = stack.enter_context(closing(copy.target.place(each.place).reading()))
            target.freeze()
            yield _compare(each.title, read_or_nothing(source, each), each.read(target))
    yield _compare_turns(copy)
    yield _compare_sums(copy)


def _compare_turns(copy: StoreCopy) -> ComparedTable:
    """Compare the turns that wait for a tool, which replicas keep in another table."""
    with closing(copy.target.place("shared").reading()) as target:
        return _compare("shared.turns", copy.waiting_turns(), target.execute(_TURNS))


def _compare_sums(copy: StoreCopy) -> ComparedTable:
    """Compare the target's sums with those of the home's own entries."""
    with (
        closing(LedgerReader(copy.source.database)) as ledger,
        closing(copy.target.place(SPEND).reading()) as target,
    ):
        sums = rebuild(each.entry for each in ledger.of_kind(OUTCOME))
        own = ((*key, *sums[key]) for key in sorted(sums))
        return _compare("spend.spent", own, target.execute(_SUMS))


def _compare(title: str, source: Iterable[Row], target: Iterable[Row]) -> ComparedTable:
    (rows, digest), (copied, copied_digest) = _digest(source), _digest(target)
    return ComparedTable(title, rows, copied, digest, copied_digest)


def _digest(rows: Iterable[Row]) -> tuple[int, str]:
    """Count rows, and return a digest over them that depends on their order."""
    found, count = hashlib.sha256(), 0
    for row in rows:
        found.update(_ENCODE(row))
        count += 1
    return count, found.hexdigest()
