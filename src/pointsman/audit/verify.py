"""Verify the ledger of a home: every chain, attachment, snapshot and checkpoint.

Reads only, and beside live writers: entries they add meanwhile are neither missed nor taken for
faults.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

import apsw
from msgspec import Struct

from pointsman.audit.chain_notes import (
    ChainNotes,
    can_name,
    chain_notes,
    notes_of,
    read_notes,
    start_at,
)
from pointsman.audit.frozen_reader import HIGHEST, LOWEST, FrozenReader
from pointsman.audit.stored_faults import (
    UNREADABLE,
    Attached,
    damage_fault,
    database_faults,
    forged_snapshots,
    value_fault,
)
from pointsman.audit.witnessed import (
    ChainProof,
    CosignedTree,
    WitnessTerms,
    cosigned_trees,
    prove_chain,
    stamps_by_origin,
    witness_faults,
)
from pointsman.errors import ForeignKey, HomeError, LedgerBroken
from pointsman.kernel.checkpoint import Checkpoint, origin
from pointsman.kernel.entry import Chain, Entry
from pointsman.kernel.instant import Instant, read_instant
from pointsman.kernel.rotation import KeyRotation
from pointsman.kernel.signing import VerifyKey, is_stamped, signed_size
from pointsman.kernel.verification import ChainReport, Fault, FaultCode, Pass
from pointsman.storage.home import Home
from pointsman.storage.sqlite.database import check_reachable
from pointsman.storage.writer.checkpoints import CheckpointFolder

Progress = Callable[[int], None]

PROGRESS_ENTRIES = 8192


class Doubt(Struct, frozen=True):
    """Entries that a key signed while it may have been in other hands; the key after it vouches."""

    chain: str
    first: int
    last: int
    message: str


class LedgerReport(Struct, frozen=True):
    """The result of verifying a whole ledger: chain by chain, then the ledger's other faults.

    `proofs` tell for each chain against whom its ranges are proven. `before` counts the entries
    that an earlier proof vouches for: they were last read at `whole_at`, and not again.
    """

    ledger: str
    chains: tuple[ChainReport, ...] = ()
    others: tuple[Fault, ...] = ()
    doubts: tuple[Doubt, ...] = ()
    proofs: tuple[ChainProof, ...] = ()
    before: int = 0
    whole_at: str = ""

    @property
    def entries(self) -> int:
        """How many entries all chains hold."""
        return sum(report.entries for report in self.chains)

    @property
    def faults(self) -> tuple[Fault, ...]:
        """All faults, those that name an entry of a known chain first."""
        return (*(each.fault for each in self.chains if each.fault is not None), *self.others)

    @property
    def fault(self) -> Fault | None:
        """The first fault, or nothing."""
        return next(iter(self.faults), None)

    @property
    def is_intact(self) -> bool:
        """Tell whether nothing at all is wrong."""
        return not self.faults


def verify_ledger(
    home: Home,
    progress: Progress | None = None,
    *,
    proved: Mapping[str, Checkpoint] = MappingProxyType({}),
    terms: WitnessTerms = WitnessTerms(),  # noqa: B008 - it is frozen
    is_continued: bool = False,
) -> LedgerReport:
    """Verify everything a home has recorded; `progress` is called with how many entries were read.

    Of a chain named in `proved`, the entries before that checkpoint were verified already. `terms`
    are the witnesses whose word is compared with the chains. A verification that `is_continued`
    does not look at every page of the database, nor for rows of no chain.
    """
    try:
        return _verify(home, progress, proved, terms, is_continued=is_continued)
    except OSError as error:
        check_reachable(error)
        raise


def _verify(
    home: Home,
    progress: Progress | None,
    proved: Mapping[str, Checkpoint],
    terms: WitnessTerms,
    *,
    is_continued: bool,
) -> LedgerReport:
    # INVARIANT: checkpoints first. The entries they cover were in the database before we look.
    notes = notes_of(home)
    others = [_name_fault(name) for name in home.notes.chains()
              if not can_name(home, name)]  # fmt: skip
    others += _key_faults(home)
    verifier = _Verifier(home, progress, proved, terms)
    if home.database.size() == 0:
        return verifier.report(verifier.without_database(notes), others)
    try:
        reader = FrozenReader(home)
    except UNREADABLE as error:
        others.insert(0, damage_fault(error, where=home.database))
        return verifier.report(verifier.without_database(notes), others)
    try:
        chains, found = verifier.with_database(reader, notes, is_continued=is_continued)
    finally:
        reader.close()
    return verifier.report(chains, [*found, *others])


class _Verifier:
    def __init__(
        self,
        home: Home,
        progress: Progress | None,
        proved: Mapping[str, Checkpoint],
        terms: WitnessTerms,
    ) -> None:
        self._home = home
        self._terms = terms
        self._roots: dict[str, dict[int, bytes]] = {}
        self._trees: list[CosignedTree] = []
        self._stamps: dict[str, tuple[int, Instant]] = {}
        self._keys = home.keys
        self._proved = proved
        self._progress = progress
        self._doubts: list[Doubt] = []
        self._read = 0

    def report(self, chains: Sequence[ChainReport], others: Sequence[Fault]) -> LedgerReport:
        """Compare the chains with the word of witnesses, and report all of it."""
        ledger = self._home.identity.ledger
        differing = witness_faults(ledger, chains, self._roots, self._trees)
        told = []
        for report in chains:
            fault = differing.pop(report.chain, None)
            told.append(_with_fault(report, report.fault or fault))
        others = [*others, *differing.values()]
        proofs = tuple(map(self._proof, told))
        return LedgerReport(ledger, tuple(told), tuple(others), tuple(self._doubts), proofs)

    def _proof(self, report: ChainReport) -> ChainProof:
        chain = Chain(self._home.identity.ledger, report.chain)
        stamped = self._stamps.get(origin(chain))
        return prove_chain(chain, report, self._trees, self._terms.quorum, stamped)

    def _hear_witnesses(self, reader: FrozenReader | None) -> None:
        try:
            self._trees = cosigned_trees(reader, self._terms)
            self._stamps = stamps_by_origin(reader)
        except UNREADABLE:  # the pass over the entries names the damage
            self._trees = cosigned_trees(None, self._terms)

    def without_database(self, notes: dict[str, ChainNotes]) -> list[ChainReport]:
        self._hear_witnesses(None)
        reports = [self._lost_chain(notes[name]) for name in sorted(notes)]
        return [report for report in reports if report is not None]

    def with_database(
        self, reader: FrozenReader, notes: dict[str, ChainNotes], *, is_continued: bool
    ) -> tuple[list[ChainReport], list[Fault]]:
        reports, others = [], database_faults(self._home, reader, is_continued=is_continued)
        self._hear_witnesses(reader)
        forged = forged_snapshots(reader, self._home.identity.ledger, self._keys, others)
        for name in sorted({*notes, *reader.chains()}):
            if not can_name(self._home, name):
                others.append(_name_fault(name))
                continue
            texts = notes.get(name) or chain_notes(self._home, name)
            if name in reader.chains():
                number = reader.chains()[name]
                reports.append(self._chain(reader, number, texts, forged.get(number)))
            elif (gone := self._lost_chain(texts)) is not None:
                reports.append(gone)
        return reports, others

    def _lost_chain(self, notes: ChainNotes) -> ChainReport | None:
        """Report a chain that the database does not know, if it ever had an entry."""
        texts = notes.with_later(0)
        if texts == ([], ""):
            return None
        checkpoints, broken = read_notes(notes.folder.chain, texts, self._keys)
        report = Pass(notes.folder.chain, checkpoints).run(())
        return _with_fault(report, _first_of([report.fault], broken))

    def _chain(
        self, reader: FrozenReader, number: int, notes: ChainNotes, forged: Fault | None
    ) -> ChainReport:
        chain = notes.folder.chain
        try:
            end = reader.size(number)
            texts = notes.with_later(end)
            checkpoints, broken = read_notes(chain, texts, self._keys)
            self._doubts += _doubts(chain.name, checkpoints, self._home.identity.rotations)
            report = self._pass(reader, number, notes.folder, checkpoints)
            self._roots[chain.name] = {
                each.size: each.root for each in checkpoints if each.size <= report.signed
            }
            values = value_fault(self._attachments(reader, number, chain.name))
            ends = None if broken else _end_fault(chain, report, reader.stamp(number), self._keys)
        except UNREADABLE as error:
            empty = Pass(chain, ()).run(())
            return _with_fault(empty, damage_fault(error, chain.name))
        named = [_with_chain(fault, chain.name) for fault in (values, forged) if fault]
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
                report = check.run(self._count_entries(reader.chain_entries(number, first)))
            except (apsw.Error, LedgerBroken) as error:
                check_reachable(error, self._home.database)
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

    def _count_entries(self, entries: Iterator[Entry]) -> Iterator[Entry]:
        return entries if self._progress is None else self._report_entries(entries, self._progress)

    def _report_entries(self, entries: Iterator[Entry], progress: Progress) -> Iterator[Entry]:
        for entry in entries:
            yield entry
            self._read += 1
            if self._read % PROGRESS_ENTRIES == 0:
                progress(self._read)
        progress(self._read)


def _doubts(
    chain: str, checkpoints: Sequence[Checkpoint], rotations: Sequence[KeyRotation]
) -> Iterator[Doubt]:
    """Name what a compromised key signed: entries behind the last checkpoint before its time."""
    for rotation in rotations:
        if not rotation.compromised_since:
            continue
        since, end = read_instant(rotation.compromised_since), rotation.chains.get(chain, 0)
        proved = [each.size for each in checkpoints if each.at <= since and each.size <= end]
        first = max(proved, default=0)
        if first < end:
            message = (
                f"signed by a key that was compromised since {rotation.compromised_since}; the"
                f" key after it vouches for them as they stood at {rotation.at}"
            )
            yield Doubt(chain, first, end - 1, message)


def _end_fault(
    chain: Chain, report: ChainReport, stamp: bytes, keys: Sequence[VerifyKey]
) -> Fault | None:
    """Tell whether the chain ends where its writer signed that it does."""
    # A pass that stopped at a fault did not reach the end.
    if report.fault:
        return None
    if is_stamped(chain, report.entries, report.head, stamp, keys):
        covered = signed_size(stamp)
        if covered <= report.signed:
            return None
        message = f"checkpoints up to entry {covered - 1} were signed and are gone"
        return Fault(chain.name, report.signed, FaultCode.CHECKPOINT_MISSING, message)
    message = "the chain does not end where its writer left it"
    return Fault(chain.name, report.signed, FaultCode.END_CHANGED, message)


def _key_faults(home: Home) -> list[Fault]:
    """Report a signing key that is not the home's; a copy without secret keys is complete."""
    try:
        home.signing_key()
    except ForeignKey as error:
        return [Fault("", 0, FaultCode.KEY_FOREIGN, error.message)]
    except HomeError:  # `doctor` looks at the file
        return []
    return []


def _name_fault(name: str) -> Fault:
    return Fault(name, 0, FaultCode.ENTRY_UNLINKED, "no writer can have named a chain like this")


def _with_chain(fault: Fault, chain: str) -> Fault:
    return Fault(chain, fault.seq, fault.code, fault.message)


def _with_fault(report: ChainReport, fault: Fault | None) -> ChainReport:
    return ChainReport(report.chain, report.entries, report.signed, report.head, fault)


def _first_of(faults: Iterable[Fault | None], broken: Fault | None) -> Fault | None:
    """Choose the fault to name: the first entry that is wrong, else the broken checkpoint.

    Without its checkpoint an entry only looks unsigned, so the checkpoint is named then.
    """
    found = [fault for fault in faults if fault is not None]
    if broken is not None:
        found = [fault for fault in found if fault.code is not FaultCode.UNSIGNED]
        found = [*found, broken]
    return min(found, key=lambda fault: fault.seq, default=None)
