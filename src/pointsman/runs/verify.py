"""Is the ledger of a home what was recorded? Every chain, attachment, snapshot and checkpoint.

Reads only, and beside live writers: what they add meanwhile is neither missed nor taken for a
fault.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from types import MappingProxyType

import apsw
from msgspec import Struct

from pointsman.errors import InputError, IntegrityFailure, LedgerBroken
from pointsman.kernel.checkpoint import EVERY_ENTRIES, Checkpoint, origin, read_checkpoint
from pointsman.kernel.entry import Chain, Entry, Head
from pointsman.kernel.instant import Instant
from pointsman.kernel.merkle import Frontier
from pointsman.kernel.signing import VerifyKey
from pointsman.kernel.snapshot import SNAPSHOT, read_snapshot, verify_snapshot
from pointsman.kernel.stamp import is_stamped
from pointsman.kernel.verification import HASH_SIZE, ChainReport, Fault, FaultCode, Pass
from pointsman.storage.checkpoints import CheckpointFolder
from pointsman.storage.home import Home
from pointsman.storage.sqlite.reading import LedgerReader, Stored

Progress = Callable[[int], None]
Notes = tuple[list[str], str]
Attached = tuple[int, bytes, int | None, bytes]

PROGRESS_ENTRIES = 8192
LOWEST = -(2**63)
HIGHEST = 2**62
SIGNATURE_CHARS = 92

# What the database or one of its rows makes Python raise when somebody went round the schema.
UNREADABLE = (apsw.Error, LedgerBroken, UnicodeError, TypeError, ValueError)


class LedgerReport(Struct, frozen=True):
    """What verifying a whole ledger found: chain by chain, then the ledger's other faults."""

    ledger: str
    chains: tuple[ChainReport, ...] = ()
    others: tuple[Fault, ...] = ()

    @property
    def entries(self) -> int:
        """How many entries all chains hold."""
        return sum(report.entries for report in self.chains)

    @property
    def faults(self) -> tuple[Fault, ...]:
        """Everything found, those that name an entry of a known chain first."""
        return (*(each.fault for each in self.chains if each.fault is not None), *self.others)

    @property
    def fault(self) -> Fault | None:
        """The first fault, or nothing."""
        return next(iter(self.faults), None)

    @property
    def is_intact(self) -> bool:
        """Tell whether nothing at all is wrong."""
        return not self.faults


class FrozenReader(LedgerReader):
    """A reader that keeps seeing the moment of its first look, whatever writers do meanwhile."""

    def __init__(self, home: Home) -> None:
        super().__init__(home.database)
        try:
            self._connection.freeze()
            self._numbers = super().chains()
        except BaseException:
            self.close()
            raise

    def chains(self) -> dict[str, int]:
        """Give every chain's number by its name, as first seen."""
        return self._numbers

    def all_entries(self, number: int) -> Iterator[Entry]:
        """Give a chain's entries in order, also those that pretend to stand before the first."""
        return self.chain_entries(number, LOWEST)


class ChainNotes:
    """The checkpoint texts of one chain, read before and after the database was looked at.

    A checkpoint that was there before must be covered by the database; one that came after may
    speak of entries that came after, too.
    """

    def __init__(self, folder: CheckpointFolder) -> None:
        self.folder = folder
        self._before = _texts(folder)

    def with_later(self, end: int) -> Notes:
        """Give the texts that say something about a chain of this size."""
        (first, torn), (texts, rest) = self._before, _texts(self.folder)
        if texts[: len(first)] != first:
            return self._before
        later = [text for text in texts[len(first) :] if claimed_size(text) <= end]
        # A rest that is being written while we look says nothing yet.
        return [*first, *later], rest if (texts, rest) == (first, torn) else ""


def claimed_size(text: str) -> int:
    """Give the size a checkpoint claims, unverified; -1 when it claims none."""
    line = [*text.split("\n", 2), "", ""][1]
    return int(line) if line.isascii() and line.isdigit() and len(line) < 20 else -1


