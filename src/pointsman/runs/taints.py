"""Sessions that must stay on this machine because of what they held, until somebody clears them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from pointsman.kernel.canonical import Form
from pointsman.kernel.entry import Draft
from pointsman.kernel.instant import Instant
from pointsman.kernel.record import Names
from pointsman.placement.facts import Taint
from pointsman.placement.policy import PlacementPolicy
from pointsman.placement.sensitivity import staying
from pointsman.sessions.ruling import Placing
from pointsman.storage.sqlite.reading import LedgerReader, Stored

TAINTED: Final = "event.placement.tainted"
CLEARED: Final = "event.placement.cleared"


class _Cleared(Struct, frozen=True, forbid_unknown_fields=True):
    turn_id: str
    reason: str


TAINT_FORM = Form(Taint)
_CLEARED_FORM = Form(_Cleared)


class TaintedSession(Struct, frozen=True):
    """A session that stays, since when and why."""

    session_id: str
    since: Instant
    taint: Taint


def held_by(policy: PlacementPolicy, placing: Placing) -> str:
    """Name the rule by which a placement's text must stay; empty where it merely fits here.

    A text that somebody wanted to send out all the same was refused, and the session still held it.
    """
    if policy.taint == "off":
        return ""
    facts, found = placing.facts, placing.facts.sensitivity
    if facts.privacy_level == "local":
        return "PRIVACY_LOCAL"
    if found is not None and policy.stays_local:
        if found.has_failed:
            return "SENSITIVE_UNKNOWN"
        if staying(found, policy.stays_local):
            return "SENSITIVE_LOCAL"
    return "POLICY_FORCE_LOCAL" if placing.trace.inputs.policy_action == "force_local" else ""


def taint_draft(names: Names, taint: Taint) -> Draft:
    """Make the entry that taints a session; `ref` is the session."""
    return Draft(TAINTED, names.id, names.ref, names.at, TAINT_FORM.encode(taint))


def cleared_draft(names: Names, taint: Taint, reason: str) -> Draft:
    """Make the entry that clears a session; `ref` is the session."""
    cleared = _CLEARED_FORM.encode(_Cleared(taint.turn_id, reason))
    return Draft(CLEARED, names.id, names.ref, names.at, cleared)


def taint_of(ledger: LedgerReader, session_id: str) -> Taint | None:
    """Give the taint of a session, if it has one now."""
    found = _newest(ledger.with_ref(session_id))
    return None if found is None else TAINT_FORM.decode(found.entry.payload)


def tainted_sessions(ledger: LedgerReader) -> list[TaintedSession]:
    """Give all sessions that stay, by when it began."""
    newest: dict[str, Stored] = {}
    for stored in _ordered(ledger.of_kind("event.placement.")):
        newest[stored.entry.ref] = stored
    return [
        TaintedSession(ref, each.entry.at, TAINT_FORM.decode(each.entry.payload))
        for ref, each in newest.items()
        if each.entry.kind == TAINTED
    ]


def _newest(found: Iterable[Stored]) -> Stored | None:
    events = [each for each in _ordered(found) if each.entry.kind in {TAINTED, CLEARED}]
    return events[-1] if events and events[-1].entry.kind == TAINTED else None


def _ordered(found: Iterable[Stored]) -> list[Stored]:
    # DETERMINISM: several processes may write at one instant; then the chain and place decide.
    return sorted(found, key=lambda each: (each.entry.at, each.chain, each.entry.seq))
