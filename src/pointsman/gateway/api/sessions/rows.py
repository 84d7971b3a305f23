"""Sessions as rows of a list, and one session in the tree of planners and workers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from pointsman.app import Pointsman
from pointsman.errors import NotFound
from pointsman.gateway.api.sessions.shapes import (
    ModelSpent,
    SessionAnswer,
    SessionNode,
    SessionRow,
    TaintRow,
)
from pointsman.kernel.instant import instant_text
from pointsman.kernel.number import MicroUsd, microusd_text
from pointsman.recording.taints import TaintedSession
from pointsman.storage.stores.turn_index import SessionLine, TurnIndex

MOST_WORKERS: Final = 500


def session_rows(
    pointsman: Pointsman, pins: Mapping[str, str], index: TurnIndex, most: int
) -> list[SessionRow]:
    """Return sessions, the latest first; those of workers stand with their planner's."""
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


def session_answer(index: TurnIndex, behind: int, name: str) -> SessionAnswer:
    """Return a session with all its workers, and the planner it works for."""
    workers: dict[str, list[str]] = defaultdict(list)
    parent = None
    for planner, worker in index.workers():
        workers[planner].append(worker)
        parent = planner if worker == name else parent
    is_known = name in workers or parent is not None
    if not is_known and not index.sessions(1, name, with_workers=True):
        raise NotFound(f"no session is recorded as `{name[:100]}`")
    return SessionAnswer(_Tree(index, workers).node(name), parent, behind)


class _Tree:
    """Walks from a planner to its workers; a session is shown once, and not without end."""

    def __init__(self, index: TurnIndex, workers: Mapping[str, Sequence[str]]) -> None:
        self._index = index
        self._workers = workers
        self._seen: set[str] = set()

    def node(self, name: str) -> SessionNode:
        self._seen.add(name)
        found = next(iter(self._index.sessions(1, name, with_workers=True)), None)
        below = [
            self.node(each)
            for each in self._workers.get(name, ())
            if each not in self._seen and len(self._seen) < MOST_WORKERS
        ]
        own = 0 if found is None else found.cost_microusd
        models = [
            ModelSpent(**msgspec.structs.asdict(line)) for line in self._index.session_models(name)
        ]
        return SessionNode(
            session_id=name,
            first_at=None if found is None else instant_text(found.first),
            last_at=None if found is None else instant_text(found.last),
            is_worker=found is not None and bool(found.is_worker),
            turns=0 if found is None else found.turns,
            fallbacks=0 if found is None else found.fallbacks,
            calls=0 if found is None else found.calls,
            cost_microusd=own,
            cost_with_workers_microusd=own + sum(e.cost_with_workers_microusd for e in below),
            models=tuple(models),
            workers=tuple(msgspec.to_builtins(each) for each in below),
        )
