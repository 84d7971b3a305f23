"""Sessions over HTTP: which there are, which model they are bound to, and why they stay here."""

from __future__ import annotations

import asyncio

from pointsman.access.keys import Principal
from pointsman.errors import InputError, NotFound
from pointsman.gateway.access import check_reader
from pointsman.gateway.api import query
from pointsman.gateway.api.bodies import body_as
from pointsman.gateway.api.sessions.lines import session_lines
from pointsman.gateway.api.shapes import (
    ClearTaintAnswer,
    ClearTaintBody,
    PinAnswer,
    PinBody,
    SessionsAnswer,
)
from pointsman.gateway.api.turns.catalog import TurnCatalog
from pointsman.gateway.asgi import Handler, named_parts
from pointsman.gateway.http import Asked, Receive, Send, answer_value, in_thread
from pointsman.gateway.parts import Parts
from pointsman.gateway.turns.incoming import resolve_model
from pointsman.kernel.record import Names
from pointsman.recording.pins import Pinning, pinning_draft

_PIN = "/api/sessions/{id}/pin"
_TAINT = "/api/sessions/{id}/clear-taint"


class SessionApi:
    """Serves sessions."""

    def __init__(self, parts: Parts, catalog: TurnCatalog) -> None:
        self._parts = parts
        self._catalog = catalog

    def routes(self) -> dict[tuple[str, str], Handler]:
        """Give what is served where."""
        return {
            ("GET", "/api/sessions"): self.sessions,
            ("POST", _PIN): self.pin,
            ("DELETE", _PIN): self.unpin,
            ("POST", _TAINT): self.clear_taint,
        }

    async def sessions(self, asked: Asked, _receive: Receive, send: Send) -> None:
        """List the latest sessions."""
        check_reader(self._parts, asked)
        most, parts = query.limit(asked), self._parts
        pins = {each.session_id: each.model for each in parts.sessions.pins()}

        def found() -> SessionsAnswer:
            index, _ = self._catalog.looked()
            rows = session_lines(parts.pointsman, pins, index, most)
            return SessionsAnswer(tuple(rows), index.count())

        await answer_value(send, await in_thread(found))

    async def pin(self, asked: Asked, _receive: Receive, send: Send) -> None:
        """Bind a session to a model."""
        caller = check_reader(self._parts, asked, "act")
        name = _session_of(caller, named_parts(_PIN, asked.path)["id"])
        wanted = body_as(asked, PinBody).model
        model = resolve_model(wanted, self._parts.pointsman.in_force()).model
        if not model:
            raise InputError(
                f"`{wanted}` is no model to be bound to", hint="DELETE takes a pin off"
            )
        await self._bind(name, model, caller)
        await answer_value(send, PinAnswer(name, model))

    async def unpin(self, asked: Asked, _receive: Receive, send: Send) -> None:
        """Let a session go from its model."""
        caller = check_reader(self._parts, asked, "act")
        name = _session_of(caller, named_parts(_PIN, asked.path)["id"])
        if not self._parts.sessions.found(name).pinned_model:
            raise NotFound(f"the session `{name}` is bound to no model")
        await self._bind(name, None, caller)
        await answer_value(send, PinAnswer(name, None))

    async def _bind(self, name: str, model: str | None, caller: Principal) -> None:
        """Record a pin, and keep it once it is recorded."""
        pointsman = self._parts.pointsman
        names = Names(pointsman.ids.new_id(), "", pointsman.clock.now())
        draft = pinning_draft(names, Pinning(name, model, caller.key_id))
        await asyncio.wrap_future(pointsman.desk.recorder().append(draft))
        await asyncio.wrap_future(self._parts.sessions.pin(name, model, names.at))

    async def clear_taint(self, asked: Asked, _receive: Receive, send: Send) -> None:
        """Let a session leave this machine again."""
        caller = check_reader(self._parts, asked, "act")
        name = _session_of(caller, named_parts(_TAINT, asked.path)["id"])
        reason = body_as(asked, ClearTaintBody).reason
        pointsman = self._parts.pointsman
        taint = await in_thread(lambda: pointsman.clear_taint(name, reason))
        await answer_value(send, ClearTaintAnswer(name, taint.turn_id, taint.rule_id))


def _session_of(caller: Principal, name: str) -> str:
    """Give a session's whole name: a key reaches its own sessions, an admin all of them."""
    if not caller.key_id or caller.is_admin or name.startswith(f"{caller.key_id}/"):
        return name
    return f"{caller.key_id}/{name}"
