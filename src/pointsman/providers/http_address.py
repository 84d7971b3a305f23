"""Where a provider is: its address as configured, and which network addresses may serve it.

INVARIANT: an address comes from configuration only, and the one that was checked is the one that
is connected to.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

from msgspec import Struct

from pointsman.errors import InputError
from pointsman.providers.port import UpstreamError

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Gives the network addresses of a host name, those to try first in front."""

_HOST = re.compile(r"[a-z0-9_]([a-z0-9_.-]{0,251}[a-z0-9_])?\.?", re.ASCII)
_PATH = re.compile(r"[A-Za-z0-9/._~!$&'()*+,;=:@%-]*", re.ASCII)
_PORTS = {"http": 80, "https": 443}

_NAT64 = ip_network("64:ff9b::/96")
_SERVICES = frozenset(
    {
        ip_address("168.63.129.16"),  # Azure's wire server stands in a public range
        ip_address("192.0.0.192"),  # Oracle's metadata; older Pythons call it public
    }
)


class Origin(Struct, frozen=True):
    """Scheme, host and port. One pool of connections belongs to one of these."""

    is_tls: bool
    host: str
    port: int

    @property
    def host_header(self) -> str:
        """Give the value of the `host` header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = _PORTS["https" if self.is_tls else "http"]
        return host if self.port == usual else f"{host}:{self.port}"

    @property
    def is_consented(self) -> bool:
        """Tell whether the configuration itself names an address, and so means it."""
        return self.host == "localhost" or _literal(self.host) is not None

    def __str__(self) -> str:
        return f"{'https' if self.is_tls else 'http'}://{self.host_header}"


def read_base_url(text: str) -> tuple[Origin, str]:
    """Give the origin of a configured address and its path without a slash at the end."""
    try:
        parts = urlsplit(text)
        port = parts.port
        host = parts.hostname or ""
    except ValueError:
        raise _refused("is no address") from None
    if parts.scheme not in _PORTS:
        raise _refused("begins with neither `https://` nor `http://`")
    if "@" in parts.netloc:
        raise _refused("holds a name or a password: write `api_key: {env: NAME}` instead")
    if parts.query or parts.fragment or "?" in text or "#" in text:
        raise _refused("holds `?` or `#`: write `query:` instead")
    if not (_HOST.fullmatch(host) or _literal(host)) or port == 0:
        raise _refused("names no host: letters, digits, `-` and `.`, in ascii")
    if not _PATH.fullmatch(parts.path):
        raise _refused("has a path with characters that an address cannot hold")
    origin = Origin(parts.scheme == "https", host, port or _PORTS[parts.scheme])
    return origin, parts.path.rstrip("/")


def _refused(why: str) -> InputError:
    # The address itself is not repeated: it may hold a password.
    return InputError(f"`base_url` {why}")


async def resolved(host: str, port: int) -> Sequence[str]:
    """Ask the system for the addresses of a host."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for _family, _kind, _protocol, _name, address in found]


async def addresses_of(origin: Origin, resolve: Resolve, *, allow_private: bool) -> Sequence[str]:
    """Give the addresses to connect to; a name that leads inside is refused unless allowed."""
    if _literal(origin.host) is not None:
        return [origin.host]
    found = list(dict.fromkeys(await resolve(origin.host, origin.port)))
    if not found:
        message = f"`{origin.host}` has no address"
        raise UpstreamError(message, error_class="network", is_unreached=True)
    if not (allow_private or origin.is_consented):
        # One inner address among public ones is how rebinding looks, so none of them is taken.
        for address in found:
            _check(origin.host, address)
    return found


def _check(host: str, address: str) -> None:
    if not is_public(address):
        message = (
            f"`{host}` leads to a private address: allow it for this provider, "
            "or write the address itself in `base_url`"
        )
        raise UpstreamError(message, error_class="other")


def is_public(address: str) -> bool:
    """Tell whether an address belongs to the public internet and to nobody's metadata service."""
    literal = _literal(address)
    if literal is None:
        return False
    return all(
        each.is_global and not each.is_multicast and each not in _SERVICES
        for each in (_outer(literal), *_inner(literal))
    )


def _outer(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    # Translated addresses are as public as what they carry.
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in _NAT64:
            return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def _inner(address: IPv4Address | IPv6Address) -> list[IPv4Address]:
    if isinstance(address, IPv4Address):
        return []
    carried = [address.sixtofour, *(address.teredo or ())]
    return [each for each in carried if each is not None]


def _literal(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text.partition("%")[0])
    except ValueError:
        return None
