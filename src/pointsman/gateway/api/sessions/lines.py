"""Sessions as rows, over every turn there ever was."""

from __future__ import annotations

from collections.abc import Mapping

from pointsman.app import Pointsman
from pointsman.gateway.api.shapes import SessionRow, TaintRow
from pointsman.kernel.instant import instant_text
from pointsman.kernel.number import MicroUsd, microusd_text
from pointsman.recording.taints import TaintedSession
from pointsman.storage.stores.turn_index import SessionLine, TurnIndex


def session_lines(
    pointsman: Pointsman, pins: Mapping[str, str], index: TurnIndex, most: int
) -> list[SessionRow]:
    """Give sessions, the latest first; those of workers stand with their planner's."""
    tainted = {each.session_id: each for each in pointsman.tainted()}
    return [
        _row(each, pins.get(each.session_id), tainted.get(each.session_id))
        for each in index.sessions(most)
    ]


def _row(line: SessionLine, pinned: str | None, held: TaintedSession | None) -> SessionRow:
    taint = None
    if held is not None:
        taint = TaintRow(held.taint.turn_id, held.taint.rule_id, instant_text(held.since))
    return SessionRow(
        session_id=line.session_id,
        first_at=instant_text(line.first),
        last_at=instant_text(line.last),
        turns=line.turns,
        fallbacks=line.fallbacks,
        model=line.model,
        model_switches=line.switches,
        pinned_model=pinned,
        taint=taint,
        calls=line.calls,
        cost_usd=microusd_text(MicroUsd(line.cost_microusd)),
    )
