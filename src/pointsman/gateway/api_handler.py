"""Serving a route of the product's own API: admit the caller, call the handler, write the answer.

Handlers are loaded with their first request: most gateways serve models alone, and should neither
wait for agents and workflows nor hold them.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from typing import Any

from pointsman.access.keys import ANONYMOUS
from pointsman.gateway.access import admit
from pointsman.gateway.api.request import ApiRequest
from pointsman.gateway.http import Asked, Receive, Send, in_thread, write_answer
from pointsman.gateway.parts import Parts
from pointsman.gateway.route import Route, load_name

Work = Callable[[ApiRequest], Awaitable[object]]


class HandlerObjects:
    """One object of each handlers' class, made when it is first needed."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._made: dict[str, Any] = {}
        self._lock = threading.Lock()

    def get(self, name: str) -> Any:
        """Return the object of a class by its whole name."""
        with self._lock:
            if name not in self._made:
                self._made[name] = load_name(name)(self._parts)
            return self._made[name]


class ApiHandler:
    """Serves one route."""

    def __init__(self, parts: Parts, route: Route, objects: HandlerObjects) -> None:
        self._parts = parts
        self._route = route
        self._objects = objects
        self._work: Work | None = None

    async def __call__(self, asked: Asked, receive: Receive, send: Send) -> None:
        """Serve one request."""
        route = self._route
        work = await in_thread(self._load) if self._work is None else self._work
        is_admitted_later = route.call_name or route.scope in {"none", "any"}
        caller = ANONYMOUS if is_admitted_later else admit(self._parts, asked, route.key_scope)
        answer = await work(ApiRequest(route, asked, caller))
        await write_answer(answer, route.status, receive, send)

    def _load(self) -> Work:
        name, _, method = self._route.handler.rpartition(".")
        handlers = self._objects.get(name)
        work: Work = getattr(handlers, method)
        if self._route.call_name:
            # Imported here: only the agents' routes need it.
            from pointsman.gateway.api.agents.call import AgentCalls  # noqa: PLC0415

            threads = handlers.threads if self._route.is_long else None
            work = AgentCalls(self._parts).serve_with(getattr(handlers, method), threads)
        self._work = work
        return work
