"""Requests for actions: recorded, voted on, and carried out at most once.

Everything that happens to a request happens inside one turnstile, over all processes that share the
ledger: it is read, the fold says what may follow, the entry is made durable unless another came in
meanwhile, and the fold over what was recorded has the last word.

What a crash leaves. Before the claim nothing was done, and the request stands as it stood. Between
claim and outcome it is `executing`, and nobody knows whether the effect happened. Nothing is then
done by itself: an admin has it carried out `again`, which is safe because every effect knows its
request, or writes it `off`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from pointsman.access.keyring import ACCESS
from pointsman.approvals.action_making import Making, Wanted
from pointsman.approvals.action_record import (
    ActionRecord,
    actions_about,
    actions_since,
    found_action,
    request_draft,
    step_draft,
)
from pointsman.approvals.effects import NOT_HERE, Effects
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
    ActionRequest,
    Actor,
)
from pointsman.governance.refusal import Refusal
from pointsman.governance.state import (
    ActionState,
    Event,
    Step,
    StepKind,
    folded,
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

TURNSTILE = "actions"
REVOKED = "its key was revoked"

_DENIED = (Refusal.OWN_REQUEST, Refusal.NOT_A_VOTER)


class _Said(Struct, frozen=True):
    """What an event says besides who and when; without a hash it is about the request's own."""

    choice: Choice | None = None
    claim: str = ""
    note: str = ""
    action_hash: str | None = None


_NOTHING = _Said()


class _Inside(threading.local):
    """By what right a thread is inside the turnstile."""

    lease: HeldLease


