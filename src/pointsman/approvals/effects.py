"""The effects of approved requests, once each: on semantic memory or the self-representation.

INVARIANT: an effect asks the ledger, not its caller, whether the request was claimed. Each one is
known by its request: executed again, it finds its earlier result and does nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Final

from msgspec import Struct

from pointsman.agents.modules.event import SELFREP, SelfRepEvent, selfrep_payload
from pointsman.agents.rules.actions import (
    LiftStop,
    SemDelete,
    SemWrite,
    read_payload,
    read_recorded_payload,
    selfrep_event,
)
from pointsman.approvals.record import ActionRecord, read_action
from pointsman.errors import ActionRefused
from pointsman.governance.action import ActionRefusal, ActionRequest
from pointsman.governance.state import ActionState
from pointsman.kernel.canonical import canonical_json
from pointsman.kernel.entry import Draft
from pointsman.kernel.instant import Clock, IdSource
from pointsman.recording.decision_recorder import DecisionRecorder
from pointsman.recording.stops import StopKeeper
from pointsman.storage.home import Home
from pointsman.storage.stores.entries import LedgerReader
from pointsman.storage.stores.semantic import (
    SEMANTIC,
    Provenance,
    SemanticMemory,
    write_version,
)

Check = Callable[[SelfRepEvent], None]
"""Raises an InputError where the self-representation could not fold an event."""


class Effect(Struct, frozen=True):
    """A performed effect, in words for the ledger."""

    note: str


NOT_HERE: Final = ("workflow_branch",)
"""Executed where the workflow decides, not here."""


class Effects:
    """Executes the claimed requests of one home."""

    def __init__(
        self,
        home: Home,
        decision_recorder: DecisionRecorder,
        sources: tuple[Clock, IdSource],
        check: Check | None = None,
        stops: StopKeeper | None = None,
    ) -> None:
        self._home = home
        self._decision_recorder = decision_recorder
        self._clock, self._ids = sources
        self._check = check
        self._stops = stops
        self._memory = home.place(SEMANTIC)

    def check(self, request: ActionRequest, body: bytes) -> None:
        """Raise where a request could never be executed; called before it is recorded."""
        payload = read_payload(request.action_type, read_recorded_payload(body))
        if isinstance(payload, LiftStop) and self._stops is not None:
            self._stops.require(payload.stop_id)
        event = selfrep_event(request.request_id, payload, request.requester.id)
        if event is not None and self._check is not None:
            self._check(event)

    def carry_out(self, request_id: str, claim: str) -> Effect:
        """Execute a request, if the ledger says that this claim may."""
        with closing(LedgerReader(self._home.database)) as ledger:
            record = read_action(ledger, request_id)
            _check_claim(record.state, claim)
            payload = read_payload(
                record.state.request.action_type, read_recorded_payload(record.payload)
            )
            event = selfrep_event(request_id, payload, record.state.request.requester.id)
            if event is not None:
                return self._record_event(event, ledger)
        match payload:
            case SemWrite(namespace, key):
                return self._write(record, namespace, key, value_of(record.payload))
            case SemDelete(namespace, key):
                return self._delete(record, namespace, key)
            case LiftStop(stop_id, reason) if self._stops is not None:
                by = ", ".join(each.name for each in record.state.approvers)
                entry = self._stops.lift(stop_id, request_id, reason, by)
                return Effect(f"stop {stop_id} lifted: {entry}")
        raise ActionRefused(ActionRefusal.NOT_HERE.meaning, reason=ActionRefusal.NOT_HERE)

    def _write(self, record: ActionRecord, namespace: str, key: str, value: bytes | None) -> Effect:
        written = write_version(self._memory, namespace, key, value, _provenance(record))
        return Effect(f"sem:{namespace}/{key}@{written.version}")

    def _delete(self, record: ActionRecord, namespace: str, key: str) -> Effect:
        with closing(SemanticMemory(self._memory)) as memory:
            done = [
                each
                for each in memory.history(namespace, key)
                if each.provenance.request_id == record.state.request.request_id
            ]
            if not done:
                memory.get(namespace, key)
        return self._write(record, namespace, key, None)

    def _record_event(self, event: SelfRepEvent, ledger: LedgerReader) -> Effect:
        kind, body = selfrep_payload(event)
        told = [
            each.entry.id
            for each in ledger.with_ref(event.request_id)
            if each.entry.kind.startswith(SELFREP)
        ]
        if told:
            return Effect(f"{kind} {told[0]}")
        if self._check is not None:
            self._check(event)
        name = self._ids.new_id()
        draft = Draft(kind, name, event.request_id, self._clock.now(), body)
        self._decision_recorder.recorder().record(draft)
        return Effect(f"{kind} {name}")


def value_of(payload: bytes) -> bytes:
    """Return the canonical bytes of a payload's `value`."""
    found = read_recorded_payload(payload)
    return canonical_json(found["value"] if isinstance(found, dict) else None)


def _check_claim(state: ActionState, claim: str) -> None:
    if state.status != "executing":
        raise ActionRefused("the request was not claimed", reason=ActionRefusal.NOT_CLAIMED)
    if state.claim != claim:
        raise ActionRefused("somebody else claimed the request", reason=ActionRefusal.OTHER_CLAIM)


def _provenance(record: ActionRecord) -> Provenance:
    state = record.state
    if state.claimed_at is None:
        raise ActionRefused("the request was not claimed", reason=ActionRefusal.NOT_CLAIMED)
    return Provenance(
        state.request.request_id,
        record.claim_entry,
        state.request.action_hash,
        state.request.requester.id,
        tuple(each.id for each in state.approvers),
        state.claimed_at,
    )
