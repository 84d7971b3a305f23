"""Proving that a copy of a home holds what the home holds: every row, and every chain anew."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from typing import Final

import msgspec
from msgspec import Struct

from pointsman.access.book import SPEND
from pointsman.access.spent import rebuild
from pointsman.audit.verify import LedgerReport, verify_ledger
from pointsman.kernel.entry import Chain
from pointsman.kernel.record import OUTCOME
from pointsman.operations.store_copy import ENTRY_COLUMNS, TURN_COLUMNS, StoreCopy, read_or_nothing
from pointsman.storage.connection import Row
from pointsman.storage.copied_tables import CONTENTS, TABLES, CopiedTable
from pointsman.storage.stores.entries import LedgerReader
from pointsman.storage.stores.spend import SpendAmounts, SpendKey
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


class Compared(Struct, frozen=True):
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


class Proof(Struct, frozen=True):
    """What was compared, and how the ledger verifies from the copy alone."""

    tables: tuple[Compared, ...]
    ledger: LedgerReport
    has_checkpoints: bool

    @property
    def is_whole(self) -> bool:
        """Tell whether the copy holds everything, and nothing else."""
        tables = all(each.is_equal for each in self.tables)
        return tables and self.ledger.is_intact and self.has_checkpoints


def prove(copy: StoreCopy) -> Proof:
    """Compare every table of a copy with its source, and verify the copied ledger."""
    return Proof(
        tables=tuple(_compared(copy)),
        ledger=verify_ledger(copy.copied),
        has_checkpoints=has_checkpoints(copy),
    )


def prove_ledger(copy: StoreCopy) -> Proof:
    """Verify the copied ledger alone: the rest may have changed since it was copied."""
    return Proof((), verify_ledger(copy.copied), has_checkpoints(copy))


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


def _compared(copy: StoreCopy) -> Iterator[Compared]:
    for each in (*LEDGER, CONTENTS, *TABLES):
        with ExitStack() as stack:
            place, source = copy.source.place(each.place), None
            if place.exists():
                source = stack.enter_context(closing(place.reading()))
            target = stack.enter_context(closing(copy.target.place(each.place).reading()))
            target.freeze()
            rows, digest = _digest(read_or_nothing(source, each))
            yield Compared(each.title, rows, *_swapped(digest, _digest(each.read(target))))
    yield _compared_turns(copy)
    yield _compared_sums(copy)


def _compared_turns(copy: StoreCopy) -> Compared:
    """Compare the turns that wait for a tool, which replicas keep in another table."""
    with closing(copy.target.place("shared").reading()) as target:
        rows, digest = _digest(copy.waiting_turns())
        return Compared("shared.turns", rows, *_swapped(digest, _digest(target.execute(_TURNS))))


def _compared_sums(copy: StoreCopy) -> Compared:
    """Compare what the target adds up with what the home's own entries come to."""
    with (
        closing(LedgerReader(copy.source.database)) as ledger,
        closing(copy.target.place(SPEND).reading()) as target,
    ):
        sums = rebuild(each.entry for each in ledger.of_kind(OUTCOME))
        rows, digest = _digest((*key, *sums[key]) for key in sorted(sums))
        return Compared("spend.spent", rows, *_swapped(digest, _digest(target.execute(_SUMS))))


def _swapped(digest: str, copied: tuple[int, str]) -> tuple[int, str, str]:
    return copied[0], digest, copied[1]


def _digest(rows: Iterable[Row]) -> tuple[int, str]:
    """Count rows, and give a digest over them that depends on their order."""
    found, count = hashlib.sha256(), 0
    for row in rows:
        found.update(_ENCODE(row))
        count += 1
    return count, found.hexdigest()
