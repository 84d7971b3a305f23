"""Bulk verification: a chain checked between two of its signed checkpoints.

A checkpoint carries the tree and the head it was signed over, so a range between two of them can be
checked without the entries before it. The end of each chain, and rows of no chain, are
checked when all ranges are: as `verify` does it, from the last checkpoint that is proved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing

from msgspec import Struct

from pointsman.audit.chain_notes import chain_notes, claimed_size, start_at
from pointsman.audit.frozen_reader import LOWEST
from pointsman.audit.ranges import ChainSize, Range, plan_ranges
from pointsman.audit.stored_faults import UNREADABLE, value_fault
from pointsman.audit.verify import LedgerReport, verify_ledger
from pointsman.bulk.work import BulkKind, BulkResult, value_of
from pointsman.errors import LedgerBroken
from pointsman.kernel.checkpoint import Checkpoint, read_checkpoint
from pointsman.kernel.entry import Chain, Entry
from pointsman.kernel.verification import HASH_SIZE, Fault, FaultCode, Pass
from pointsman.storage.home import Home
from pointsman.storage.stores.entries import LedgerReader

RANGE = 20_000


class VerifyGiven(Struct, frozen=True):
    """The length of a range; nothing else is to be chosen."""

    length: int = RANGE


class VerifyPart(Struct, frozen=True):
    """Whether the entries between two checkpoints fit the signatures."""

    chain: str
    first: int
    end: int
    fault: Fault | None


class _VerifyWorker:
    def __init__(self, home: Home, _given: VerifyGiven) -> None:
        self._home = home
        self._ledger = LedgerReader(home.database)

    def close(self) -> None:
        self._ledger.close()

    def part(self, each: Range) -> VerifyPart:
        chain = Chain(self._home.identity.ledger, each.chain)
        try:
            fault = self._fault(chain, each)
        except LedgerBroken as error:
            fault = Fault(each.chain, each.first, FaultCode.CHECKPOINT_BROKEN, error.message)
        except UNREADABLE as error:
            fault = Fault(each.chain, each.first, FaultCode.DATABASE_DAMAGED, str(error))
        return VerifyPart(each.chain, each.first, each.end, fault)

    def _fault(self, chain: Chain, each: Range) -> Fault | None:
        checkpoints = _read_checkpoints(self._home, chain, each.first, each.end)
        start = start_at(checkpoints[0]) if each.first else None
        # The first range also looks for entries that pretend to stand before the first.
        first = each.first or LOWEST
        hashes: list[bytes] = []
        entries = _collect_hashes(self._ledger.entries_in(each.number, first, each.end), hashes)
        found = Pass(chain, checkpoints, None, start).run(entries).fault
        if found is not None:
            return found
        kept = _leaves(self._home, each)
        if kept is not None and kept != b"".join(hashes):
            message = "the leaves file beside the checkpoints was changed"
            return Fault(each.chain, each.first, FaultCode.LEAVES_CHANGED, message)
        return value_fault(self._ledger.attachments_in(each.number, first, each.end))


def _collect_hashes(entries: Iterator[Entry], hashes: list[bytes]) -> Iterator[Entry]:
    for entry in entries:
        hashes.append(entry.hash)
        yield entry


def _read_checkpoints(home: Home, chain: Chain, first: int, end: int) -> list[Checkpoint]:
    """Return the checkpoints from one size to another, verified; both must be there."""
    texts, _ = chain_notes(home, chain.name).with_later(end)
    found = [
        read_checkpoint(chain, text, home.keys)
        for text in texts
        if first <= claimed_size(text) <= end
    ]
    sizes = [each.size for each in found]
    if sizes[-1:] != [end] or (first and sizes[0] != first) or sizes != sorted({*sizes}):
        raise LedgerBroken(f"the checkpoints from {first} to {end} are not what they were")
    return found


def _leaves(home: Home, each: Range) -> bytes | None:
    """Read the leaves of a range from the file beside the checkpoints, where there is one."""
    path = home.checkpoints / each.chain / "leaves"
    if not path.exists():
        return None
    with path.open("rb") as file:
        file.seek(each.first * HASH_SIZE)
        return file.read(each.entries * HASH_SIZE)


def _plan_verification(home: Home, given: VerifyGiven) -> list[Range]:
    if not home.database.exists():
        return []
    with closing(LedgerReader(home.database)) as ledger:
        sizes = [
            _checkpointed_size(home, name, n, ledger.size(n)) for name, n in ledger.chains().items()
        ]
    return plan_ranges(sizes, given.length)


def _checkpointed_size(home: Home, name: str, number: int, size: int) -> ChainSize:
    """Return a chain up to its last checkpoint, to be split at checkpoints."""
    texts, _ = chain_notes(home, name).with_later(size)
    cuts = tuple(sorted({cut for cut in map(claimed_size, texts) if 0 < cut <= size}))
    return ChainSize(name, number, cuts[-1] if cuts else 0, cuts)


def _proved_checkpoints(home: Home, parts: Sequence[VerifyPart]) -> dict[str, Checkpoint]:
    """Return of each chain the last checkpoint before which nothing is wrong."""
    ends: dict[str, int] = {}
    for each in parts:
        if each.fault is None and each.first == ends.get(each.chain, 0):
            ends[each.chain] = each.end
    return {
        name: _read_checkpoints(home, Chain(home.identity.ledger, name), end, end)[0]
        for name, end in ends.items()
    }


def _conclude(home: Home, _given: VerifyGiven, parts: Sequence[VerifyPart]) -> BulkResult:
    try:
        proved = _proved_checkpoints(home, parts)
    except LedgerBroken:
        # The checkpoints were changed meanwhile: all ranges they proved are verified again.
        proved = {}
    report = verify_ledger(home, proved=proved)
    return BulkResult(report.is_intact, _report_line(report), value_of(_value(report)))


def _report_line(report: LedgerReport) -> str:
    if report.fault is not None:
        fault = report.fault
        return f"{fault.chain}/{fault.seq}: {fault.code}: {fault.message}"
    return f"{report.entries} entries in {len(report.chains)} chains, intact"


def _value(report: LedgerReport) -> dict[str, object]:
    chains = [
        {"chain": each.chain, "entries": each.entries, "signed": each.signed,
         "head": each.head.hex(), "fault": each.fault}
        for each in report.chains
    ]  # fmt: skip
    return {
        "ledger": report.ledger,
        "is_intact": report.is_intact,
        "entries": report.entries,
        "chains": chains,
        "faults": report.faults,
    }


VERIFY = BulkKind("verify", (VerifyGiven, VerifyPart), _plan_verification, _VerifyWorker, _conclude)
