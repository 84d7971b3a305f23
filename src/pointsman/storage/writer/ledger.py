"""The ledger's writer: one chain, one thread, group commit, signed checkpoints outside.

Hashing, chaining and verification are the kernel's, the rows a database's; this module makes the
ones durable in the other, and stops writing, saying why, when it cannot.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from queue import SimpleQueue
from typing import cast

from msgspec import Struct

from pointsman.errors import (
    ChainHeld,
    LedgerBroken,
    LedgerError,
    LedgerRolledBack,
    LedgerUnavailable,
)
from pointsman.kernel.checkpoint import (
    EVERY_ENTRIES,
    EVERY_SECONDS,
    Checkpoint,
    signed_checkpoint,
)
from pointsman.kernel.entry import Chain, Draft, Entry, Head, check_draft, head_after, next_entry
from pointsman.kernel.merkle import Frontier, append_leaves
from pointsman.kernel.signing import SigningKey, VerifyKey, is_stamped, signed_size, stamp
from pointsman.kernel.verification import ChainReport, FaultCode, Pass
from pointsman.storage.writer.chain_rows import EntryGroup, Fence, KeptText, LedgerPlace
from pointsman.storage.writer.group import MOST, CommitPolicy, GroupCommit, Waiter

TAIL_ENTRIES = 10_000
RETRY_S = 0.25


class Receipt(Struct, frozen=True):
    """Where an entry stands; holding one means the entry is durable."""

    chain: str
    entry: Entry


Listener = Callable[[Sequence[Entry], float], None]
"""Takes the entries just made durable and the seconds it took; called from the commit thread."""


Making = Callable[[], Draft]
"""Makes an entry; called when its group is committed."""


class Health(Struct, frozen=True):
    """Whether the ledger takes entries, and if not, why."""

    is_writable: bool
    cause: str = ""


class _WithText(Struct, frozen=True):
    """An entry, and a text that is durable with it or not at all."""

    entry: Draft | Making
    text: KeptText


_Item = Draft | Making | _WithText


class LedgerWriter:
    """Appends to one chain. The caller holds the chain's lease."""

    def __init__(  # noqa: PLR0913 - each is one thing that only the caller knows
        self,
        place: LedgerPlace,
        chain: Chain,
        key: SigningKey,
        opening: Draft,
        *,
        older_keys: Sequence[VerifyKey] = (),
        rotations: Sequence[Draft] = (),
        policy: CommitPolicy | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.chain = chain
        self._keys = (*older_keys, key)
        self._monotonic = monotonic
        self._key = key
        self._opening = opening
        self._rows = place.rows(chain)
        self._failures: tuple[type[Exception], ...] = (*self._rows.failures, LedgerError)
        self.listener: Listener | None = None
        self._cause = ""
        self._retry_at = 0.0
        self._unsigned_since = monotonic()
        try:
            self._open()
        except self._rows.damages as error:
            raise LedgerBroken(f"the database is damaged: {error}") from error
        except self._rows.failures as error:
            raise LedgerUnavailable(f"the ledger cannot be opened: {_describe(error)}") from error
        self._group: GroupCommit[_Item, EntryGroup, Receipt] = GroupCommit(
            f"ledger-{chain.name}",
            self._commit,
            self._housekeep,
            _resolve,
            self._chain_group,
            policy,
        )
        if self._head.size == 0:
            self._begin(opening)
        for draft in rotations[self._last_signer :]:
            # From here on another key signs than before: the chain says so itself.
            self._begin(draft)

    @property
    def health(self) -> Health:
        """Tell whether entries are taken now."""
        cause = self._cause or self._group.closed_reason
        return Health(not cause, cause)

    @property
    def size(self) -> int:
        """How many durable entries the chain has."""
        return self._head.size

    @property
    def received_count(self) -> int:
        """How many entries were received so far."""
        return self._group.received_count

    @property
    def settled_count(self) -> int:
        """How many of them, in the order they came, are durable or were refused."""
        return self._group.settled_count

    def append(self, draft: Draft) -> Future[Receipt]:
        """Append an entry; the future has its receipt once it is durable."""
        check_draft(draft)
        return self._group.append(draft)

    def record_under(self, draft: Draft, fence: Fence) -> Receipt:
        """Record an entry that rests on a lease; durable when this returns.

        By itself, in one transaction with a look at the lease: `LeaseLost` means that nothing was
        written.
        """
        check_draft(draft)
        return self._group.commit_alone(lambda: self._commit(self._chain_group([draft]), fence)[0])

    @property
    def keeps_texts(self) -> bool:
        """Whether a text may be handed in with its entry."""
        return self._rows.is_remote

    def hand_in(self, draft: Draft | Making, waiter: Waiter, text: KeptText | None = None) -> None:
        """Hand in an entry; the waiter gets its receipt once it is durable, a text with it.

        A function that makes the entry is called by the writer thread with all of its group, which
        takes half the time; while the writer is idle, it is called here and now.
        """
        if isinstance(draft, Draft):
            check_draft(draft)
        elif self._group.is_idle:
            draft = _resolve_draft(draft)
        self._group.hand_in(draft if text is None else _WithText(draft, text), waiter)

    def note(self, draft: Draft | Making) -> None:
        """Note an entry: it has no waiter, and is durable a moment later."""
        if isinstance(draft, Draft):
            check_draft(draft)
        self._group.note(draft)

    def begin_commit(self, started: SimpleQueue[None]) -> bool:
        """Begin a deferred commit; True where `started` will be told that it is being written."""
        # Only the writer thread reopens and verifies a database that is down, and only it signs:
        # it may be signing now.
        is_up = not self._cause and not self._rows.is_lost
        room = EVERY_ENTRIES - (self._tip.size - self._frontier.size)
        # A connection that is waited on cannot be asked whether it is lost: answers look the same.
        alone = self._rows.is_remote
        return is_up and self._group.begin_commit(started, room, alone=alone)

    def close(self) -> None:
        """Write and sign all pending entries, and close the database.

        A ledger that is down is closed as it is: the next writer verifies and signs its entries.
        """
        self._group.close()
        if self._cause:
            self._rows.let_go()
            return
        try:
            if self._pending:
                self._sign_at_rest()
        except LedgerBroken:
            raise
        except self._failures as error:
            raise LedgerUnavailable(
                f"all is recorded, but the last checkpoint could not be signed: {_describe(error)}",
                hint="the next start signs it",
            ) from error
        finally:
            self._rows.close()

    def _begin(self, opening: Draft) -> None:
        try:
            self.append(opening).result()
        except BaseException:
            self.close()
            raise

    def _open(self, acknowledged: Head | None = None) -> None:
        """Open and verify; after a failure, also make sure of all acknowledged entries."""
        try:
            self._rows.open()
            self._head, self._frontier, self._pending = self._checked_tail()
            self._tip = self._head
            if acknowledged is not None:
                self._secure(acknowledged)
            if self._pending:
                # What a crash left unsigned is signed before anything is added.
                self._sign_at_rest()
        except BaseException:
            self._rows.let_go()
            raise

    def _secure(self, acknowledged: Head) -> None:
        """Make sure that acknowledged entries are stored, and do not rest on the failed write."""
        last = next(self._rows.entries(acknowledged.size - 1), None) if acknowledged.size else None
        if acknowledged.size and (last is None or last.hash != acknowledged.hash):
            raise LedgerBroken("acknowledged entries are gone", where=self.chain.name)
        self._rows.secure()

    def _checked_tail(self) -> tuple[Head, Frontier, list[bytes]]:
        """Verify the end of the chain against its checkpoints, as it is on disk."""
        back_to = self._rows.size() - TAIL_ENTRIES
        checkpoints = self._rows.checkpoints.tail(self._keys, back_to=back_to)
        is_long = bool(checkpoints) and checkpoints[0].size <= back_to
        start = _start_of(checkpoints[0]) if is_long else None
        first = start[0].size if start else 0
        check = Pass(self.chain, checkpoints, start=start)
        entries = list(self._rows.entries(first))
        report = check.run(entries)
        if report.fault is not None and report.fault.code is FaultCode.TRUNCATED:
            raise LedgerRolledBack(
                f"the database ends before its last checkpoint: {report.fault.message}",
                where=f"{self.chain.name}/{report.fault.seq}",
                hint="restore the newest database, or keep this one aside and start a new home",
            )
        if report.fault is not None:
            raise LedgerBroken(
                report.fault.message,
                where=f"{self.chain.name}/{report.fault.seq}",
                hint="run `pointsman verify` to see every chain",
            )
        self._stamp = self._rows.stamp()
        if not is_stamped(self.chain, report.entries, report.head, self._stamp, self._keys):
            raise LedgerBroken(
                "the chain does not end where its writer left it",
                where=f"{self.chain.name}/{report.signed}",
                hint="run `pointsman verify` to see every chain",
            )
        self._last_signer = self._find_signer(report)
        if signed_size(self._stamp) > report.signed:
            raise LedgerBroken(
                "checkpoints that were signed are gone",
                where=f"{self.chain.name}/{report.signed}",
                hint="put the folder `checkpoints` back; `pointsman verify` names the gap",
            )
        if report.signed > first:
            covered = [entry.hash for entry in entries[: report.signed - first]]
            self._rows.checkpoints.keep_leaves(covered, before=first)
        return check.head, check.frontier, check.pending

    def _find_signer(self, report: ChainReport) -> int:
        """Return the place of the key that signed where the chain ends; the newest for none."""
        for place, key in enumerate(self._keys):
            if report.entries and is_stamped(
                self.chain, report.entries, report.head, self._stamp, [key]
            ):
                return place
        return len(self._keys) - 1

    def _chain_group(self, items: Sequence[_Item]) -> EntryGroup:
        """Put a group at the end of the chain, behind one that is still written; writes nothing."""
        texts = [each.text for each in items if isinstance(each, _WithText)]
        bare = [each.entry if isinstance(each, _WithText) else each for each in items]
        return self._chain_drafts(cast("Sequence[Draft]", bare), texts)

    def _chain_drafts(self, drafts: Sequence[Draft], texts: Sequence[KeptText]) -> EntryGroup:
        # A server that went and came back between two writes costs no caller an answer.
        if self._cause or self._rows.is_lost:
            self._resume()
        began = self._monotonic()
        # No checkpoint covers the entries between `_frontier` and `_tip` yet.
        if self._tip.size - self._frontier.size + len(drafts) > EVERY_ENTRIES:
            # Signing comes with rests, and not every group is followed by one.
            self._sign_or_stop()
        head, entries = self._tip, []
        for draft in drafts:
            entries.append(next_entry(self.chain, head, draft))
            head = head_after(entries[-1])
        self._tip, last = head, entries[-1]
        signed = stamp(self.chain, last.seq + 1, last.hash, self._key, self._frontier.size)
        return EntryGroup(began, entries, drafts, signed, texts)

    def _commit(self, group: EntryGroup, fence: Fence | None = None) -> list[Receipt]:
        """Make a group durable, or raise without having acknowledged any of it."""
        if group.entries[0].prev != self._head.hash:
            # The one before it failed, or the chain was opened anew: it stands at no end.
            self._tip = self._head
            group = self._chain_drafts(group.drafts, group.texts)
        entries = group.entries
        try:
            self._rows.append(group, self._group.announce_start, fence)
        except self._failures as error:
            self._settle_doubt(entries[-1], error)
        else:
            self._head, self._stamp = head_after(entries[-1]), group.stamp
            if not self._pending:
                self._unsigned_since = self._monotonic()
            self._pending.extend(entry.hash for entry in entries)
        if self.listener is not None:
            self.listener(entries, self._monotonic() - group.began)
        return [Receipt(self.chain.name, entry) for entry in entries]

    def _settle_doubt(self, last: Entry, error: Exception) -> None:
        """Return only when a group whose commit went unanswered is found in the database."""
        if not self._rows.is_in_doubt(error):
            raise self._stop_error(error) from error
        try:
            self._open_again()
        except self._failures as why:
            raise self._stop_error(why) from error
        if self._head.hash != last.hash:
            raise LedgerUnavailable(f"nothing was acknowledged: {_describe(error)}") from error

    def _housekeep(self) -> float | None:
        """Sign when a checkpoint is due, or try to go on; give the seconds until the next time."""
        if self._cause:
            with suppress(LedgerUnavailable):
                self._resume()
            return RETRY_S if self._cause else None
        try:
            self._rows.tend()
            waited = self._monotonic() - self._unsigned_since
            # A further group must still fit under the promised number of unsigned entries.
            if len(self._pending) <= EVERY_ENTRIES - MOST and waited < EVERY_SECONDS:
                return EVERY_SECONDS - waited if self._pending else None
            if self._pending and waited < EVERY_SECONDS:
                self._sign()  # the next commit, which is soon, stamps how far it reaches
            elif self._pending:
                self._sign_at_rest()
        except self._failures as error:
            self._stop(error)
            return RETRY_S
        return None

    def _sign_or_stop(self) -> None:
        try:
            self._sign()
        except self._failures as error:
            raise self._stop_error(error) from error

    def _sign(self) -> None:
        """Sign a checkpoint over the stored entries, whose hashes must be those in memory."""
        if self._rows.hashes(self._frontier.size) != b"".join(self._pending).hex().upper():
            raise LedgerBroken("what is stored is not what was written", where=self.chain.name)
        frontier = append_leaves(self._frontier, self._pending)
        text = signed_checkpoint(self.chain, frontier, self._head.hash, self._head.at, self._key)
        self._rows.checkpoints.append(text, self._pending, before=self._frontier.size)
        self._frontier, self._pending = frontier, []

    def _sign_at_rest(self) -> None:
        """Sign a checkpoint, and stamp how far checkpoints reach: no commit may come to do it."""
        self._sign()
        after = stamp(self.chain, self._head.size, self._head.hash, self._key, self._frontier.size)
        self._rows.restamp(self._stamp, after)
        self._stamp = after

    def _stop(self, error: Exception) -> None:
        self._cause = _describe(error)
        self._retry_at = self._monotonic() + RETRY_S

    def _stop_error(self, error: Exception) -> LedgerUnavailable:
        self._stop(error)
        return self._unavailable()

    def _unavailable(self) -> LedgerUnavailable:
        return LedgerUnavailable(
            f"nothing was acknowledged: {self._cause}",
            hint="entries are taken again once the cause is gone",
        )

    def _resume(self) -> None:
        """Go on after a failure: open anew, verify the tail, and lose nothing acknowledged."""
        if self._monotonic() < self._retry_at:
            raise self._unavailable()
        try:
            self._open_again()
        except ChainHeld as error:
            self._move(error)
        except self._failures as error:
            raise self._stop_error(error) from error
        self._cause = ""
        if self._head.size == 0:
            self._commit(self._chain_group([self._opening]))

    def _move(self, held: ChainHeld) -> None:
        """Go on in another chain: another process has taken over this one and its entries."""
        try:
            chain = self._rows.move()
            if chain is None:
                raise held
            self.chain = chain
            self._open()
        except self._failures as error:
            raise self._stop_error(error) from error

    def _open_again(self) -> None:
        before = self._head, self._frontier, self._pending
        try:
            self._rows.let_go()
            self._open(self._head)
        except self._failures:
            self._head, self._frontier, self._pending = before
            raise


def _describe(error: Exception) -> str:
    return str(error) if isinstance(error, LedgerError) else f"{type(error).__name__}: {error}"


def _start_of(checkpoint: Checkpoint) -> tuple[Head, Frontier]:
    head = Head(checkpoint.size, checkpoint.head, checkpoint.at)
    return head, checkpoint.frontier


def _resolve(item: _Item) -> _Item:
    if isinstance(item, _WithText):
        return _WithText(_resolve_draft(item.entry), item.text)
    return _resolve_draft(item)


def _resolve_draft(item: Draft | Making) -> Draft:
    if isinstance(item, Draft):
        return item
    draft = item()
    check_draft(draft)
    return draft
