"""Requests that call no model, told to the log: by their route, never by what is in the path."""

from __future__ import annotations

import time
from typing import Final

from pointsman.errors import PointsmanError
from pointsman.gateway.http import Asked, Handler, Receive, Send
from pointsman.gateway.parts import Parts
from pointsman.gateway.telemetry.logs import Line

_QUIET: Final = frozenset({"/health", "/health/readiness", "/metrics"})
"""Asked every few seconds by machines: told only when something is wrong."""


class ToldRoute:
    """One route that is told to the log when its answer is out."""

    def __init__(self, parts: Parts, key: tuple[str, str], handler: Handler) -> None:
        self._parts = parts
        self._name = " ".join(key)
        self._is_quiet = key[1] in _QUIET
        self._handler = handler

    async def __call__(self, asked: Asked, receive: Receive, send: Send) -> None:
        """Serve one request."""
        log = self._parts.log
        if not log.is_on:
            await self._handler(asked, receive, send)
            return
        started, status, code = time.perf_counter_ns(), 500, ""
        try:
            await self._handler(asked, receive, send)
            status = send.status
        except PointsmanError as error:
            status, code = error.http_status, error.code
            raise
        finally:
            elapsed_us = (time.perf_counter_ns() - started) // 1000
            if status >= 400 or not self._is_quiet:
                log.request(
                    Line(log.now(), self._name, status, elapsed_us, error_class=code, event="api")
                )
