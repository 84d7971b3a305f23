"""Learning from a session at its end: its turns and what was thought of them become patterns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from pointsman.kernel.number import billionths_text, microusd_text
from pointsman.sessions.call_events import FINGERPRINT_KIND
from pointsman.sessions.events.routing import PatternRecorded
from pointsman.storage.sqlite.conversations import TurnRow
from pointsman.storage.sqlite.patterns import PatternStore
from pointsman.turns.fingerprint import FINGERPRINT_FORM


def learned(patterns: Path, turns: Sequence[TurnRow]) -> Iterator[tuple[TurnRow, PatternRecorded]]:
    """Count the turns that ended by themselves; a turn counts once."""
    ended = [each for each in turns if each.status == "completed" and not each.is_learned]
    if not ended:
        return
    with closing(PatternStore(patterns)) as store:
        for each in ended:
            yield each, _recorded(store, each)


def scored(patterns: Path, turn: TurnRow, eval_id: str) -> None:
    """Count what was thought of a turn that is learned already."""
    if turn.score is not None and patterns.exists():
        with closing(PatternStore(patterns)) as store:
            store.update_score(turn.id, turn.score, turn.score_confidence, eval_id)


def _recorded(store: PatternStore, turn: TurnRow) -> PatternRecorded:
    found = store.record(
        FINGERPRINT_FORM.decode(turn.fingerprint),
        turn.vector,
        model=turn.model,
        turn_id=turn.id,
        cost_microusd=turn.cost_microusd,
        latency_ms=turn.latency_ms,
        pricing_version=turn.pricing_version,
        at=turn.ended_at or turn.started_at,
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
