"""A turn from its record: what it looked like, who took it, what that cost.

Turns of the gateway are not counted as they pass, for most are never judged. One that somebody
judges is read back from the ledger, and counted then.
"""

from __future__ import annotations

from contextlib import closing

from msgspec import Struct

from pointsman.audit.recorded_turns import was_explored_turn
from pointsman.calls.call_end import END_FORM, CallEnd
from pointsman.errors import MissingSnapshot
from pointsman.kernel.record import DECISION, OUTCOME, OUTCOME_FORM
from pointsman.learning.learning import Run, run_of_call
from pointsman.storage.home import Home
from pointsman.storage.sqlite.database import told_errors
from pointsman.storage.stores.entries import ContentReader, LedgerReader, Stored
from pointsman.storage.stores.patterns.patterns import Origin
from pointsman.turns.facts import FACTS_FORM, TurnFacts, with_text

TURN = f"{DECISION}turn"
SHADOW = f"{TURN}.shadow"
JUDGE = f"{TURN}.judge"


class Recalled(Struct, frozen=True):
    """A run of a turn, with the turn's facts and text."""

    facts: TurnFacts
    run: Run


def shadow_of(home: Home, turn_id: str, decision_id: str) -> bool:
    """Tell whether a decision is about a shadow run of a turn."""
    with told_errors(home.database), closing(LedgerReader(home.database)) as ledger:
        found = ledger.with_id(decision_id)
        return any((each.entry.kind, each.entry.ref) == (SHADOW, turn_id) for each in found)


def recalled(home: Home, turn_id: str, decision_id: str = "") -> Recalled | None:
    """Read a turn back, or one shadow run of it; None where it never ended, or has no text left."""
    with told_errors(home.database), closing(LedgerReader(home.database)) as ledger:
        about = ledger.with_id(decision_id) if decision_id else ledger.with_ref(turn_id)
        ends = [
            (each, end)
            for each in about
            if _is_run(each.entry.kind, is_shadow=bool(decision_id))
            for end in _ends(ledger, each)
        ]
        if not ends:
            return None
        stored, end = ends[-1]
        facts = _facts(home, ledger, stored)
    if facts is None:
        return None
    origin: Origin | None = "explored" if was_explored_turn(stored) else None
    if decision_id:
        origin = "shadow"
    return Recalled(facts, run_of_call(decision_id or turn_id, end, stored.entry.at, origin))


def _is_run(kind: str, *, is_shadow: bool) -> bool:
    if is_shadow:
        return kind == SHADOW
    return kind.startswith(TURN) and kind not in {SHADOW, JUDGE}


def _ends(ledger: LedgerReader, decision: Stored) -> list[CallEnd]:
    """Give how the calls under a decision ended that ended well."""
    entries = [each.entry for each in ledger.with_ref(decision.entry.id)]
    told = [OUTCOME_FORM.read(each.payload) for each in entries if each.kind == OUTCOME]
    return [END_FORM.decode(bytes(each.detail)) for each in told if each.status == "done"]


def _facts(home: Home, ledger: LedgerReader, stored: Stored) -> TurnFacts | None:
    encoded = next(iter(ledger.attachments(stored)), None)
    if encoded is None:
        return None
    with closing(ContentReader(home.content, home.content_key())) as texts:
        try:
            return with_text(FACTS_FORM.decode(encoded), texts.text)
        except MissingSnapshot:
            return None
