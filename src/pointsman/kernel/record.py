"""The record of a decision, in one shape for all rooms, and the entries linked to it later.

The `decision` part is what a replay must reproduce byte for byte. The `aside` part is recorded and
chained, but stands outside the replayed bytes: elapsed time, trace id, whether it was a preview.
"""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, Raw, Struct, UnsetType

from pointsman.kernel.canonical import ContentId, Form
from pointsman.kernel.entry import Draft
from pointsman.kernel.instant import Instant

Room = Literal["turn", "placement", "agent", "branch"]

DECISION = "decision."
ATTEMPT = "attempt"
OUTCOME = "outcome"


class DecisionRecord(Struct, frozen=True, forbid_unknown_fields=True):
    """The replayed part: the outcome, the code and inputs that made it, and why."""

    kind: Room
    decision_version: int
    policy_id: ContentId
    facts_id: ContentId
    snapshot_ids: dict[str, ContentId]
    outcome: Raw
    trace: Raw


class Aside(Struct, frozen=True, forbid_unknown_fields=True):
    """Facts about a decision that no replay repeats.

    `tenant` is the one whose key asked; absent where no key did.
    """

    elapsed_us: int
    trace_id: str
    session_id: str
    is_preview: bool
    product_version: str
    tenant: str | UnsetType = UNSET


class DecisionPayload(Struct, frozen=True, forbid_unknown_fields=True):
    """The payload of a decision's ledger entry."""

    decision: Raw
    aside: Aside


class Attempt(Struct, frozen=True, forbid_unknown_fields=True):
    """One try at acting on a decision; a further try is a further entry."""

    number: int
    target: str
    detail: Raw


class OutcomeRecord(Struct, frozen=True, forbid_unknown_fields=True):
    """How acting on a decision ended."""

    status: Literal["done", "failed", "unknown"]
    detail: Raw


ASIDE_FORM = Form(Aside)
DECISION_FORM = Form(DecisionRecord)
RECORDED_FORM = Form(DecisionPayload)
ATTEMPT_FORM = Form(Attempt)
OUTCOME_FORM = Form(OutcomeRecord)


class Names(Struct, frozen=True):
    """The ids and the instant that the caller made for one entry."""

    id: str
    ref: str
    at: Instant


def recorded_bytes(record: DecisionRecord, aside: Aside) -> bytes:
    """Return the canonical bytes of a `DecisionPayload`, in one go where no snapshot is named.

    Three passes of the encoder less; a test holds this to the bytes of the forms.
    """
    if record.snapshot_ids:
        return RECORDED_FORM.encode(DecisionPayload(Raw(DECISION_FORM.encode(record)), aside))
    code = (record.kind, record.decision_version, record.policy_id)
    return plain_bytes(code, record.facts_id, record.outcome, record.trace, aside)


def plain_bytes(
    code: tuple[Room, int, ContentId],
    facts_id: ContentId,
    outcome: bytes | Raw,
    trace: bytes | Raw,
    aside: Aside,
) -> bytes:
    """Return the same for a decision that names its policy alone: room, version, policy."""
    kind, version, policy_id = code
    return (
        b'{"aside":%b,"decision":{"decision_version":%d,"facts_id":"%b","kind":"%b",'
        b'"outcome":%b,"policy_id":"%b","snapshot_ids":{},"trace":%b}}'
    ) % (
        ASIDE_FORM.encode(aside),
        version,
        facts_id.encode(),
        kind.encode(),
        outcome,
        policy_id.encode(),
        trace,
    )


def decision_draft(
    names: Names, record: DecisionRecord, aside: Aside, facts: bytes, linked: str = ""
) -> Draft:
    """Make the entry of a decision, carrying its facts; `ref` is its subject.

    `linked` names what a further decision about the same thing is: `decision.turn.fallback`.
    """
    payload = recorded_bytes(record, aside)
    kind = f"{DECISION}{record.kind}.{linked}" if linked else DECISION + record.kind
    return Draft(kind, names.id, names.ref, names.at, payload, (facts,))


def outcome_draft(names: Names, outcome: OutcomeRecord) -> Draft:
    """Make the entry of an outcome; `ref` is the decision it ends."""
    return Draft(OUTCOME, names.id, names.ref, names.at, OUTCOME_FORM.encode(outcome))


def read_recorded(payload: bytes) -> tuple[bytes, DecisionRecord, Aside]:
    """Read a decision entry's payload: the replayed bytes, the record they hold, and the aside."""
    recorded = RECORDED_FORM.read(payload)
    decision = bytes(recorded.decision)
    return decision, DECISION_FORM.read(decision), recorded.aside
