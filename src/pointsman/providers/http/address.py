"""Which network addresses may serve a provider.

INVARIANT: an address comes from configuration only, and the one that was checked is the one that
is connected to.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from pointsman.providers.port import UpstreamError
from pointsman.turns.registry.upstream import UpstreamOrigin, literal_address

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Gives the network addresses of a host name, those to try first in front."""

_NAT64 = ip_network("64:ff9b::/96")
_SERVICES = frozenset(
    {
        ip_address("168.63.129.16"),  # Azure's wire server stands in a public range
        ip_address("192.0.0.192"),  # Oracle's metadata; older Pythons call it public
    }
)


async def resolve_host(host: str, port: int) -> Sequence[str]:
    """Ask the system for the addresses of a host."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for _family, _kind, _protocol, _name, address in found]


async def addresses_of(
    origin: UpstreamOrigin, resolve: Resolve, *, allow_private: bool
) -> Sequence[str]:
    """Return the addresses to connect to; a name that leads inside is refused unless allowed."""
    if literal_address(origin.host) is not None:
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
    """Tell whether an address belongs to the public internet and to no metadata service."""
    literal = literal_address(address)
    if literal is None:
        return False
    return all(
        each.is_global and not each.is_multicast and each not in _SERVICES
        for each in (_outer(literal), *_inner(literal))
    )


def _outer(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    # A translated address is as public as the address it carries.
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
