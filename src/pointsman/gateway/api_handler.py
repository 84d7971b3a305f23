"""Serving a route of the product's own API: admit the caller, call the handler, write the answer.

Handlers are loaded with their first request: most gateways serve models alone, and should neither
wait for agents and workflows nor hold them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

from pointsman.access.keys import ANONYMOUS
from pointsman.errors import LedgerError, PointsmanError
from pointsman.gateway.api.request import ApiRequest
from pointsman.gateway.serving.access import admit, find_caller, is_known
from pointsman.gateway.serving.http import Asked, Receive, Send, in_thread, write_answer
from pointsman.gateway.serving.route import Route, load_name
from pointsman.gateway.serving.services import GatewayServices
from pointsman.gateway.telemetry.logs import LogLine

_QUIET: Final = frozenset({"/health", "/health/readiness", "/metrics"})
"""Asked every few seconds by machines: logged only when something is wrong."""

Work = Callable[[ApiRequest], Awaitable[object]]


class HandlerObjects:
    """One object of each handlers' class, made when it is first needed."""

    def __init__(self, parts: GatewayServices) -> None:
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

    def __init__(self, parts: GatewayServices, route: Route, objects: HandlerObjects) -> None:
        self._parts = parts
        self._route = route
        self._objects = objects
        self._work: Work | None = None

    async def __call__(self, asked: Asked, receive: Receive, send: Send) -> None:
        """Serve one request, and log it by its route: paths hold names of people's things."""
        log = self._parts.log
        if not log.is_on:
            await self._serve(asked, receive, send)
            return
        started, status, code = time.perf_counter_ns(), 500, ""
        try:
            await self._serve(asked, receive, send)
            status = send.status
        except PointsmanError as error:
            status, code = error.http_status, error.code
            raise
        finally:
            elapsed_us = (time.perf_counter_ns() - started) // 1000
            if status >= 400 or self._route.path not in _QUIET:
                name = " ".join(self._route.key)
                line = LogLine(log.now(), name, status, elapsed_us, error_class=code, event="api")
                log.request(line)

    def check_caller(self, asked: Asked) -> bool:
        """Tell whether the caller is known, or raise why they are refused whatever they send."""
        route = self._route
        self._look_around()
        if route.scope == "none":
            return is_known(self._parts, asked)
        if route.scope == "any":
            find_caller(self._parts, asked)
        else:
            admit(self._parts, asked, route)
        return True

    async def _serve(self, asked: Asked, receive: Receive, send: Send) -> None:
        route = self._route
        work = await in_thread(self._load) if self._work is None else self._work
        self._look_around()
        is_admitted_later = route.call_name or route.scope in {"none", "any"}
        caller = ANONYMOUS if is_admitted_later else admit(self._parts, asked, route)
        answer = await work(ApiRequest(route, asked, caller))
        await write_answer(answer, route.status, receive, send)

    def _look_around(self) -> None:
        """Learn of keys that another gateway made or ended; what cannot be read is read later."""
        if self._parts.neighbours is not None:
            with suppress(LedgerError):
                self._parts.neighbours.look_once()

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
