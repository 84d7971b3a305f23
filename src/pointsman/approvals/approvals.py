"""Action requests: recorded, voted on, and executed at most once.

Every event of a request is recorded under one lock, over all processes that share the ledger: the
request is read, the fold says which event may follow, the entry is made durable unless the lock was
lost meanwhile, and the fold over the recorded entries has the last word.

After a crash: before the claim nothing was done, and the request is unchanged. Between claim and
outcome it is `executing`, and it is unknown whether the effect happened. Nothing then happens by
itself: an admin has it executed `again`, which is safe because every effect knows its request, or
writes it `off`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from pointsman.access.keyring import ACCESS
from pointsman.approvals.effects import NOT_HERE, Effects
from pointsman.approvals.proposal import ActionProposal, RequestBuilder
from pointsman.approvals.record import (
    ActionRecord,
    actions_about,
    actions_since,
    read_action,
    request_draft,
    step_draft,
)
from pointsman.errors import (
    ActionRefused,
    InputError,
    NotFound,
    PermissionDenied,
    SemNotFound,
    VoteDenied,
)
from pointsman.governance.action import (
    LONGEST_TEXT,
    LONGEST_WINDOW,
    SYSTEM,
    ActionRefusal,
    ActionRequest,
    Actor,
)
from pointsman.governance.state import (
    ActionEvent,
    ActionState,
    ActionStep,
    StepKind,
    fold_action,
    refusal,
)
from pointsman.governance.votes import Choice
from pointsman.kernel.canonical import ContentId
from pointsman.kernel.entry import Draft
from pointsman.kernel.instant import EPOCH, Clock, IdSource, Instant
from pointsman.recording.decision_recorder import DecisionRecorder
from pointsman.storage.home import Home
from pointsman.storage.sqlite.database import told_errors
from pointsman.storage.stores.access import AccessStore
from pointsman.storage.stores.entries import LedgerReader
from pointsman.storage.writer.chain_rows import HeldLease
from pointsman.storage.writer.ledger import Receipt

LOCK = "actions"
REVOKED = "its key was revoked"

_DENIED = (ActionRefusal.OWN_REQUEST, ActionRefusal.NOT_A_VOTER)


class _StepDetails(Struct, frozen=True):
    """The fields of an event besides actor and time; None as the hash means the request's own."""

    choice: Choice | None = None
    claim: str = ""
    note: str = ""
    action_hash: str | None = None


_NO_DETAILS = _StepDetails()


class _HeldLock(threading.local):
    """The lease under which a thread holds the lock."""

    lease: HeldLease


