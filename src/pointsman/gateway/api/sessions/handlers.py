"""Sessions over HTTP: which there are, which model they are bound to, and why they stay here."""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from pointsman.access.keys import Principal
from pointsman.app import Pointsman
from pointsman.errors import InputError, NotFound
from pointsman.gateway.api.request import ApiRequest
from pointsman.gateway.api.sessions.shapes import (
    ClearTaintAnswer,
    ClearTaintBody,
    ModelSpent,
    PinAnswer,
    PinBody,
    SessionAnswer,
    SessionNode,
    SessionRow,
    SessionsAnswer,
    TaintRow,
)
from pointsman.gateway.serving.http import in_thread
from pointsman.gateway.serving.neighbours import PINS
from pointsman.gateway.serving.services import GatewayServices
from pointsman.gateway.turns.incoming import resolve_model
from pointsman.kernel.instant import instant_text
from pointsman.kernel.number import MicroUsd, microusd_text
from pointsman.kernel.record import Names
from pointsman.recording.pins import Pinning, pinning_draft
from pointsman.recording.taints import TaintedSession
from pointsman.storage.stores.turn_index import SessionLine, TurnIndex

MOST_WORKERS: Final = 500


def session_rows(
    pointsman: Pointsman, pins: Mapping[str, str], index: TurnIndex, most: int, reach: str | None
) -> list[SessionRow]:
    """Return sessions, the latest first; those of workers stand with their planner's."""
    tainted = {each.session_id: each for each in pointsman.tainted()}
    return [
        _row(each, pins.get(each.session_id), tainted.get(each.session_id))
        for each in index.sessions(most, tenant=reach)
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


def no_session(name: str) -> NotFound:
    """Return the error of a session that is not there, or is not the caller's."""
    return NotFound(f"no session is recorded as `{name[:100]}`")


def session_answer(index: TurnIndex, behind: int, name: str, reach: str | None) -> SessionAnswer:
    """Return a session with all its workers, and the planner it works for."""
    workers: dict[str, list[str]] = defaultdict(list)
    parent = None
    for planner, worker in index.workers():
        workers[planner].append(worker)
        parent = planner if worker == name else parent
    # One that only has workers, or whose planner alone is known, has no tenant.
    is_known = reach is None and (name in workers or parent is not None)
    if not is_known and not index.sessions(1, name, with_workers=True, tenant=reach):
        raise no_session(name)
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


class SessionApi:
    """Serves sessions."""

    def __init__(self, parts: GatewayServices) -> None:
        self._parts = parts
        self._catalog = parts.catalog

    async def list_sessions(self, request: ApiRequest) -> SessionsAnswer:
        """List the latest sessions."""
        most, parts, reach = request.limit(), self._parts, request.caller.reach
        pins = {each.session_id: each.model for each in parts.sessions.pins()}

        def read_sessions() -> SessionsAnswer:
            index, _ = self._catalog.look()
            rows = session_rows(parts.pointsman, pins, index, most, reach)
            return SessionsAnswer(tuple(rows), index.count(reach))

        return await in_thread(read_sessions)

    async def show_session(self, request: ApiRequest) -> SessionAnswer:
        """Tell what a session and its workers did and cost."""
        name, reach = request.part("id"), request.caller.reach
        return await in_thread(lambda: session_answer(*self._catalog.look(), name, reach))

    async def pin_session(self, request: ApiRequest) -> PinAnswer:
        """Bind a session to a model."""
        caller = request.caller
        name = await self._find_name(caller, request.part("id"))
        wanted = request.body_as(PinBody).model
        model = resolve_model(wanted, self._parts.pointsman.in_force()).model
        if not model:
            raise InputError(
                f"`{wanted}` is no model to be bound to", hint="DELETE takes a pin off"
            )
        await self._bind(name, model, caller)
        return PinAnswer(name, model)

    async def unpin_session(self, request: ApiRequest) -> PinAnswer:
        """Unbind a session from its model."""
        caller = request.caller
        name = await self._find_name(caller, request.part("id"))
        if not self._parts.sessions.find(name).pinned_model:
            raise NotFound(f"the session `{name}` is bound to no model")
        await self._bind(name, None, caller)
        return PinAnswer(name, None)

    async def _bind(self, name: str, model: str | None, caller: Principal) -> None:
        """Record a pin, and keep it once it is recorded."""
        pointsman = self._parts.pointsman
        names = Names(pointsman.ids.new_id(), "", pointsman.clock.now())
        draft = pinning_draft(names, Pinning(name, model, caller.key_id))
        await asyncio.wrap_future(pointsman.decision_recorder.recorder().append(draft))
        await asyncio.wrap_future(self._parts.sessions.pin(name, model, names.at))
        self._parts.announce(PINS)

    async def clear_taint(self, request: ApiRequest) -> ClearTaintAnswer:
        """Let a session leave this machine again."""
        caller = request.caller
        name = await self._find_name(caller, request.part("id"))
        reason = request.body_as(ClearTaintBody).reason
        pointsman = self._parts.pointsman
        taint = await in_thread(lambda: pointsman.clear_taint(name, reason))
        return ClearTaintAnswer(name, taint.turn_id, taint.rule_id)

    async def _find_name(self, caller: Principal, name: str) -> str:
        """Return a session's whole name: a caller reaches those of its tenant, an admin all.

        A name that is not whole is one of the caller's own key; the session may not have begun yet.
        """
        reach, parts = caller.reach, self._parts
        now = parts.pointsman.clock.now()
        if reach is None or parts.keyring.session_tenant(name, now) == reach:
            return name
        if _WITH_KEY.match(name) is not None:
            raise no_session(name)
        is_known = await in_thread(
            lambda: self._catalog.look()[0].sessions(1, name, with_workers=True, tenant=reach)
        )
        return name if is_known else f"{caller.key_id}/{name}"


_WITH_KEY = re.compile(r"[a-z2-7]{16}/", re.ASCII)
