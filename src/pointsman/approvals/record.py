"""Action requests in the ledger: found by id or by subject, with all their events."""

from __future__ import annotations

from typing import cast, get_args

from msgspec import Struct

from pointsman.errors import IntegrityFailure, NotFound
from pointsman.governance.action import REQUEST_FORM, ActionRequest
from pointsman.governance.state import (
    ACTION,
    REQUESTED,
    STEP_FORM,
    ActionEvent,
    ActionState,
    ActionStep,
    StepKind,
    fold_action,
)
from pointsman.kernel.canonical import check_content
from pointsman.kernel.entry import Draft, Entry
from pointsman.kernel.instant import EPOCH, Instant
from pointsman.storage.stores.entries import LedgerReader, Stored

_KINDS = tuple(ACTION + each for each in get_args(StepKind))


class ActionRecord(Struct, frozen=True):
    """A request, its payload, and every event about it."""

    state: ActionState
    payload: bytes
    events: tuple[ActionEvent, ...]
    last_at: Instant

    @property
    def claim_entry(self) -> str:
        """The entry of the claim in force, under which it is executed."""
        state = self.state
        found = [e.id for e in self.events if e.kind == "claimed" and e.step.claim == state.claim]
        return found[0] if found and state.claim else ""


def request_draft(request: ActionRequest, payload: bytes) -> Draft:
    """Make the entry of a request, its payload attached; `ref` is its subject."""
    body = REQUEST_FORM.encode(request)
    at = request.created_at
    return Draft(REQUESTED, request.request_id, request.subject, at, body, (payload,))


def step_draft(kind: StepKind, name: str, at: Instant, step: ActionStep) -> Draft:
    """Make the entry of an event of a request; `ref` is the request."""
    return Draft(ACTION + kind, name, step.request_id, at, STEP_FORM.encode(step))


def no_such_action(request_id: str) -> NotFound:
    """Return the error of an id that names no request, or none that the caller may see."""
    return NotFound(f"no action is requested as `{request_id[:100]}`")


def read_action(ledger: LedgerReader, request_id: str) -> ActionRecord:
    """Read a request and its events."""
    found = [each for each in ledger.with_id(request_id) if each.entry.kind == REQUESTED]
    if not found:
        raise no_such_action(request_id)
    if len(found) > 1:
        raise IntegrityFailure(f"the action `{request_id}` is requested twice")
    return _record(ledger, found[0])


def actions_about(ledger: LedgerReader, subject: str) -> list[ActionRecord]:
    """List the requests about one subject, the oldest first."""
    found = [each for each in ledger.with_ref(subject) if each.entry.kind == REQUESTED]
    return [_record(ledger, each) for each in found]


def actions_since(ledger: LedgerReader, since: Instant = EPOCH) -> list[ActionRecord]:
    """List the requests made since an instant, the oldest first."""
    return [_record(ledger, each) for each in ledger.of_kind(REQUESTED, since)]


def _record(ledger: LedgerReader, stored: Stored) -> ActionRecord:
    request = REQUEST_FORM.decode(stored.entry.payload)
    payload = ledger.attachment(stored, request.payload_id)
    check_content(request.payload_id, payload, "payload")
    about = [each.entry for each in ledger.with_ref(request.request_id)]
    events = tuple(_event(each) for each in about if each.kind in _KINDS)
    last_at = max((each.at for each in (stored.entry, *about)), default=EPOCH)
    return ActionRecord(fold_action(request, events), payload, events, Instant(last_at))


def _event(entry: Entry) -> ActionEvent:
    kind = cast("StepKind", entry.kind.removeprefix(ACTION))
    return ActionEvent(kind, entry.id, entry.at, STEP_FORM.decode(entry.payload))