class Approvals:
    """The requests of one home. May be shared by threads, and by processes that share the home."""

    def __init__(
        self,
        home: Home,
        decision_recorder: DecisionRecorder,
        sources: tuple[Clock, IdSource],
        effects: Effects,
    ) -> None:
        self._home = home
        self._decision_recorder = decision_recorder
        self._clock, self._ids = sources
        self._effects = effects
        self._builder = RequestBuilder(home, sources)
        self._held = _HeldLock()

    def request(self, wanted: ActionProposal, by: Actor) -> ActionState:
        """Record a request, durably; one that is recorded already is returned."""
        request, body = self._builder.build(wanted, by)
        self._effects.check(request, body)
        with self._locked_ledger() as ledger:
            if wanted.request_id:
                known = _find_action(ledger, wanted.request_id)
                if known is not None:
                    return _check_same(known.state, request)
            self._append(request_draft(request, body))
        return fold_action(request, ())

    def subject(self, wanted: ActionProposal) -> ContentId:
        """Return the subject of a proposal, by which requests for it are found."""
        return self._builder.build(wanted, SYSTEM)[0].subject

    def state(self, request_id: str) -> ActionState:
        """Return the state of a request; past its deadline it has expired, recorded or not."""
        return self._as_of_now(self.record(request_id).state)

    def record(self, request_id: str) -> ActionRecord:
        """Read a request with its payload and every event."""
        with self._ledger() as ledger:
            return read_action(ledger, request_id)

    def list_since(self, since: Instant = EPOCH) -> list[ActionState]:
        """List the requests made since an instant, the oldest first."""
        if not self._home.database.exists():
            return []
        with self._ledger() as ledger:
            found = actions_since(ledger, since)
        return [self._as_of_now(each.state) for each in found]

    def vote(
        self, request_id: str, choice: Choice, action_hash: str, by: Actor, note: str = ""
    ) -> ActionState:
        """Record a vote; the one that approves the request also executes it."""
        with self._locked_ledger() as ledger:
            record = self._withdraw_revoked(read_action(ledger, request_id))
            said = _StepDetails(
                choice, note=self._builder.note(record, note), action_hash=action_hash
            )
            record = self._advance(self._step(record, "voted", by, said))
            if record.state.status == "approved" and _is_executed_here(record.state):
                record = self._execute(record, by)
            return record.state

    def execute(self, request_id: str, by: Actor) -> ActionState:
        """Execute an approved request: once, however often it is called."""
        with self._locked_ledger() as ledger:
            record = self._advance(read_action(ledger, request_id))
            if not _is_executed_here(record.state):
                raise _refusal_error(ActionRefusal.NOT_HERE)
            return self._execute(record, by).state

    def settle(
        self, request_id: str, by: Actor, how: Literal["again", "off"], note: str = ""
    ) -> ActionState:
        """End a request whose executor died: execute it again, or write it off. For admins."""
        if by.role != "admin":
            raise PermissionDenied("only an admin may settle what was left open")
        with self._locked_ledger() as ledger:
            record = read_action(ledger, request_id)
            if record.state.status != "executing":
                raise _refusal_error(ActionRefusal.NOT_CLAIMED)
            claim = record.state.claim
            if how == "again" and _is_executed_here(record.state):
                done = self._effects.carry_out(request_id, claim)
                return self._step(
                    record, "executed", by, _StepDetails(claim=claim, note=done.note)
                ).state
            told = f"written off: {self._builder.note(record, note)}"
            return self._step(record, "failed", by, _StepDetails(claim=claim, note=told)).state

    def cancel(self, request_id: str, by: Actor, note: str = "") -> ActionState:
        """Cancel a request: for its requester and for admins, until it is executed."""
        with self._locked_ledger() as ledger:
            record = read_action(ledger, request_id)
            said = _StepDetails(note=self._builder.note(record, note))
            return self._step(record, "cancelled", by, said).state

    def expire(self) -> list[str]:
        """Record the expiry of every open request past its deadline; return their ids."""
        if not self._home.database.exists():
            return []
        since = Instant(max(0, self._clock.now() - 2 * LONGEST_WINDOW))
        with self._locked_ledger() as ledger:
            return [
                record.state.request.request_id
                for record in actions_since(ledger, since)
                if self._advance(record).state.status == "expired" != record.state.status
            ]

    def resume_all(self) -> list[ActionState]:
        """Finish the work a crash left: count recorded votes, execute approved requests.

        A request that was claimed is left alone: see `settle`.
        """
        if not self._home.database.exists():
            return []
        since = Instant(max(0, self._clock.now() - 2 * LONGEST_WINDOW))
        done = []
        with self._locked_ledger() as ledger:
            for record in actions_since(ledger, since):
                now = self._advance(record)
                if now.state.status == "approved" and _is_executed_here(now.state):
                    now = self._execute(now, SYSTEM)
                if now.state != record.state:
                    done.append(now.state)
        return done

    def about(self, subject: ContentId) -> list[ActionState]:
        """List the requests about one subject, by any requester, the oldest first."""
        with self._locked_ledger() as ledger:
            return [self._as_of_now(each.state) for each in actions_about(ledger, subject)]

    def claim(self, request_ids: Sequence[str], by: Actor, claim: str) -> bool:
        """Claim approved requests, all or none, for an effect elsewhere that happens once."""
        with self._locked_ledger() as ledger:
            records = [self._advance(read_action(ledger, each)) for each in request_ids]
            said = _StepDetails(claim=claim)
            events = [self._event("claimed", each, by, said) for each in records]
            if any(refusal(r.state, e) is not None for r, e in zip(records, events, strict=True)):
                return False
            for record in records:
                self._step(record, "claimed", by, said)
        return True

    def mark_executed(self, request_ids: Sequence[str], by: Actor, claim: str, note: str) -> None:
        """Record that claimed requests are executed."""
        with self._locked_ledger() as ledger:
            for each in request_ids:
                said = _StepDetails(claim=claim, note=note)
                self._step(read_action(ledger, each), "executed", by, said)

    def _execute(self, record: ActionRecord, by: Actor) -> ActionRecord:
        claim = self._ids.new_id()
        # INVARIANT: the claim is durable before anything is done, and the fold let it in.
        record = self._step(record, "claimed", by, _StepDetails(claim=claim))
        try:
            note = self._effects.carry_out(record.state.request.request_id, claim).note
        except (InputError, SemNotFound, ActionRefused) as error:
            # These mean that nothing was done. After any other failure that is unknown: it stays
            # claimed.
            return self._step(record, "failed", by, _StepDetails(claim=claim, note=str(error)))
        return self._step(record, "executed", by, _StepDetails(claim=claim, note=note))

    def _advance(self, record: ActionRecord) -> ActionRecord:
        """Record the result of votes or the deadline, where it is not recorded yet."""
        if record.state.status_at(self._now(record)) == "expired" != record.state.status:
            return self._step(record, "expired", SYSTEM)
        record = self._withdraw_revoked(record)
        state = record.state
        if state.status != "pending" or state.tally.result == "open":
            return record
        if state.tally.result == "rejected":
            return self._step(record, "rejected", SYSTEM)
        if not state.is_noticed and (
            state.request.required_approval_type == "admin_plus_council_notice"
        ):
            record = self._step(record, "noticed", SYSTEM)
        return self._step(record, "approved", SYSTEM)

    def _withdraw_revoked(self, record: ActionRecord) -> ActionRecord:
        """Withdraw the votes whose keys were revoked before the request was decided."""
        state = record.state
        if state.status != "pending" or state.is_over(self._now(record)):
            return record
        for key_id in self._revoked_keys([each.by.id for each in state.votes]):
            if record.state.tally.result == "open":
                said = _StepDetails(claim=key_id, note=REVOKED)
                record = self._step(record, "withdrawn", SYSTEM, said)
        return record

    def _revoked_keys(self, key_ids: Sequence[str]) -> list[str]:
        if not key_ids:
            return []
        with closing(AccessStore(self._home.place(ACCESS))) as store:
            revoked = {each.id for each in store.every_key() if each.revoked_at is not None}
        return [each for each in key_ids if each in revoked]

    def _step(
        self, record: ActionRecord, kind: StepKind, by: Actor, said: _StepDetails = _NO_DETAILS
    ) -> ActionRecord:
        """Record an event that may happen, or raise why it may not."""
        event = self._event(kind, record, by, said)
        if record.state.status == "disputed":
            raise ActionRefused(f"the request is disputed: {record.state.note}")
        reason = refusal(record.state, event)
        if reason is not None:
            raise _refusal_error(reason)
        draft = step_draft(kind, event.id, event.at, event.step)
        # The ledger's instant counts, and it may be later than ours.
        event = replace(event, at=self._append(draft).entry.at)
        events = (*record.events, event)
        state = fold_action(record.state.request, events)
        if state.void != record.state.void:
            raise _refusal_error(state.void[-1].reason)
        return replace(record, state=state, events=events, last_at=event.at)

    def _event(
        self, kind: StepKind, record: ActionRecord, by: Actor, said: _StepDetails
    ) -> ActionEvent:
        request = record.state.request
        step = ActionStep(
            request.request_id,
            record.state.events + 1,
            by,
            request.action_hash if said.action_hash is None else said.action_hash,
            said.choice,
            said.claim,
            said.note[:LONGEST_TEXT],
        )
        return ActionEvent(kind, self._ids.new_id(), self._now(record), step)

    def _as_of_now(self, state: ActionState) -> ActionState:
        return replace(state, status=state.status_at(self._clock.now()))

    def _now(self, record: ActionRecord) -> Instant:
        # INVARIANT: a request's time never goes back, whatever the clock does.
        return max(self._clock.now(), record.last_at)

    def _append(self, draft: Draft) -> Receipt:
        """Record an entry under the lock; fails where the lock was lost meanwhile."""
        return self._decision_recorder.recorder().record_under(self._held.lease, draft)

    @contextmanager
    def _locked_ledger(self) -> Iterator[LedgerReader]:
        """Wait for the lock, and read the ledger under it."""
        # The recorder first: opening it may take long, and makes the ledger that is read.
        self._decision_recorder.recorder()
        lease = self._held.lease = self._home.lease(LOCK, waits=True)
        try:
            with self._ledger() as ledger:
                yield ledger
        finally:
            lease.release()

    @contextmanager
    def _ledger(self) -> Iterator[LedgerReader]:
        if not self._home.database.exists():
            raise NotFound("no action was ever requested here")
        path = self._home.database
        with told_errors(path), closing(LedgerReader(path)) as ledger:
            yield ledger


def _find_action(ledger: LedgerReader, request_id: str) -> ActionRecord | None:
    try:
        return read_action(ledger, request_id)
    except NotFound:
        return None


def _check_same(known: ActionState, request: ActionRequest) -> ActionState:
    """Return the recorded request, if its subject is the same."""
    if known.request.subject != request.subject:
        raise ActionRefused(f"`{request.request_id}` is another request already")
    return known


def _is_executed_here(state: ActionState) -> bool:
    return state.request.action_type not in NOT_HERE


def _refusal_error(reason: ActionRefusal) -> ActionRefused:
    kind = VoteDenied if reason in _DENIED else ActionRefused
    return kind(reason.meaning, reason=reason)
