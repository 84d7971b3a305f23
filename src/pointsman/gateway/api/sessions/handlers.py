"""Sessions over HTTP: which there are, which model they are bound to, and why they stay here."""

from __future__ import annotations

import asyncio

from pointsman.access.keys import Principal
from pointsman.errors import InputError, NotFound
from pointsman.gateway.api.request import ApiRequest
from pointsman.gateway.api.sessions.rows import session_answer, session_rows
from pointsman.gateway.api.sessions.shapes import (
    ClearTaintAnswer,
    ClearTaintBody,
    PinAnswer,
    PinBody,
    SessionAnswer,
    SessionsAnswer,
)
from pointsman.gateway.serving.http import in_thread
from pointsman.gateway.serving.services import GatewayServices
from pointsman.gateway.turns.incoming import resolve_model
from pointsman.kernel.record import Names
from pointsman.recording.pins import Pinning, pinning_draft


class SessionApi:
    """Serves sessions."""

    def __init__(self, parts: GatewayServices) -> None:
        self._parts = parts
        self._catalog = parts.catalog

    async def list_sessions(self, request: ApiRequest) -> SessionsAnswer:
        """List the latest sessions."""
        most, parts = request.limit(), self._parts
        pins = {each.session_id: each.model for each in parts.sessions.pins()}

        def read_sessions() -> SessionsAnswer:
            index, _ = self._catalog.look()
            rows = session_rows(parts.pointsman, pins, index, most)
            return SessionsAnswer(tuple(rows), index.count())

        return await in_thread(read_sessions)

    async def show_session(self, request: ApiRequest) -> SessionAnswer:
        """Tell what a session and its workers did and cost."""
        name = request.part("id")
        return await in_thread(lambda: session_answer(*self._catalog.look(), name))

    async def pin_session(self, request: ApiRequest) -> PinAnswer:
        """Bind a session to a model."""
        caller = request.caller
        name = _whole_name(caller, request.part("id"))
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
        name = _whole_name(caller, request.part("id"))
        if not self._parts.sessions.find(name).pinned_model:
            raise NotFound(f"the session `{name}` is bound to no model")
        await self._bind(name, None, caller)
        return PinAnswer(name, None)

    async def _bind(self, name: str, model: str | None, caller: Principal) -> None:
        """Record a pin, and keep it once it is recorded."""
        pointsman = self._parts.pointsman
        names = Names(pointsman.ids.new_id(), "", pointsman.clock.now())
        draft = pinning_draft(names, Pinning(name, model, caller.key_id))
        await asyncio.wrap_future(pointsman.desk.recorder().append(draft))
        await asyncio.wrap_future(self._parts.sessions.pin(name, model, names.at))

    async def clear_taint(self, request: ApiRequest) -> ClearTaintAnswer:
        """Let a session leave this machine again."""
        caller = request.caller
        name = _whole_name(caller, request.part("id"))
        reason = request.body_as(ClearTaintBody).reason
        pointsman = self._parts.pointsman
        taint = await in_thread(lambda: pointsman.clear_taint(name, reason))
        return ClearTaintAnswer(name, taint.turn_id, taint.rule_id)


def _whole_name(caller: Principal, name: str) -> str:
    """Return a session's whole name: a key reaches its own sessions, an admin all of them."""
    if not caller.key_id or caller.is_admin or name.startswith(f"{caller.key_id}/"):
        return name
    return f"{caller.key_id}/{name}"