def notes_of(home: Home) -> dict[str, ChainNotes]:
    """Read the checkpoints of every chain that has some."""
    names = home.notes.chains()
    return {name: chain_notes(home, name) for name in names if _can_name(home, name)}


def chain_notes(home: Home, name: str) -> ChainNotes:
    """Read the checkpoints of one chain."""
    return ChainNotes(home.notes.of(Chain(home.identity.ledger, name)))


def verify_ledger(
    home: Home,
    progress: Progress | None = None,
    *,
    proved: Mapping[str, Checkpoint] = MappingProxyType({}),
) -> LedgerReport:
    """Verify everything a home has recorded; `progress` is told how many entries were read.

    Of a chain named in `proved`, what stands before that checkpoint was verified already.
    """
    # INVARIANT: checkpoints first. Whatever they cover was in the database before we look at it.
    notes = notes_of(home)
    others = [_unnamed(name) for name in home.notes.chains()
              if not _can_name(home, name)]  # fmt: skip
    verifier = _Verifier(home, progress, proved)
    if home.database.size() == 0:
        return verifier.report(verifier.without_database(notes), others)
    try:
        reader = FrozenReader(home)
    except UNREADABLE as error:
        others.insert(0, _damage(str(error)))
        return verifier.report(verifier.without_database(notes), others)
    try:
        chains, found = verifier.with_database(reader, notes)
    finally:
        reader.close()
    return verifier.report(chains, [*found, *others])


class _Verifier:
    def __init__(
        self, home: Home, progress: Progress | None, proved: Mapping[str, Checkpoint]
    ) -> None:
        self._home = home
        self._keys = home.keys
        self._proved = proved
        self._progress = progress
        self._read = 0

    def report(self, chains: Iterable[ChainReport], others: Iterable[Fault]) -> LedgerReport:
        return LedgerReport(self._home.identity.ledger, tuple(chains), tuple(others))

    def without_database(self, notes: dict[str, ChainNotes]) -> list[ChainReport]:
        reports = [self._gone(notes[name]) for name in sorted(notes)]
        return [report for report in reports if report is not None]

    def with_database(
        self, reader: FrozenReader, notes: dict[str, ChainNotes]
    ) -> tuple[list[ChainReport], list[Fault]]:
        reports, others = [], _ledger_faults(self._home, reader)
        forged = _forged_snapshots(reader, self._home.identity.ledger, self._keys, others)
        for name in sorted({*notes, *reader.chains()}):
            if not _can_name(self._home, name):
                others.append(_unnamed(name))
                continue
            texts = notes.get(name) or chain_notes(self._home, name)
            if name in reader.chains():
                number = reader.chains()[name]
                reports.append(self._chain(reader, number, texts, forged.get(number)))
            elif (gone := self._gone(texts)) is not None:
                reports.append(gone)
        return reports, others

    def _gone(self, notes: ChainNotes) -> ChainReport | None:
        """Report a chain that the database does not know, if it ever had an entry."""
        texts = notes.with_later(0)
        if texts == ([], ""):
            return None
        checkpoints, broken = _read_notes(notes.folder.chain, texts, self._keys)
        report = Pass(notes.folder.chain, checkpoints).run(())
        return _with_fault(report, _first_of([report.fault], broken))

    def _chain(
        self, reader: FrozenReader, number: int, notes: ChainNotes, forged: Fault | None
    ) -> ChainReport:
        chain = notes.folder.chain
        try:
            end = reader.size(number)
            texts = notes.with_later(end)
            checkpoints, broken = _read_notes(chain, texts, self._keys)
            report = self._pass(reader, number, notes.folder, checkpoints)
            values = value_fault(self._attachments(reader, number, chain.name))
            ends = None if broken else _end_fault(chain, report, reader.stamp(number), self._keys)
        except UNREADABLE as error:
            empty = Pass(chain, ()).run(())
            return _with_fault(empty, Fault(chain.name, 0, FaultCode.DATABASE_DAMAGED, str(error)))
        named = [_named(fault, chain.name) for fault in (values, forged) if fault]
        return _with_fault(report, _first_of([report.fault, *named, ends], broken))

    def _pass(
        self,
        reader: FrozenReader,
        number: int,
        folder: CheckpointFolder,
        checkpoints: Sequence[Checkpoint],
    ) -> ChainReport:
        """Run over the entries, once more if a starting writer was replacing the leaves."""
        before, leaves = self._read, folder.leaves()
        proved = self._proved.get(folder.chain.name)
        start = None if proved is None else start_at(proved)
        while True:
            self._read = before
            check = Pass(folder.chain, checkpoints, leaves, start)
            first = LOWEST if proved is None else proved.size
            try:
                report = check.run(self._counted(reader.chain_entries(number, first)))
            except (apsw.Error, LedgerBroken) as error:
                fault = Fault(
                    folder.chain.name, check.head.size, FaultCode.DATABASE_DAMAGED, str(error)
                )
                head = check.head
                return ChainReport(
                    folder.chain.name, head.size, check.frontier.size, head.hash, fault
                )
            if report.fault is None or report.fault.code is not FaultCode.LEAVES_CHANGED:
                return report
            again = folder.leaves()
            if again == leaves:
                return report
            leaves = again

    def _attachments(self, reader: FrozenReader, number: int, name: str) -> Iterator[Attached]:
        if name in self._proved:
            return reader.attachments_in(number, self._proved[name].size, HIGHEST)
        return reader.chain_attachments(number)

    def _counted(self, entries: Iterator[Entry]) -> Iterator[Entry]:
        return entries if self._progress is None else self._telling(entries, self._progress)

    def _telling(self, entries: Iterator[Entry], progress: Progress) -> Iterator[Entry]:
        for entry in entries:
            yield entry
            self._read += 1
            if self._read % PROGRESS_ENTRIES == 0:
                progress(self._read)
        progress(self._read)


