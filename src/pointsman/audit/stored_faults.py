"""Faults of a ledger's database beside its chains of entries: changed attachments, snapshots
without a signature, rows without a place, and the file itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter

import apsw

from pointsman.audit.frozen_reader import LOWEST, FrozenReader
from pointsman.errors import IntegrityFailure, LedgerBroken
from pointsman.kernel.instant import Instant
from pointsman.kernel.rotation import covering
from pointsman.kernel.signing import VerifyKey
from pointsman.kernel.snapshot import SNAPSHOT, read_snapshot, verify_snapshot
from pointsman.kernel.verification import HASH_SIZE, Fault, FaultCode
from pointsman.storage.home import Home
from pointsman.storage.sqlite.database import check_reachable
from pointsman.storage.stores.entries import LedgerReader, Stored

Attached = tuple[int, bytes, int | None, bytes]
"""The seq of an entry, the digests it names, and the place and body of one attachment."""

# Raised by the database or one of its rows where a writer went round the schema.
UNREADABLE = (apsw.Error, LedgerBroken, UnicodeError, TypeError, ValueError)


def value_fault(attachments: Iterator[Attached]) -> Fault | None:
    """Compare attachments with the digests that their entries name."""
    for seq, rows in groupby(attachments, key=itemgetter(0)):
        fault = _attachment_fault(seq, [(row[1], row[2], row[3]) for row in rows])
        if fault is not None:
            return fault
    return None


def forged_snapshots(
    reader: LedgerReader, ledger: str, keys: Sequence[VerifyKey], others: list[Fault]
) -> dict[int, Fault]:
    """Return, by chain number, the first snapshot that no key of the ledger signed."""
    found: dict[int, Fault] = {}
    try:
        names = {number: name for name, number in reader.chains().items()}
        for stored in reader.of_kind(SNAPSHOT, Instant(LOWEST)):
            current = covering(keys, names.get(stored.chain, ""), stored.entry.seq)
            fault = _snapshot_fault(reader, stored, ledger, current)
            if fault and (stored.chain not in found or fault.seq < found[stored.chain].seq):
                found[stored.chain] = fault
    except UNREADABLE as error:
        others.append(damage_fault(error))
    return found


def database_faults(home: Home, reader: FrozenReader, *, is_continued: bool) -> list[Fault]:
    """Check the file itself, which ledger it belongs to, and rows that belong to no chain.

    The first and the last take a look at everything: a continued verification leaves them out.
    """
    try:
        damage = "" if is_continued else reader.damage()
        found = [damage_fault(damage)] if damage else []
        known = reader.ledger()
        if known != home.identity.ledger and (known or reader.chains()):
            found.append(damage_fault(f"the database belongs to ledger `{known}`"))
        if not is_continued and (stray := reader.stray()) is not None:
            found.append(_stray_fault(reader, *stray))
    except UNREADABLE as error:
        return [damage_fault(error)]
    return found


def damage_fault(cause: str | Exception, chain: str = "", where: object = "") -> Fault:
    """Return the fault of a damaged database, or raise `LedgerUnreadable` for one out of reach."""
    if isinstance(cause, Exception):
        check_reachable(cause, where)
    return Fault(chain, 0, FaultCode.DATABASE_DAMAGED, str(cause))


def _attachment_fault(seq: int, rows: list[tuple[bytes, int | None, bytes]]) -> Fault | None:
    attached = rows[0][0]
    bodies = {place: body for _, place, body in rows if place is not None}
    count = len(attached) // HASH_SIZE
    for place in range(count):
        digest = attached[place * HASH_SIZE : (place + 1) * HASH_SIZE]
        if place not in bodies:
            return Fault("", seq, FaultCode.VALUE_MISSING, f"its attachment {place} is gone")
        if hashlib.sha256(bodies.pop(place)).digest() != digest:
            message = f"its attachment {place} is not what was recorded"
            return Fault("", seq, FaultCode.VALUE_CHANGED, message)
    if bodies:
        message = f"an attachment {min(bodies)} is stored that it does not name"
        return Fault("", seq, FaultCode.VALUE_CHANGED, message)
    return None


def _snapshot_fault(
    reader: LedgerReader, stored: Stored, ledger: str, keys: Sequence[VerifyKey]
) -> Fault | None:
    if stored.entry.kind != SNAPSHOT:
        return None
    bodies = reader.attachments(stored)
    try:
        verify_snapshot(read_snapshot(stored.entry, b"".join(bodies[:1])), ledger, keys)
    except (IntegrityFailure, ValueError) as error:
        return Fault("", stored.entry.seq, FaultCode.SNAPSHOT_FORGED, str(error))
    return None


def _stray_fault(reader: FrozenReader, what: str, number: int, seq: int) -> Fault:
    names = {number: name for name, number in reader.chains().items()}
    code = FaultCode.ENTRY_UNLINKED if what == "entry" else FaultCode.VALUE_CHANGED
    message = f"an {what} is stored that belongs to no {'chain' if what == 'entry' else 'entry'}"
    return Fault(names.get(number, f"#{number}"), seq, code, message)
