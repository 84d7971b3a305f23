"""A pool of connections to one origin. One request, one answer; failures are raised, not retried.

The one exception: a kept connection that the other side closed before a byte of the answer came is
replaced by a new one.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections import deque
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

from pointsman.errors import InputError
from pointsman.providers.http.address import Resolve, addresses_of, resolve_host
from pointsman.providers.http.connection import UpstreamConnection
from pointsman.providers.http.exchange import AnswerLimits, Exchange, RequestBytes
from pointsman.providers.http.proxy import NO_PROXIES, Proxies, Proxy, open_tunnel, proxy_for
from pointsman.providers.port import Deadlines, NotConfigured, PoolBusy, UpstreamError
from pointsman.turns.registry.upstream import UpstreamOrigin


class PoolSettings(Struct, frozen=True):
    """How many connections a pool has, and how long it keeps those that rest."""

    max_connections: int = 4096
    max_idle: int = 256
    idle_s: float = 30.0
    is_warm: bool = False
    """Whether a connection is opened beside the calls before one is needed."""
    limits: AnswerLimits = AnswerLimits()
    max_age_s: float = 600.0
    """How long a connection is used, so that addresses which change are found anew."""
    allow_private: bool = False
    ca_file: Path | None = None
    """Authorities that are trusted beside the system's."""
    certificate: Path | None = None
    """Our own certificate with its key, for a provider that asks for one."""
    proxies: Proxies = NO_PROXIES


