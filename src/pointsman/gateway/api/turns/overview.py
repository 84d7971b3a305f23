"""The last day at a glance, and one session in the tree of planners and workers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from pointsman.errors import NotFound
from pointsman.gateway.access import check_reader
from pointsman.gateway.api.shapes import LedgerState
from pointsman.gateway.api.turns.catalog import TurnCatalog
from pointsman.gateway.api.turns.shapes import (
    BucketRow,
    ModelSpent,
    OverviewAnswer,
    SessionAnswer,
    SessionNode,
)
from pointsman.gateway.asgi import named_parts
from pointsman.gateway.http import Asked, Handler, Receive, Send, answer_value, in_thread
from pointsman.gateway.parts import Parts
from pointsman.kernel.instant import DAY, SECOND, Instant, instant_text
from pointsman.storage.stores.turn_index import ModelLine, TurnIndex
from pointsman.storage.stores.turn_rows import BUCKET

_SESSION: Final = "/api/sessions/{id}"
MOST_WORKERS: Final = 500


class OverviewApi:
    """Serves what a page shows first."""

    def __init__(self, parts: Parts, catalog: TurnCatalog) -> None:
        self._parts = parts
        self._catalog = catalog

    def routes(self) -> dict[tuple[str, str], Handler]:
        """Give what is served where."""
        return {("GET", "/api/overview"): self.overview, ("GET", _SESSION): self.session}

    async def overview(self, asked: Asked, _receive: Receive, send: Send) -> None:
        """Tell how the last day went."""
        check_reader(self._parts, asked)
        await answer_value(send, await in_thread(self._looked))

    def _looked(self) -> OverviewAnswer:
        pointsman = self._parts.pointsman
        index, behind = self._catalog.looked()
        now = pointsman.clock.now()
        since, midnight = Instant(now - DAY), Instant(now - now % DAY)
        buckets = index.buckets(since)
        today = [each for each in buckets if each.start >= midnight]
        ledger, in_force = pointsman.desk.recorder().health, pointsman.in_force()
        return OverviewAnswer(
            at=instant_text(now),
            since=instant_text(since),
            bucket_s=BUCKET // SECOND,
            buckets=tuple(
                BucketRow(
                    instant_text(each.start),
                    each.model,
                    each.turns,
                    each.fallbacks,
                    each.cost_microusd,
                )
                for each in buckets
            ),
            cost_today_microusd=sum(each.cost_microusd for each in today),
            turns_today=sum(each.turns for each in today),
            tainted_sessions=len(pointsman.tainted()),
            ledger=LedgerState(writable=ledger.is_writable, cause=ledger.cause),
            configuration=tuple(str(each) for each in in_force.problems),
            default_model=", ".join(in_force.ready.defaults),
            behind=behind,
        )

    async def session(self, asked: Asked, _receive: Receive, send: Send) -> None:
        """Tell what a session and its workers did and cost."""
        check_reader(self._parts, asked)
        name = named_parts(_SESSION, asked.path)["id"]
        await answer_value(send, await in_thread(lambda: self._session(name)))

    def _session(self, name: str) -> SessionAnswer:
        index, behind = self._catalog.looked()
        workers: dict[str, list[str]] = defaultdict(list)
        parent = None
        for planner, worker in index.workers():
            workers[planner].append(worker)
            parent = planner if worker == name else parent
        if (
            not index.sessions(1, name, with_workers=True)
            and name not in workers
            and parent is None
        ):
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
        models = [_model(each) for each in self._index.session_models(name)]
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


def _model(line: ModelLine) -> ModelSpent:
    return ModelSpent(**msgspec.structs.asdict(line))
