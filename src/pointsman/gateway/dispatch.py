"""Dispatch: check the head of a request, find its handler, run it, answer its errors.

No framework: the model endpoints are on the hot path, and the rest is few enough.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from pointsman.errors import (
    HostRefused,
    NotAuthenticated,
    OriginRefused,
    PointsmanError,
)
from pointsman.gateway.route_table import RouteTable
from pointsman.gateway.serving.http import (
    JSON,
    NO_STORE,
    Asked,
    Handler,
    RouteHandler,
    answer,
    answer_value,
    error_value,
    in_thread,
)
from pointsman.gateway.serving.services import GatewayServices
from pointsman.gateway.wire.reply import Reply
from pointsman.kernel.instant import instant_text
from pointsman.providers.port import Dialect
from pointsman.providers.registry.dialects import speaker

LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "[::1]", "::1"})
HOUSEKEEPING_S: Final = 60.0
MOST_HOSTS: Final = 64


class Gateway:
    """The service."""

    def __init__(
        self, parts: GatewayServices, handlers: RouteTable[RouteHandler], hosts: frozenset[str]
    ) -> None:
        self._parts = parts
        self._handlers = handlers
        self._hosts = hosts
        self._known_hosts: set[bytes | None] = set()
        """As callers wrote them, found good."""
        self._origins = frozenset(parts.settings.server.origins)
        self._keeping: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Keep house from the first request to the last."""
        self._keeping = asyncio.get_running_loop().create_task(self._keep_house())
        self._parts.providers.warm(self._parts.deadlines)
        for begin in self._parts.starting:
            begin()

    def drain(self) -> None:
        """Report not ready from now on; requests that still come are served."""
        self._parts.stopping.append(True)

    def stop(self) -> None:
        """End the live feed: its readers would keep the server from stopping."""
        self._parts.feed.end()

    async def end(self) -> None:
        """Let go of every connection to a provider."""
        for finish in self._parts.finishing:
            finish()
        if self._keeping is not None:
            self._keeping.cancel()
        await self._parts.providers.close()

    def admit(self, method: str, path: str, headers: dict[bytes, bytes]) -> RouteHandler:
        """Return the handler of a request, by its head alone, or raise why it is refused."""
        if headers.get(b"host") not in self._known_hosts:
            self._check_host(headers)
        if b"origin" in headers:
            self._check_origin(headers)
        method = "GET" if method == "HEAD" else method
        return self._handlers.exact.get((method, path)) or self._handlers.find(method, path)

    def check_caller(self, asked: Asked, handler: RouteHandler) -> bool:
        """Tell whether the caller is known, by the head alone, or raise why it is refused."""
        return handler.check_caller(asked)

    async def serve(self, asked: Asked, handler: Handler | PointsmanError, reply: Reply) -> None:
        """Serve one request, or tell why it is refused."""
        if isinstance(handler, PointsmanError):
            await self._tell(asked, reply, handler)
            return
        try:
            await handler(asked, reply, reply)
        except PointsmanError as error:
            if isinstance(error, NotAuthenticated):
                self._parts.metrics.refused_key(error)
            await self._tell(asked, reply, error)
        except Exception as error:  # noqa: BLE001 - see below
            # The outermost edge: unforeseen errors are logged here and answered without details.
            self._parts.log.unforeseen(error)
            told = PointsmanError("something went wrong here; it is logged")
            await self._tell(asked, reply, told)

    async def _keep_house(self) -> None:
        """Write down, now and then, when keys were used last."""
        while True:
            await asyncio.sleep(HOUSEKEEPING_S)
            await in_thread(self._parts.keyring.write_uses)

    def _check_host(self, headers: Mapping[bytes, bytes]) -> None:
        """Refuse names that are not ours: a page elsewhere must not reach us by rebinding one."""
        host = headers.get(b"host", b"").decode("latin-1")
        name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
        if name.lower() not in self._hosts and "*" not in self._hosts:
            raise HostRefused(f"`{host[:80]}` is not served here", hint="server.hosts names others")
        if len(self._known_hosts) < MOST_HOSTS:
            self._known_hosts.add(headers.get(b"host"))

    def _check_origin(self, headers: Mapping[bytes, bytes]) -> None:
        origin = headers.get(b"origin")
        if origin is None:
            return
        text = origin.decode("latin-1")
        own = headers.get(b"host", b"").decode("latin-1")
        if text in self._origins or text in {f"http://{own}", f"https://{own}"}:
            return
        raise OriginRefused(f"pages of `{text[:80]}` may not ask here", hint="server.origins")

    async def _tell(self, asked: Asked, send: Reply, error: PointsmanError) -> None:
        """Tell an error: on the vendors' routes as they do, elsewhere in our own shape."""
        if send.has_begun:
            return
        if asked.path.startswith("/v1/"):
            body = _vendor_error(asked.path, error)
            await answer(send, error.http_status, body, [JSON, NO_STORE])
            return
        pointsman = self._parts.pointsman
        value = error_value(error, pointsman.ids.new_id(), instant_text(pointsman.clock.now()))
        await answer_value(send, value, error.http_status)


def _vendor_error(path: str, error: PointsmanError) -> bytes:
    dialect: Dialect = "messages" if path.startswith("/v1/messages") else "chat"
    message = f"{error.message} ({error.hint})" if error.hint else error.message
    return speaker(dialect).write_error(error.http_status, error.code, message)
