"""Turn decisions as the ledger of a home has them, read back to be shown."""

from __future__ import annotations

import re
from contextlib import closing
from typing import Final

from pointsman.errors import NotFound
from pointsman.kernel.instant import LATEST, Instant
from pointsman.kernel.record import DECISION, OUTCOME, read_recorded
from pointsman.storage.home import Home
from pointsman.storage.sqlite.database import told_errors
from pointsman.storage.stores.entries import LedgerReader, Stored
from pointsman.turns.chain.exploring import was_explored
from pointsman.turns.facts import FACTS_FORM
from pointsman.turns.trace import OUTCOME_FORM, TRACE_FORM, Shown

TURN: Final = DECISION + "turn"
FALLBACK: Final = TURN + ".fallback"
OVERRIDE: Final = TURN + ".override"
OPINION: Final = TURN + ".opinion"
_FOREIGN_ID: Final = re.compile(r"[\w.:+/=@~-]{4,200}", re.ASCII)
_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")


def check_recorded(home: Home) -> None:
    """Raise where nothing is recorded."""
    if not home.database.exists():
        raise NotFound(
            "nothing is recorded yet",
            where=str(home.path),
            hint="record a decision first, with `pointsman route`",
        )


def has_recorded(home: Home, kind: str) -> bool:
    """Tell whether an entry of this kind stands in the ledger."""
    if not home.database.exists():
        return False
    with told_errors(home.database), closing(home.reader()) as ledger:
        return ledger.newest(kind) is not None


def shown_turn(home: Home, name: str) -> Shown:
    """Return a recorded turn decision by its id, its turn's id, or `last`."""
    check_recorded(home)
    with told_errors(home.database), closing(home.reader()) as ledger:
        return read_decision(ledger, turn_named(ledger, name))


def recent_turns(home: Home, most: int, before: Instant = LATEST) -> list[Shown]:
    """Return the latest turn decisions before an instant, the newest first."""
    if not home.database.exists():
        return []
    with told_errors(home.database), closing(home.reader()) as ledger:
        return [read_decision(ledger, each) for each in ledger.recent(TURN, before, most)]


def was_explored_turn(stored: Stored) -> bool:
    """Tell whether a recorded decision sent its turn to the runner-up on purpose."""
    _, record, _ = read_recorded(stored.entry.payload)
    outcome = OUTCOME_FORM.decode(bytes(record.outcome))
    return was_explored(outcome, TRACE_FORM.decode(bytes(record.trace)))


def asked_opinions(stored: Stored) -> bool:
    """Tell whether a recorded decision is a step of a second opinion."""
    return stored.entry.kind == OPINION


def turn_named(ledger: LedgerReader, name: str) -> Stored:
    """Find a turn by its id, by that of any decision or call of it, or by a name others gave it.

    Others are the provider (its request id) and the caller (its trace id, or a `traceparent`);
    `last` is the newest turn.
    """
    newest = ledger.newest(TURN) if name == "last" else None
    found = newest or _turn_about(ledger, name) or _turn_with(ledger, name)
    found = found or _turn_known_elsewhere(ledger, name)
    if found is None:
        raise NotFound(f"no turn is recorded as `{name[:100]}`")
    return found


def _turn_with(ledger: LedgerReader, name: str) -> Stored | None:
    """Find the turn that a decision is about, or that a call acted in."""
    named = ledger.with_id(name)
    acted_on = [each.entry.ref for each in named if each.entry.kind == OUTCOME]
    for each in (*named, *(found for ref in acted_on for found in ledger.with_id(ref))):
        if each.entry.kind == TURN:
            return each
        if each.entry.kind.startswith(DECISION):
            return _turn_about(ledger, each.entry.ref)
    return None


def _turn_known_elsewhere(ledger: LedgerReader, name: str) -> Stored | None:
    """Find the newest turn by the provider's id of a request, or by the caller's trace."""
    if _FOREIGN_ID.fullmatch(name) is None:
        return None
    call = ledger.mentioning(OUTCOME, f'"request_id":"{name}"'.encode())
    if call is not None:
        return _turn_with(ledger, call.entry.id)
    traced = _TRACEPARENT.fullmatch(name)
    trace_id = name if traced is None else traced[1]
    return ledger.mentioning(TURN, f'"trace_id":"{trace_id}"'.encode())


def _turn_about(ledger: LedgerReader, turn_id: str) -> Stored | None:
    return next((each for each in ledger.with_ref(turn_id) if each.entry.kind == TURN), None)


def entries_about(ledger: LedgerReader, turn: Stored) -> list[Stored]:
    """Return the entries about a turn and about each decision on it, in order."""
    about = [each for each in ledger.with_ref(turn.entry.ref) if each != turn]
    decisions = [turn, *(each for each in about if each.entry.kind.startswith(DECISION))]
    acted = [each for decision in decisions for each in ledger.with_ref(decision.entry.id)]
    known = {(each.chain, each.entry.seq): each for each in (turn, *about, *acted)}
    return sorted(known.values(), key=order_of)


def order_of(stored: Stored) -> tuple[int, int, int]:
    """Return the sort key of entries: their time, then their place."""
    return stored.entry.at, stored.chain, stored.entry.seq


def read_decision(ledger: LedgerReader, stored: Stored) -> Shown:
    """Read a decision about a turn, with the names it goes by."""
    entry = stored.entry
    facts = next(iter(ledger.attachments(stored)), None)
    _, record, aside = read_recorded(entry.payload)
    return Shown(
        turn_id=entry.ref,
        session_id=aside.session_id,
        decision_id=entry.id,
        at=entry.at,
        policy_id=record.policy_id,
        facts_id=record.facts_id,
        decision_version=record.decision_version,
        is_preview=aside.is_preview,
        elapsed_us=aside.elapsed_us,
        outcome=OUTCOME_FORM.decode(bytes(record.outcome)),
        trace=TRACE_FORM.decode(bytes(record.trace)),
        placed=None if facts is None else FACTS_FORM.decode(facts).placement,
    )