def _texts(folder: CheckpointFolder) -> Notes:
    try:
        return folder.texts()
    except LedgerBroken as error:
        # Given on as a checkpoint that cannot verify, so that it is reported like any other.
        return [error.message], ""


def _read_notes(
    chain: Chain, notes: Notes, keys: Sequence[VerifyKey]
) -> tuple[list[Checkpoint], Fault | None]:
    """Verify checkpoints up to the first that is broken, and say which that is."""
    texts, rest = notes
    found: list[Checkpoint] = []
    for number, text in enumerate(texts, 1):
        size = found[-1].size if found else 0
        try:
            found.append(read_checkpoint(chain, text, keys))
            _check_step(size, found)
        except LedgerBroken as error:
            return found, _broken(chain, size, f"checkpoint {number}: {error.message}")
    if rest and not _is_torn(chain, rest):
        last = _finished(chain, rest, keys)
        if last is None:
            size = found[-1].size if found else 0
            return found, _broken(
                chain, size, f"checkpoint {len(found) + 1}: it was cut or changed"
            )
        found.append(last)
    return found, None


def _check_step(before: int, found: list[Checkpoint]) -> None:
    """Refuse a checkpoint that goes back, or so far ahead that one between was removed."""
    if not before < found[-1].size <= before + EVERY_ENTRIES:
        taken = found.pop()
        raise LedgerBroken(f"it covers {taken.size} entries, the one before it {before}")


def _is_torn(chain: Chain, rest: str) -> bool:
    """Tell whether a crash while a checkpoint was written can have left this beginning of one."""
    name = origin(chain) + "\n"
    body, _, line = rest.partition("\n\n")
    whole = len(f"\N{EM DASH} {origin(chain)} ") + SIGNATURE_CHARS
    begins = rest.startswith(name) or name.startswith(rest)
    return begins and "\N{EM DASH}" not in body and len(line) < whole


def _finished(chain: Chain, rest: str, keys: Sequence[VerifyKey]) -> Checkpoint | None:
    try:
        return read_checkpoint(chain, rest.removesuffix("\n") + "\n", keys)
    except LedgerBroken:
        return None