class ConnectionPool:
    """The connections to one origin; nothing it does can reach another one."""

    def __init__(
        self,
        origin: UpstreamOrigin,
        settings: PoolSettings = PoolSettings(),  # noqa: B008 - it is frozen
        *,
        resolve: Resolve = resolve_host,
    ) -> None:
        self._origin = origin
        self._settings = settings
        self._resolve = resolve
        self._tls: ssl.SSLContext | None = None
        if origin.is_tls and settings.certificate is None:
            self._tls = _tls_context(settings.ca_file)
        self._idle: list[UpstreamConnection] = []
        self._open: set[UpstreamConnection] = set()
        self._taken = 0  # connections there are or will be
        self._queue: deque[asyncio.Future[UpstreamConnection | None]] = deque()
        self._warming: asyncio.Task[None] | None = None
        self._is_closed = False
        self._emptied: asyncio.Future[None] | None = None

    @property
    def open_connections(self) -> int:
        """Tell how many connections are open."""
        return len(self._open)

    def begin(self, message: RequestBytes, deadlines: Deadlines, ends_at: float) -> Exchange | None:
        """Send a request at once, where a connection rests."""
        if not self._idle:
            return None
        connection = self._idle.pop()
        if not self._idle:
            self.warm(deadlines)
        return connection.begin(message, deadlines, ends_at)

    def warm(self, deadlines: Deadlines) -> None:
        """Begin to open a connection, where none rests and the settings say so."""
        is_wanted = self._settings.is_warm and not self._idle and self._warming is None
        if is_wanted and not self._is_closed and self._taken < self._settings.max_connections:
            self._taken += 1
            self._warming = asyncio.get_running_loop().create_task(self._open_spare(deadlines))
            self._warming.add_done_callback(self._end_warming)

    def _end_warming(self, _task: asyncio.Task[None]) -> None:
        self._warming = None

    async def _open_spare(self, deadlines: Deadlines) -> None:
        loop = asyncio.get_running_loop()
        try:
            connection = await self._connect(loop, loop.time() + deadlines.connect_s)
        except UpstreamError:
            # The next call finds out by itself, and tells.
            self._give_back()
        except BaseException:
            self._give_back()
            raise
        else:
            self.release(connection)

    async def request(
        self,
        message: RequestBytes,
        deadlines: Deadlines,
        ends_at: float,
        begun: Exchange | None = None,
    ) -> Exchange:
        """Send a request and give its answer once the head is here, whatever its status.

        `begun` is where it was sent already.
        """
        exchange = begun or self.begin(message, deadlines, ends_at)
        if exchange is None:
            connection = await self._take(deadlines, ends_at)
            self.warm(deadlines)
            exchange = connection.begin(message, deadlines, ends_at)
        while not await exchange.wait_for_head():
            connection = await self._take(deadlines, ends_at)
            exchange = connection.begin(message, deadlines, ends_at)
        return exchange

    async def close(self) -> None:
        """Close every connection, and wait until they are closed."""
        self._is_closed = True
        if self._warming is not None:
            self._warming.cancel()
            await asyncio.wait([self._warming])
        while (waiter := self._next_waiter()) is not None:
            waiter.set_exception(_closed_error())
        for connection in self._open:
            connection.break_off("the provider was closed", "cancelled")
        while self._open:
            self._emptied = asyncio.get_running_loop().create_future()
            await self._emptied

    # What a connection calls.

    def release(self, connection: UpstreamConnection) -> None:
        """Pass a connection to the next waiter, or keep it."""
        if connection.born + self._settings.max_age_s < asyncio.get_running_loop().time():
            connection.abort()
            return
        waiter = self._next_waiter() if self._queue else None
        if waiter is not None:
            waiter.set_result(connection)
        elif len(self._idle) < self._settings.max_idle and not self._is_closed:
            self._idle.append(connection)
            connection.rest(self._settings.idle_s)
        else:
            connection.abort()

    def forget(self, connection: UpstreamConnection) -> None:
        """Forget a connection; who waits for one may open its own."""
        if connection in self._open:
            self._open.discard(connection)
            self._give_back()
        if connection in self._idle:
            self._idle.remove(connection)
        if self._emptied is not None and not self._open and not self._emptied.done():
            self._emptied.set_result(None)

    async def _take(self, deadlines: Deadlines, ends_at: float) -> UpstreamConnection:
        if self._is_closed:
            raise _closed_error()
        loop = asyncio.get_running_loop()
        latest = min(loop.time() + deadlines.connect_s, ends_at)
        if self._taken < self._settings.max_connections:
            self._taken += 1
        else:
            connection = await self._wait_for_one(latest)
            if connection is not None:
                return connection
        try:
            return await self._connect(loop, latest)
        except BaseException:
            self._give_back()
            raise

    async def _wait_for_one(self, latest: float) -> UpstreamConnection | None:
        """Wait in line; None is leave to open a new connection."""
        waiter: asyncio.Future[UpstreamConnection | None] = (
            asyncio.get_running_loop().create_future()
        )
        self._queue.append(waiter)
        try:
            async with asyncio.timeout_at(latest):
                return await waiter
        except TimeoutError:
            self._hand_on(waiter)
            most = self._settings.max_connections
            message = f"all {most} connections to `{self._origin.host}` are in use"
            raise PoolBusy(message, hint="`upstream.max_connections` allows more") from None
        except BaseException:
            self._hand_on(waiter)
            raise

    def _hand_on(self, waiter: asyncio.Future[UpstreamConnection | None]) -> None:
        """Pass on the connection of a waiter that gave up before taking it."""
        if not waiter.done() or waiter.cancelled() or waiter.exception() is not None:
            return
        connection = waiter.result()
        if connection is None:
            self._give_back()
        else:
            self.release(connection)

    def _next_waiter(self) -> asyncio.Future[UpstreamConnection | None] | None:
        while self._queue:
            waiter = self._queue.popleft()
            if not waiter.done():
                return waiter
        return None

    def _give_back(self) -> None:
        waiter = self._next_waiter()
        if waiter is None:
            self._taken -= 1
        else:
            waiter.set_result(None)

    async def _connect(self, loop: asyncio.AbstractEventLoop, latest: float) -> UpstreamConnection:
        host = self._origin.host
        try:
            async with asyncio.timeout_at(latest):
                return await self._connect_to_any(loop, latest)
        except TimeoutError:
            message = f"no connection to `{host}` in time"
            raise UpstreamError(message, error_class="timeout", is_unreached=True) from None
        except socket.gaierror as error:
            message = f"`{host}` cannot be found: {error.strerror}"
        except ssl.SSLCertVerificationError as error:
            message = f"the certificate of `{host}` is not accepted: {error.verify_message}"
        except ssl.SSLError as error:
            message = f"`{host}` does not speak TLS as it should: {error.reason or 'broken off'}"
        except OSError as error:
            why = os.strerror(error.errno) if error.errno else "broken off"
            message = f"no connection to `{host}`: {why}"
        raise UpstreamError(message.lower(), error_class="network", is_unreached=True)

    async def _connect_to_any(
        self, loop: asyncio.AbstractEventLoop, latest: float
    ) -> UpstreamConnection:
        settings = self._settings
        if self._origin.is_tls and self._tls is None:
            self._tls = _own_context(settings)
        if (proxy := proxy_for(self._origin, settings.proxies)) is not None:
            return await self._connect_through(loop, proxy)
        addresses = await addresses_of(
            self._origin, self._resolve, allow_private=settings.allow_private
        )
        for left, address in zip(range(len(addresses), 1, -1), addresses, strict=False):
            # A family that leads nowhere must not use up the time of the other.
            share = (latest - loop.time()) / left
            try:
                async with asyncio.timeout(share):
                    return await self._connect_to(loop, address)
            except OSError:
                continue
        return await self._connect_to(loop, addresses[-1])

    async def _connect_through(
        self, loop: asyncio.AbstractEventLoop, proxy: Proxy
    ) -> UpstreamConnection:
        """Connect through a tunnel; who is at its other end is checked by TLS alone."""
        host = self._origin.host
        try:
            transport = await open_tunnel(loop, proxy, self._origin)
        except OSError as error:
            why = error.strerror or "broken off"
            message = f"no connection to the proxy `{proxy.host}`: {why}".lower()
            raise UpstreamError(message, error_class="network", is_unreached=True) from None
        connection = UpstreamConnection(self, loop, host, self._settings.limits)
        if self._tls is None:
            transport.set_protocol(connection)
            connection.connection_made(transport)
            return self._keep(connection)
        try:
            behind = await loop.start_tls(
                transport, connection, self._tls, server_hostname=host.rstrip(".")
            )
        except BaseException:
            transport.abort()
            raise
        if behind is None:
            raise ConnectionResetError
        connection.connection_made(behind)
        return self._keep(connection)

    async def _connect_to(
        self, loop: asyncio.AbstractEventLoop, address: str
    ) -> UpstreamConnection:
        origin = self._origin
        connection = UpstreamConnection(self, loop, origin.host, self._settings.limits)
        await loop.create_connection(
            lambda: connection,
            address,
            origin.port,
            ssl=self._tls,
            server_hostname=origin.host.rstrip(".") if self._tls else None,
        )
        return self._keep(connection)

    def _keep(self, connection: UpstreamConnection) -> UpstreamConnection:
        """Count a connection that was opened, or raise where it is of no use any more."""
        if connection.is_lost:
            raise ConnectionResetError
        if self._is_closed:
            connection.abort()
            raise _closed_error()
        self._open.add(connection)
        return connection