class Approvals:
    """The requests of one home. May be shared by threads, and by processes that share the home."""

    def __init__(
        self, home: Home, desk: DecisionRecorder, sources: tuple[Clock, IdSource], effects: Effects
    ) -> None:
        self._home = home
        self._desk = desk
        self._clock, self._ids = sources
        self._effects = effects
        self._making = Making(home, sources)
        self._inside = _Inside()

    def request(self, wanted: Wanted, by: Actor) -> ActionState:
        """Record a request; it is durable when this returns. One that is there already is given."""
        request, body = self._making.made(wanted, by)
        self._effects.check(request, body)
        with self._alone() as ledger:
            if wanted.request_id:
                known = _known(ledger, wanted.request_id)
                if known is not None:
                    return _same(known.state, request)
            self._append(request_draft(request, body))
        return folded(request, ())

    def subject(self, wanted: Wanted) -> ContentId:
        """Name what is wanted, as requests for it are found."""
        return self._making.made(wanted, SYSTEM)[0].subject

    def state(self, request_id: str) -> ActionState:
        """Give what became of a request; one whose time is over has expired, told or not."""
        return self._as_of_now(self.record(request_id).state)

    def record(self, request_id: str) -> ActionRecord:
        """Give a request with its payload and every event."""
        with self._ledger() as ledger:
            return found_action(ledger, request_id)

    def listed(self, since: Instant = EPOCH) -> list[ActionState]:
        """Give the requests made since an instant, the oldest first."""
        if not self._home.database.exists():
            return []
        with self._ledger() as ledger:
            found = actions_since(ledger, since)
        return [self._as_of_now(each.state) for each in found]

    def vote(
        self, request_id: str, choice: Choice, action_hash: str, by: Actor, note: str = ""
    ) -> ActionState:
        """Count a vote; the one that carries a request has it carried out as well."""
        with self._alone() as ledger:
            record = self._revised(found_action(ledger, request_id))
            said = _Said(choice, note=self._making.note(record, note), action_hash=action_hash)
            record = self._advanced(self._step(record, "voted", by, said))
            if record.state.status == "approved" and _is_done_here(record.state):
                record = self._executed(record, by)
            return record.state

    def execute(self, request_id: str, by: Actor) -> ActionState:
        """Carry out an approved request: once, whoever asks and however often."""
        with self._alone() as ledger:
            record = self._advanced(found_action(ledger, request_id))
            if not _is_done_here(record.state):
                raise _refused(Refusal.NOT_HERE)
            return self._executed(record, by).state

    def settle(
        self, request_id: str, by: Actor, how: Literal["again", "off"], note: str = ""
    ) -> ActionState:
        """End a request whose executor died: carry it out again, or write it off. For admins."""
        if by.role != "admin":
            raise PermissionDenied("only an admin may settle what was left open")
        with self._alone() as ledger:
            record = found_action(ledger, request_id)
            if record.state.status != "executing":
                raise _refused(Refusal.NOT_CLAIMED)
            claim = record.state.claim
            if how == "again" and _is_done_here(record.state):
                done = self._effects.carry_out(request_id, claim)
                return self._step(record, "executed", by, _Said(claim=claim, note=done.note)).state
            told = f"written off: {self._making.note(record, note)}"
            return self._step(record, "failed", by, _Said(claim=claim, note=told)).state

    def cancel(self, request_id: str, by: Actor, note: str = "") -> ActionState:
        """Call a request off: for its requester and for admins, until it is carried out."""
        with self._alone() as ledger:
            record = found_action(ledger, request_id)
            said = _Said(note=self._making.note(record, note))
            return self._step(record, "cancelled", by, said).state

    def expire(self) -> list[str]:
        """Record of every open request whose time is over that it is; give their ids."""
        if not self._home.database.exists():
            return []
        since = Instant(max(0, self._clock.now() - 2 * LONGEST_WINDOW))
        with self._alone() as ledger:
            return [
                record.state.request.request_id
                for record in actions_since(ledger, since)
                if self._advanced(record).state.status == "expired" != record.state.status
            ]

    def carry_on(self) -> list[ActionState]:
        """Do what is left to do after a crash: count what was voted, carry out what was approved.

        What somebody had begun to carry out is left alone: see `settle`.
        """
        if not self._home.database.exists():
            return []
        since = Instant(max(0, self._clock.now() - 2 * LONGEST_WINDOW))
        done = []
        with self._alone() as ledger:
            for record in actions_since(ledger, since):
                now = self._advanced(record)
                if now.state.status == "approved" and _is_done_here(now.state):
                    now = self._executed(now, SYSTEM)
                if now.state != record.state:
                    done.append(now.state)
        return done

    def about(self, subject: ContentId) -> list[ActionState]:
        """Give the requests for one thing, whoever asked, the oldest first."""
        with self._alone() as ledger:
            return [self._as_of_now(each.state) for each in actions_about(ledger, subject)]

    def claim(self, request_ids: Sequence[str], by: Actor, claim: str) -> bool:
        """Claim approved requests, all or none, for something that is done elsewhere, once."""
        with self._alone() as ledger:
            records = [self._advanced(found_action(ledger, each)) for each in request_ids]
            said = _Said(claim=claim)
            events = [self._event("claimed", each, by, said) for each in records]
            if any(refusal(r.state, e) is not None for r, e in zip(records, events, strict=True)):
                return False
            for record in records:
                self._step(record, "claimed", by, said)
        return True

    def done(self, request_ids: Sequence[str], by: Actor, claim: str, note: str) -> None:
        """Record that what was claimed is done."""
        with self._alone() as ledger:
            for each in request_ids:
                said = _Said(claim=claim, note=note)
                self._step(found_action(ledger, each), "executed", by, said)

    def _executed(self, record: ActionRecord, by: Actor) -> ActionRecord:
        claim = self._ids.new_id()
        # INVARIANT: the claim is durable before anything is done, and the fold let it in.
        record = self._step(record, "claimed", by, _Said(claim=claim))
        try:
            note = self._effects.carry_out(record.state.request.request_id, claim).note
        except (InputError, SemNotFound, ActionRefused) as error:
            # These say that nothing was done. Of any other failure nobody knows: it stays claimed.
            return self._step(record, "failed", by, _Said(claim=claim, note=str(error)))
        return self._step(record, "executed", by, _Said(claim=claim, note=note))

    def _advanced(self, record: ActionRecord) -> ActionRecord:
        """Record what votes and time have come to, where nobody has yet."""
        if record.state.status_at(self._now(record)) == "expired" != record.state.status:
            return self._step(record, "expired", SYSTEM)
        record = self._revised(record)
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

    def _revised(self, record: ActionRecord) -> ActionRecord:
        """Record that votes count no longer whose keys were revoked before anything was decided."""
        state = record.state
        if state.status != "pending" or state.is_over(self._now(record)):
            return record
        for key_id in self._revoked([each.by.id for each in state.votes]):
            if record.state.tally.result == "open":
                said = _Said(claim=key_id, note=REVOKED)
                record = self._step(record, "withdrawn", SYSTEM, said)
        return record

    def _revoked(self, key_ids: Sequence[str]) -> list[str]:
        if not key_ids:
            return []
        with closing(AccessStore(self._home.place(ACCESS))) as store:
            revoked = {each.id for each in store.every_key() if each.revoked_at is not None}
        return [each for each in key_ids if each in revoked]

    def _step(
        self, record: ActionRecord, kind: StepKind, by: Actor, said: _Said = _NOTHING
    ) -> ActionRecord:
        """Record an event that may happen, or raise why it may not."""
        event = self._event(kind, record, by, said)
        if record.state.status == "disputed":
            raise ActionRefused(f"the request is disputed: {record.state.note}")
        reason = refusal(record.state, event)
        if reason is not None:
            raise _refused(reason)
        draft = step_draft(kind, event.id, event.at, event.step)
        # The ledger's instant counts, and it may be later than ours.
        event = replace(event, at=self._append(draft).entry.at)
        events = (*record.events, event)
        state = folded(record.state.request, events)
        if state.void != record.state.void:
            raise _refused(state.void[-1].reason)
        return replace(record, state=state, events=events, last_at=event.at)

    def _event(self, kind: StepKind, record: ActionRecord, by: Actor, said: _Said) -> Event:
        request = record.state.request
        step = Step(
            request.request_id,
            record.state.events + 1,
            by,
            request.action_hash if said.action_hash is None else said.action_hash,
            said.choice,
            said.claim,
            said.note[:LONGEST_TEXT],
        )
        return Event(kind, self._ids.new_id(), self._now(record), step)

    def _as_of_now(self, state: ActionState) -> ActionState:
        return replace(state, status=state.status_at(self._clock.now()))

    def _now(self, record: ActionRecord) -> Instant:
        # INVARIANT: a request's time never goes back, whatever the clock does.
        return max(self._clock.now(), record.last_at)

    def _append(self, draft: Draft) -> Receipt:
        """Record what was decided inside; nothing is where another has come in meanwhile."""
        return self._desk.recorder().append_under(self._inside.lease, draft)

    @contextmanager
    def _alone(self) -> Iterator[LedgerReader]:
        """Wait until nobody else is inside, and go in."""
        # The recorder first: opening it may take long, and makes the ledger that is read.
        self._desk.recorder()
        lease = self._inside.lease = self._home.lease(TURNSTILE, waits=True)
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


def _known(ledger: LedgerReader, request_id: str) -> ActionRecord | None:
    try:
        return found_action(ledger, request_id)
    except NotFound:
        return None


def _same(known: ActionState, request: ActionRequest) -> ActionState:
    """Give the request that is there, if it wants what is asked for again."""
    if known.request.subject != request.subject:
        raise ActionRefused(f"`{request.request_id}` is another request already")
    return known


def _is_done_here(state: ActionState) -> bool:
    return state.request.action_type not in NOT_HERE


def _refused(reason: Refusal) -> ActionRefused:
    kind = VoteDenied if reason in _DENIED else ActionRefused
    return kind(reason.meaning, reason=reason)
