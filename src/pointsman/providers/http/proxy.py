"""Proxies of a network: which one a call goes through, and the tunnel that it opens there.

Everything goes through a tunnel (CONNECT), so that a proxy sees a host name and no more.
"""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Callable, Mapping
from ipaddress import ip_network
from typing import Final, cast
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from pointsman.providers.port import NotConfigured, UpstreamError
from pointsman.turns.registry.upstream import UpstreamOrigin, literal_address

_LONGEST_HEAD: Final = 16 * 1024
_ANSWER: Final = re.compile(rb"HTTP/1\.[01] ([0-9]{3})[ \r]")


class Proxies(Struct, frozen=True):
    """The proxies that the environment names, each with its variable, and the hosts without one.

    They may hold passwords, so they are not shown.
    """

    https: tuple[str, str] | None = None
    http: tuple[str, str] | None = None
    without: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return "Proxies()"


class Proxy(Struct, frozen=True):
    """One proxy; `authorization` holds a password."""

    host: str
    port: int
    authorization: str = ""

    def __repr__(self) -> str:
        return f"Proxy({self.host}:{self.port})"


NO_PROXIES: Final = Proxies()


def read_proxies(environment: Mapping[str, str]) -> Proxies:
    """Return what HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY say; small letters come first."""

    def value(*names: str) -> tuple[str, str] | None:
        spelled = (each for name in names for each in (name.lower(), name))
        return next(((name, environment[name]) for name in spelled if environment.get(name)), None)

    excepted = value("NO_PROXY")
    listed = "" if excepted is None else excepted[1]
    return Proxies(
        https=value("HTTPS_PROXY", "ALL_PROXY"),
        http=value("HTTP_PROXY", "ALL_PROXY"),
        without=tuple(each.strip().lower() for each in listed.split(",") if each.strip()),
    )


def proxy_for(origin: UpstreamOrigin, proxies: Proxies) -> Proxy | None:
    """Return the proxy of an origin, or raise where the environment names one that cannot serve."""
    named = proxies.https if origin.is_tls else proxies.http
    if named is None or _is_excepted(origin, proxies.without):
        return None
    return read_proxy(*named)


def read_proxy(variable: str, url: str) -> Proxy:
    """Return the proxy that a variable names."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host, port = parts.hostname or "", parts.port or 80
    except ValueError:
        host, port, parts = "", 0, urlsplit("")
    if parts.scheme != "http" or not host:
        # The address itself is not repeated: it may hold a password.
        raise NotConfigured(f"{variable} names no proxy by `http://`", hint="only such are used")
    if parts.username is None:
        return Proxy(host, port)
    said = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return Proxy(host, port, "Basic " + base64.b64encode(said.encode()).decode())


def _is_excepted(origin: UpstreamOrigin, without: tuple[str, ...]) -> bool:
    host = origin.host.rstrip(".").lower()
    address = literal_address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    for each in without:
        bare, _, port = each.rpartition(":") if each.count(":") == 1 else (each, "", "")
        if port and port != str(origin.port):
            continue
        name = bare.lstrip("*").lstrip(".")
        if each == "*" or host == name or (name and host.endswith(f".{name}")):
            return True
        if address is not None and "/" in each and _holds(each, host):
            return True
    return False


def _holds(network: str, host: str) -> bool:
    try:
        return literal_address(host) in ip_network(network, strict=False)
    except ValueError:
        return False


async def open_tunnel(
    loop: asyncio.AbstractEventLoop, proxy: Proxy, origin: UpstreamOrigin
) -> asyncio.Transport:
    """Open a tunnel to an origin, or raise; nothing was read from behind it yet."""
    tunnel = _Tunnel(loop, proxy, origin)
    transport, _ = await loop.create_connection(lambda: tunnel, proxy.host, proxy.port)
    try:
        await tunnel.opened
    except BaseException:
        transport.abort()
        raise
    return transport


class _Tunnel(asyncio.Protocol):
    """Asks for a tunnel, and reads the answer up to its end."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, proxy: Proxy, origin: UpstreamOrigin
    ) -> None:
        self.opened: asyncio.Future[None] = loop.create_future()
        self._proxy = proxy
        host = f"[{origin.host}]" if ":" in origin.host else origin.host
        self._target = f"{host}:{origin.port}"
        self._said = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask."""
        known = self._proxy.authorization
        lines = f"proxy-authorization: {known}\r\n" if known else ""
        asked = f"CONNECT {self._target} HTTP/1.1\r\nhost: {self._target}\r\n{lines}\r\n"
        cast("asyncio.Transport", transport).write(asked.encode("latin-1", "replace"))

    def data_received(self, data: bytes) -> None:
        """Read the answer."""
        self._said += data
        head, end, rest = self._said.partition(b"\r\n\r\n")
        if not end and len(self._said) < _LONGEST_HEAD:
            return
        found = _ANSWER.match(head)
        status = int(found[1]) if found and end else 0
        if 200 <= status < 300 and not rest:
            self._tell(lambda: self.opened.set_result(None))
        else:
            why = f"answered {status}" if status else "gave no answer that can be read"
            message = f"the proxy `{self._proxy.host}` {why} for `{self._target}`"
            error = UpstreamError(message, error_class="network", is_unreached=True)
            self._tell(lambda: self.opened.set_exception(error))

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio names it
        """Fail."""
        self._tell(lambda: self.opened.set_exception(ConnectionResetError()))

    def _tell(self, how: Callable[[], None]) -> None:
        if not self.opened.done():
            how()
