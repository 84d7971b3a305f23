"""Which entries of the ledger are events, with the fields of each; never a message's text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Final

import msgspec
from msgspec import Struct

from pointsman.audit.recorded_turns import TURN
from pointsman.calls.call_end import END_FORM
from pointsman.errors import ReplayError
from pointsman.gateway.serving.feed import sse
from pointsman.kernel.entry import Entry
from pointsman.kernel.instant import instant_text
from pointsman.kernel.number import billionths_text
from pointsman.kernel.record import DECISION, OUTCOME, OUTCOME_FORM, read_recorded
from pointsman.learning.feedback import FEEDBACK, FEEDBACK_FORM
from pointsman.placement.trace import OUTCOME_FORM as PLACEMENT_FORM
from pointsman.recording.decision_recorder import POLICY_INVALID, POLICY_REFUSED, REFUSED_FORM
from pointsman.recording.health import RECOVERED, RECOVERED_FORM, UNAVAILABLE, UNAVAILABLE_FORM
from pointsman.recording.pins import PINNED, PINNING_FORM, UNPINNED
from pointsman.recording.stops import LIFT_TEXT, LIFTED, ORDERED, STOP_TEXT
from pointsman.recording.taints import CLEARED, TAINT_FORM, TAINTED
from pointsman.storage.policies.publications import Published
from pointsman.turns.trace import OUTCOME_FORM as TURN_FORM
from pointsman.turns.trace import TRACE_FORM

POLICY_PUBLISHED: Final = "policy.published"
MOST_PROBLEMS: Final = 5
LONGEST_PROBLEM: Final = 300


class _Invalid(Struct, frozen=True):
    policy_path: str
    using_last_known_good: bool


_INVALID = msgspec.json.Decoder(_Invalid)

Told = dict[str, object]


def event_of(entry: Entry) -> bytes | None:
    """Write an entry as a server-sent event; none where it is no event."""
    found = _EVENTS.get(entry.kind)
    if found is None:
        return None
    name, told = found
    try:
        value = {"at": instant_text(entry.at), **told(entry)}
    except (ReplayError, msgspec.MsgspecError, ValueError):
        # A changed database can hold anything: it must not end the feed for all readers.
        return None
    return sse(name, msgspec.json.encode(value), entry.id)


def published_event(found: Published) -> bytes:
    """Write that a publication is in force now: told once it was verified, not when it is found."""
    said = found.publication
    value = {
        "at": instant_text(said.at),
        "number": said.number,
        "by": said.by,
        "files": said.changed,
        "policy_id": said.policy_id,
        "placement_id": said.placement_id,
        "publication_id": found.id,
    }
    return sse(POLICY_PUBLISHED, msgspec.json.encode(value), found.entry_id)


def _turn(entry: Entry) -> Told:
    _, record, aside = read_recorded(entry.payload)
    outcome = TURN_FORM.decode(bytes(record.outcome))
    trace, winner = TRACE_FORM.decode(bytes(record.trace)), outcome.winner_index
    return {
        "turn_id": entry.ref,
        "decision_id": entry.id,
        "session_id": aside.session_id,
        "trace_id": aside.trace_id,
        "is_preview": aside.is_preview,
        "chosen_model": outcome.chosen_model,
        "policy": trace.chain[winner].policy if winner >= 0 else "",
        "rule_name": trace.chain[winner].rule_name if winner >= 0 else None,
    }


def _placement(entry: Entry) -> Told:
    _, record, aside = read_recorded(entry.payload)
    outcome = PLACEMENT_FORM.decode(bytes(record.outcome))
    return {
        "decision_id": entry.id,
        "ref": entry.ref,
        "session_id": aside.session_id,
        "gate": outcome.gate,
        "rule_id": outcome.rule_id,
    }


def _call(entry: Entry) -> Told:
    detail = bytes(OUTCOME_FORM.decode(entry.payload).detail)
    end = END_FORM.decode(detail)
    spent = end.spent
    return {
        "decision_id": entry.ref,
        "model": end.model,
        "status": end.status,
        "error_class": end.error_class,
        "is_stream": end.is_stream,
        "elapsed_ms": end.elapsed_us / 1000,
        "first_byte_ms": end.first_byte_us / 1000,
        "input_tokens": 0 if spent is None else spent.input_tokens,
        "output_tokens": 0 if spent is None else spent.output_tokens,
        "cost_microusd": None if spent is None else spent.cost_microusd,
    }


def _stop(entry: Entry) -> Told:
    order = STOP_TEXT.decode(entry.payload)
    return {"stop_id": order.id, "scope": order.scope, "name": order.name, "reason": order.reason}


def _stop_end(entry: Entry) -> Told:
    lift = LIFT_TEXT.decode(entry.payload)
    return {"stop_id": lift.stop_id, "request_id": lift.request_id, "reason": lift.reason}


def _invalid(entry: Entry) -> Told:
    found = _INVALID.decode(entry.payload)
    file = found.policy_path.rpartition("/")[2]
    return {"file": file, "using_last_known_good": found.using_last_known_good}


def _refusal(entry: Entry) -> Told:
    found = REFUSED_FORM.decode(entry.payload)
    problems = [each[:LONGEST_PROBLEM] for each in found.errors[:MOST_PROBLEMS]]
    return {"publication": found.publication, "problems": problems, "entry_id": entry.ref}


def _taint(entry: Entry) -> Told:
    taint = TAINT_FORM.decode(entry.payload)
    return {"session_id": entry.ref, "turn_id": taint.turn_id, "rule_id": taint.rule_id}


def _clearing(entry: Entry) -> Told:
    return {"session_id": entry.ref}


def _pin(entry: Entry) -> Told:
    found = PINNING_FORM.decode(entry.payload)
    return {"session_id": found.session_id, "pinned_model": found.model}


def _feedback(entry: Entry) -> Told:
    found = FEEDBACK_FORM.decode(entry.payload)
    score = msgspec.Raw(billionths_text(found.score).encode())
    return {"turn_id": entry.ref, "decision_id": found.decision_id, "score": score}


def _unavailable(entry: Entry) -> Told:
    return msgspec.structs.asdict(UNAVAILABLE_FORM.decode(entry.payload))


def _recovery(entry: Entry) -> Told:
    return msgspec.structs.asdict(RECOVERED_FORM.decode(entry.payload))


_EVENTS: Final[Mapping[str, tuple[str, Callable[[Entry], Told]]]] = {
    TURN: ("route.decided", _turn),
    f"{TURN}.fallback": ("turn.fallback", _turn),
    f"{TURN}.opinion": ("turn.opinion", _turn),
    DECISION + "placement": ("placement.decided", _placement),
    OUTCOME: ("call.ended", _call),
    UNAVAILABLE: ("routing.provider_unavailable", _unavailable),
    RECOVERED: ("routing.provider_recovered", _recovery),
    POLICY_INVALID: ("routing.policy_invalid", _invalid),
    POLICY_REFUSED: ("policy.refused", _refusal),
    TAINTED: ("placement.tainted", _taint),
    CLEARED: ("placement.cleared", _clearing),
    PINNED: ("session.pinned", _pin),
    UNPINNED: ("session.unpinned", _pin),
    FEEDBACK: ("feedback.given", _feedback),
    ORDERED: ("stop.ordered", _stop),
    LIFTED: ("stop.lifted", _stop_end),
}

EVENT_NAMES: Final = (*(name for name, _ in _EVENTS.values()), POLICY_PUBLISHED)


def _stopped_tenant(entry: Entry) -> str | None:
    try:
        order = STOP_TEXT.decode(entry.payload)
    except ReplayError:
        return ""
    return order.name if order.scope == "tenant" else None


MOST_OWNED: Final = 65_536
"""So many decisions are remembered with their tenants, for the calls that act on them: what a
gateway decides in minutes. A call that ends later is told to those alone who may see all."""

_OF_ALL: Final = frozenset({UNAVAILABLE, RECOVERED, POLICY_INVALID, POLICY_REFUSED})


class EventOwners:
    """Names the tenant of each entry, so that a reader is told its own; in one thread."""

    def __init__(self, session_tenant: Callable[[str], str]) -> None:
        self._session_tenant = session_tenant
        self._decided: dict[str, str] = {}

    def __call__(self, entry: Entry) -> str | None:
        """Return the tenant an entry is about, empty for none; None where it concerns all."""
        if entry.kind in _OF_ALL:
            return None
        if entry.kind == ORDERED:
            return _stopped_tenant(entry)
        if entry.kind.startswith(DECISION):
            return self._decide(entry)
        if entry.kind in {OUTCOME, FEEDBACK}:
            return self._decided.get(entry.ref, "")
        try:
            pinned = entry.kind in {PINNED, UNPINNED}
            name = PINNING_FORM.decode(entry.payload).session_id if pinned else entry.ref
        except ReplayError:
            return ""
        return self._session_tenant(name)

    def _decide(self, entry: Entry) -> str:
        try:
            tenant = read_recorded(entry.payload)[2].tenant or ""
        except (ReplayError, msgspec.MsgspecError, ValueError):
            return ""
        if len(self._decided) > MOST_OWNED:
            for name in [*islice(self._decided, MOST_OWNED // 2)]:
                del self._decided[name]
        # Its calls name the decision, feedback names the turn.
        self._decided[entry.id] = self._decided[entry.ref] = tenant
        return tenant
