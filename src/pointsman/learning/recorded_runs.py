"""Runs of turns, read back from the ledger: facts, text, model and cost.

Turns of the gateway are not counted as they pass, for most are never judged. A judged turn is
read back from the ledger, and counted then. Vectors of recorded turns are rebuilt the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

from msgspec import UNSET, Struct

from pointsman.audit.recorded_turns import OPINION, was_explored_turn
from pointsman.calls.call_end import END_FORM, CallEnd
from pointsman.errors import MissingSnapshot
from pointsman.kernel.record import DECISION, OUTCOME, OUTCOME_FORM
from pointsman.learning.feedback import FEEDBACK, FEEDBACK_FORM
from pointsman.learning.learning import Run, run_of_call
from pointsman.learning.shadow_runs import JUDGE_VERDICT_FORM, JUDGED
from pointsman.storage.home import Home
from pointsman.storage.sqlite.database import told_errors
from pointsman.storage.stores.entries import ContentReader, LedgerReader, Stored
from pointsman.storage.stores.patterns.look import halves
from pointsman.storage.stores.patterns.patterns import Origin, PatternStore
from pointsman.turns.facts import FACTS_FORM, TurnFacts, with_text

TURN = f"{DECISION}turn"
SHADOW = f"{TURN}.shadow"
JUDGE = f"{TURN}.judge"


class RecordedRun(Struct, frozen=True):
    """A run of a turn, with the turn's facts and text."""

    facts: TurnFacts
    run: Run


def is_shadow_run(home: Home, turn_id: str, decision_id: str) -> bool:
    """Return whether a decision is about a shadow run of a turn."""
    with told_errors(home.database), closing(home.reader()) as ledger:
        return is_shadow_run_in(ledger, turn_id, decision_id)


def is_judged_run(home: Home, run_id: str, turn_id: str) -> bool:
    """Tell whether a user or a judge gave a verdict on a run, which no inferred one outweighs."""
    with told_errors(home.database), closing(home.reader()) as ledger:
        given = [each.entry for each in ledger.with_ref(run_id) if each.entry.kind == FEEDBACK]
        if any(FEEDBACK_FORM.read(each.payload).sign is UNSET for each in given):
            return True
        judged = [each.entry for each in ledger.with_ref(turn_id) if each.entry.kind == JUDGED]
        about = {JUDGE_VERDICT_FORM.read(each.payload).decision_id for each in judged}
        shadows = {each for each in about if is_shadow_run_in(ledger, turn_id, each)}
        return run_id in shadows if run_id != turn_id else bool(about - shadows)


def is_shadow_run_in(ledger: LedgerReader, turn_id: str, decision_id: str) -> bool:
    """Return whether a decision in a ledger is about a shadow run of a turn."""
    found = ledger.with_id(decision_id)
    return any((each.entry.kind, each.entry.ref) == (SHADOW, turn_id) for each in found)


def read_recorded_run(home: Home, turn_id: str, decision_id: str = "") -> RecordedRun | None:
    """Read a turn or one shadow run of it; None if it never ended or its text is gone.

    None, too, where a second opinion was asked: no turn is learned from that way.
    """
    with told_errors(home.database), closing(home.reader()) as ledger:
        about = ledger.with_id(decision_id) if decision_id else ledger.with_ref(turn_id)
        ends = [
            (each, end)
            for each in about
            if _is_run(each.entry.kind, is_shadow=bool(decision_id))
            for end in _ends(ledger, each)
        ]
        if not ends or any(each.entry.kind == OPINION for each in about):
            # Where models agree, questions are easy, and where they go up, hard: counted as any
            # other, such turns would praise the models that are asked and blame the one above.
            return None
        stored, end = ends[-1]
        facts = _facts(home, ledger, stored)
    if facts is None:
        return None
    origin: Origin | None = "explored" if was_explored_turn(stored) else None
    if decision_id:
        origin = "shadow"
    return RecordedRun(facts, run_of_call(decision_id or turn_id, end, stored.entry.at, origin))


def _is_run(kind: str, *, is_shadow: bool) -> bool:
    if is_shadow:
        return kind == SHADOW
    return kind.startswith(TURN) and kind not in {SHADOW, JUDGE}


def _ends(ledger: LedgerReader, decision: Stored) -> list[CallEnd]:
    """Return the ends of the successful calls under a decision."""
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


class RebuiltVectors(Struct, frozen=True):
    """How many fingerprints got tokens of the embedding in force, and how many still lack them."""

    made: int
    left: int


def rebuild_vectors(
    home: Home, store: PatternStore, vector_of: Callable[[str], bytes]
) -> RebuiltVectors:
    """Make the missing tokens of the embedding in force, for every fingerprint with a text left."""
    done: set[str] = set()
    for name, turn_id in store.without_tokens():
        if name not in done and _rebuild_vector(home, store, (name, turn_id), vector_of):
            done.add(name)
    return RebuiltVectors(len(done), store.count_without_tokens())


def _rebuild_vector(
    home: Home, store: PatternStore, turn: tuple[str, str], vector_of: Callable[[str], bytes]
) -> bool:
    found = read_recorded_run(home, turn[1])
    if found is None or not isinstance(found.facts.message, str):
        return False
    return store.put_tokens(turn[0], *halves(vector_of(found.facts.message)))