def _closed_error() -> UpstreamError:
    return UpstreamError("the provider was closed", error_class="cancelled")


def _tls_context(ca_file: Path | None) -> ssl.SSLContext:
    if ca_file is None:
        return _system_context(ssl.get_default_verify_paths())
    return _new_context(ca_file)


@lru_cache(4)
def _system_context(_paths: ssl.DefaultVerifyPaths) -> ssl.SSLContext:
    """Return one context for all providers: to read the system's certificates takes 50 ms."""
    return _new_context(None)


def _new_context(ca_file: Path | None) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context()
        if ca_file is not None:
            context.load_verify_locations(ca_file)
    except (OSError, ssl.SSLError):
        raise InputError(f"`{ca_file}` holds no certificates that can be read") from None
    context.set_alpn_protocols(["http/1.1"])
    return context


def _own_context(settings: PoolSettings) -> ssl.SSLContext:
    """Return the context of a provider that is shown a certificate of ours."""
    context = _new_context(settings.ca_file)
    try:
        context.load_cert_chain(settings.certificate or "", password=_no_password)
    except (OSError, ssl.SSLError, ValueError):
        message = f"`{settings.certificate}` holds no certificate with its key that can be read"
        raise NotConfigured(message) from None
    return context


def _no_password() -> str:
    raise ValueError("a key with a password is not used")