def _end_fault(
    chain: Chain, report: ChainReport, stamp: bytes, keys: Sequence[VerifyKey]
) -> Fault | None:
    """Tell whether the chain ends where its writer signed that it does."""
    # A pass that stopped at a fault did not reach the end.
    if report.fault or is_stamped(chain, report.entries, report.head, stamp, keys):
        return None
    message = "the chain does not end where its writer left it"
    return Fault(chain.name, report.signed, FaultCode.END_CHANGED, message)


def start_at(checkpoint: Checkpoint) -> tuple[Head, Frontier]:
    """Give where a pass goes on that begins behind a checkpoint."""
    return Head(checkpoint.size, checkpoint.head, checkpoint.at), checkpoint.frontier


def value_fault(attachments: Iterator[Attached]) -> Fault | None:
    """Compare attachments with the digests that their entries name."""
    for seq, rows in groupby(attachments, key=itemgetter(0)):
        fault = _attachment_fault(seq, [(row[1], row[2], row[3]) for row in rows])
        if fault is not None:
            return fault
    return None


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


def _forged_snapshots(
    reader: LedgerReader, ledger: str, keys: Sequence[VerifyKey], others: list[Fault]
) -> dict[int, Fault]:
    """Give, by chain number, the first snapshot that no key of the ledger signed."""
    found: dict[int, Fault] = {}
    try:
        for stored in reader.of_kind(SNAPSHOT, Instant(LOWEST)):
            fault = _snapshot_fault(reader, stored, ledger, keys)
            if fault and (stored.chain not in found or fault.seq < found[stored.chain].seq):
                found[stored.chain] = fault
    except UNREADABLE as error:
        others.append(_damage(str(error)))
    return found


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


def _ledger_faults(home: Home, reader: FrozenReader) -> list[Fault]:
    """Look at what belongs to no chain: the file itself, whose it is, and rows without a place."""
    try:
        damage = reader.damage()
        found = [_damage(damage)] if damage else []
        known = reader.ledger()
        if known != home.identity.ledger and (known or reader.chains()):
            found.append(_damage(f"the database belongs to ledger `{known}`"))
        if (stray := reader.stray()) is not None:
            found.append(_stray(reader, *stray))
    except UNREADABLE as error:
        return [_damage(str(error))]
    return found


def _stray(reader: FrozenReader, what: str, number: int, seq: int) -> Fault:
    names = {number: name for name, number in reader.chains().items()}
    code = FaultCode.ENTRY_UNLINKED if what == "entry" else FaultCode.VALUE_CHANGED
    message = f"an {what} is stored that belongs to no {'chain' if what == 'entry' else 'entry'}"
    return Fault(names.get(number, f"#{number}"), seq, code, message)


def _can_name(home: Home, name: str) -> bool:
    try:
        Chain(home.identity.ledger, name)
    except InputError:
        return False
    return True


def _unnamed(name: str) -> Fault:
    return Fault(name, 0, FaultCode.ENTRY_UNLINKED, "no writer can have named a chain like this")


def _damage(message: str) -> Fault:
    return Fault("", 0, FaultCode.DATABASE_DAMAGED, message)


def _broken(chain: Chain, seq: int, message: str) -> Fault:
    return Fault(chain.name, seq, FaultCode.CHECKPOINT_BROKEN, message)


def _named(fault: Fault, chain: str) -> Fault:
    return Fault(chain, fault.seq, fault.code, fault.message)


def _with_fault(report: ChainReport, fault: Fault | None) -> ChainReport:
    return ChainReport(report.chain, report.entries, report.signed, report.head, fault)


def _first_of(faults: Iterable[Fault | None], broken: Fault | None) -> Fault | None:
    """Choose what to name: the first entry that is wrong, else the broken checkpoint.

    Without its checkpoint an entry only looks unsigned, so the checkpoint is named then.
    """
    found = [fault for fault in faults if fault is not None]
    if broken is not None:
        found = [fault for fault in found if fault.code is not FaultCode.UNSIGNED]
        found = [*found, broken]
    return min(found, key=lambda fault: fault.seq, default=None)
