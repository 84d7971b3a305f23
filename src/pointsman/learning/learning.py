"""Learning from turns: those of a session at its end, and single runs of a turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing

from msgspec import Struct

from pointsman.audit.recorded_turns import asked_opinions, was_explored_turn
from pointsman.calls.call_end import CallEnd
from pointsman.kernel.instant import Instant
from pointsman.kernel.number import MicroUsd, billionths_text, microusd_text
from pointsman.recording.gathering import turn_fingerprint
from pointsman.sessions.call_events import FINGERPRINT_KIND
from pointsman.sessions.events.session import PatternRecorded
from pointsman.storage.home import Home
from pointsman.storage.place import Where
from pointsman.storage.sqlite.database import told_errors
from pointsman.storage.stores.conversations import StoredTurn
from pointsman.storage.stores.entries import LedgerReader
from pointsman.storage.stores.patterns.patterns import Origin, PatternStore
from pointsman.storage.stores.patterns.writing import Recorded
from pointsman.turns.facts import TurnFacts
from pointsman.turns.learning.fingerprint import FINGERPRINT_FORM


def learn_turns(
    home: Home, turns: Sequence[StoredTurn]
) -> Iterator[tuple[StoredTurn, PatternRecorded]]:
    """Record the completed turns in the pattern store, explored ones marked; each turn once."""
    ended = [each for each in turns if each.status == "completed" and not each.is_learned]
    if not ended:
        return
    kept = _with_origins(home, ended)
    with closing(PatternStore(home.patterns)) as store:
        for each, origin in kept:
            yield each, _record_turn(store, each, origin)


def update_learned_score(patterns: Where, turn: StoredTurn, eval_id: str) -> None:
    """Update the score of a turn that is in the pattern store already."""
    if turn.score is not None and patterns.exists():
        with closing(PatternStore(patterns)) as store:
            store.update_score(turn.id, turn.score, turn.score_confidence, eval_id)


def _with_origins(
    home: Home, turns: Sequence[StoredTurn]
) -> list[tuple[StoredTurn, Origin | None]]:
    """Return the turns to learn from, with their origins: were they explored.

    Those with a second opinion are left out: which model answered says how hard the question was.
    """
    found: list[tuple[StoredTurn, Origin | None]] = []
    with told_errors(home.database), closing(LedgerReader(home.database)) as ledger:
        for each in turns:
            decisions = [*ledger.with_id(each.decision_id)]
            if not any(map(asked_opinions, decisions)):
                is_explored = any(map(was_explored_turn, decisions))
                found.append((each, "explored" if is_explored else None))
    return found


def _record_turn(store: PatternStore, turn: StoredTurn, origin: Origin | None) -> PatternRecorded:
    found = store.record(
        FINGERPRINT_FORM.decode(turn.fingerprint),
        turn.vector,
        model=turn.model,
        turn_id=turn.id,
        cost_microusd=turn.cost_microusd,
        latency_ms=turn.latency_ms,
        pricing_version=turn.pricing_version,
        at=turn.ended_at or turn.started_at,
        origin=origin,
    )
    if turn.score is not None:
        store.update_score(turn.id, turn.score, turn.score_confidence, f"{turn.id}.session")
    return PatternRecorded(
        fingerprint_id=found.fingerprint_id,
        fingerprint_kind=FINGERPRINT_KIND,
        primary_model=turn.model,
        sample_size_before=found.sample_size_before,
        sample_size_after=found.sample_size_after,
        was_new_fingerprint=found.is_new_fingerprint,
        success_score=None if turn.score is None else billionths_text(turn.score),
        cost_usd_at_record=microusd_text(turn.cost_microusd),
        pricing_version=turn.pricing_version,
        over_soft_cap=found.is_over_soft_cap,
    )


class Run(Struct, frozen=True):
    """One run of a turn on one model, under the decision or turn that its verdicts name."""

    id: str
    model: str
    cost_microusd: MicroUsd
    latency_ms: int
    pricing_version: str
    at: Instant
    origin: Origin | None = None


def learn_run(
    store: PatternStore, facts: TurnFacts, run: Run, vector_of: Callable[[str], bytes]
) -> Recorded:
    """Record a run under its turn's fingerprint; a run counts once."""
    message = facts.message if isinstance(facts.message, str) else ""
    return store.record(
        turn_fingerprint(facts),
        vector_of(message),
        model=run.model,
        turn_id=run.id,
        cost_microusd=run.cost_microusd,
        latency_ms=run.latency_ms,
        pricing_version=run.pricing_version,
        at=run.at,
        origin=run.origin,
    )


def run_of_call(name: str, end: CallEnd, at: Instant, origin: Origin | None = None) -> Run:
    """Return an ended call as a run."""
    spent = end.spent
    cost = None if spent is None else spent.cost_microusd
    version = "" if spent is None else spent.price_version
    return Run(name, end.model, cost or MicroUsd(0), end.elapsed_us // 1_000, version, at, origin)
