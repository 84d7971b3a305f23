"""Verify a chain: one pass over its entries against its signed checkpoints.

Pure: reading rows and files is the caller's business. The offline verifier is written separately,
on purpose, and shares nothing with this module but the format.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from struct import error as PackingError  # noqa: N812 - it is an error class with a bare name

from msgspec import Struct

from pointsman.kernel.checkpoint import EVERY_ENTRIES, Checkpoint
from pointsman.kernel.entry import Chain, Entry, Head, empty_head, entry_bytes, head_after
from pointsman.kernel.merkle import Frontier, append_leaves, leaf_hash, root

HASH_SIZE = 32


class FaultCode(StrEnum):
    """The faults a chain can have."""

    ENTRY_MISSING = "ledger.entry_missing"
    ENTRY_CHANGED = "ledger.entry_changed"
    ENTRY_UNLINKED = "ledger.entry_unlinked"
    TRUNCATED = "ledger.truncated"
    REWRITTEN = "ledger.rewritten"
    UNSIGNED = "ledger.unsigned"
    END_CHANGED = "ledger.end_changed"
    LEAVES_CHANGED = "ledger.leaves_changed"
    CHECKPOINT_BROKEN = "ledger.checkpoint_broken"
    CHECKPOINT_MISSING = "ledger.checkpoint_missing"
    KEY_FOREIGN = "ledger.key_foreign"
    VALUE_CHANGED = "ledger.value_changed"
    VALUE_MISSING = "ledger.value_missing"
    SNAPSHOT_FORGED = "ledger.snapshot_forged"
    WITNESS_DIFFERS = "ledger.witness_differs"
    WITNESS_AHEAD = "ledger.witness_ahead"
    DATABASE_DAMAGED = "ledger.database_damaged"


class Fault(Struct, frozen=True):
    """One thing wrong, with the first entry it touches."""

    chain: str
    seq: int
    code: FaultCode
    message: str


class ChainReport(Struct, frozen=True):
    """What a pass over one chain found."""

    chain: str
    entries: int
    signed: int
    head: bytes
    fault: Fault | None


class _Broken(Exception):
    def __init__(self, seq: int, code: FaultCode, message: str) -> None:
        super().__init__(message)
        self.seq, self.code, self.message = seq, code, message


class Pass:
    """One pass over a chain, in order.

    Afterwards `head`, `frontier` and `pending` tell where it arrived: what a writer goes on from.
    """

    def __init__(
        self,
        chain: Chain,
        checkpoints: Sequence[Checkpoint],
        leaves: bytes | None = None,
        start: tuple[Head, Frontier] | None = None,
    ) -> None:
        self.chain = chain
        self.head, self.frontier = start or (empty_head(chain), Frontier())
        self._checkpoints = [each for each in checkpoints if each.size > self.head.size]
        self._signed = checkpoints[-1].size if checkpoints else 0
        self._has_all_leaves = leaves is None or len(leaves) >= self._signed * HASH_SIZE
        self._leaves = (leaves or b"")[: self._signed * HASH_SIZE]
        self.pending: list[bytes] = []  # hashes past the last checkpoint that was reached
        # The first entry whose kept leaf differs: among the pending ones, and among those that a
        # checkpoint has since proved right, so that the leaf and not the entry was changed.
        self._suspect: int | None = None
        self._false_leaf: int | None = None
        self._reached = self.head.size

    def run(self, entries: Iterable[Entry]) -> ChainReport:
        """Check every entry; the report names the first that differs from its record."""
        fault = None
        try:
            self._check_entries(entries)
            self._check_end()
        except _Broken as broken:
            fault = Fault(self.chain.name, broken.seq, broken.code, broken.message)
        except (PackingError, UnicodeError, TypeError, AttributeError) as error:
            # Only a writer that bypassed the schema can have stored values no entry can hold.
            message = f"it cannot be read: {error}"
            fault = Fault(self.chain.name, self.head.size, FaultCode.ENTRY_CHANGED, message)
        return ChainReport(self.chain.name, self.head.size, self._reached, self.head.hash, fault)

    def _check_entries(self, entries: Iterable[Entry]) -> None:
        prefix, head, pending = self.chain.prefix, self.head, self.pending
        stop = self._next_stop()
        for entry in entries:
            if entry.seq != head.size or entry.prev != head.hash:
                self._refuse_link(entry)
            if leaf_hash(entry_bytes(prefix, entry)) != entry.hash:
                self._refuse(entry.seq, FaultCode.ENTRY_CHANGED, "it is not what was recorded")
            pending.append(entry.hash)
            self.head = head = head_after(entry)
            if head.size == stop:
                self._check_checkpoint()
                pending = self.pending
                stop = self._next_stop()

    def _next_stop(self) -> int:
        return self._checkpoints[0].size if self._checkpoints else -1

    def _check_checkpoint(self) -> None:
        checkpoint = self._checkpoints.pop(0)
        before = self.frontier.size
        self._compare_leaves()
        self.frontier = append_leaves(self.frontier, self.pending)
        self.pending = []
        if root(self.frontier) != checkpoint.root:
            seq = before if self._suspect is None else self._suspect
            message = f"entries from here to {checkpoint.size - 1} are not what was signed"
            raise _Broken(seq, FaultCode.REWRITTEN, message)
        self._reached = checkpoint.size
        if self._false_leaf is None:
            self._false_leaf = self._suspect
        self._suspect = None

    def _compare_leaves(self) -> None:
        start = self.frontier.size * HASH_SIZE
        found = b"".join(self.pending)
        kept = self._leaves[start : start + len(found)]
        if found[: len(kept)] != kept:
            self._suspect = self.frontier.size + _first_difference(found, kept)

    def _check_end(self) -> None:
        size = self.head.size
        if size < self._signed:
            message = f"entries {size} to {self._signed - 1} were signed and are gone"
            self._refuse(size, FaultCode.TRUNCATED, message)
        if size - self._reached > EVERY_ENTRIES:
            message = f"only {self._reached} of {size} entries are covered by a checkpoint"
            raise _Broken(self._reached, FaultCode.UNSIGNED, message)
        if self._false_leaf is None and not self._has_all_leaves:
            self._false_leaf = len(self._leaves) // HASH_SIZE
        if self._false_leaf is not None:
            message = (
                "the leaves file beside the checkpoints was changed; the entries are as signed"
            )
            raise _Broken(self._false_leaf, FaultCode.LEAVES_CHANGED, message)

    def _refuse_link(self, entry: Entry) -> None:
        expected = self.head.size
        if entry.seq > expected:
            self._refuse(expected, FaultCode.ENTRY_MISSING, f"the next one here is {entry.seq}")
        self._refuse(entry.seq, FaultCode.ENTRY_UNLINKED, "it does not follow the one before it")

    def _refuse(self, seq: int, code: FaultCode, message: str) -> None:
        # An entry rewritten together with its own hash shows only in the leaves that were signed.
        self._compare_leaves()
        if self._suspect is not None and self._suspect < seq:
            seq, code, message = self._suspect, FaultCode.REWRITTEN, "it is not what was signed"
        raise _Broken(seq, code, message)


def _first_difference(found: bytes, kept: bytes) -> int:
    for index in range(0, len(kept), HASH_SIZE):
        if found[index : index + HASH_SIZE] != kept[index : index + HASH_SIZE]:
            return index // HASH_SIZE
    raise AssertionError("the two are equal")  # pragma: no cover - callers compare first
