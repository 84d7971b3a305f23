"""Which network addresses may serve a provider.

INVARIANT: an address comes from configuration only, and the one that was checked is the one that
is connected to.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence

from pointsman.providers.port import UpstreamError
from pointsman.turns.registry.upstream import (
    UpstreamOrigin,
    carried_addresses,
    is_service,
    literal_address,
)

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Gives the network addresses of a host name, those to try first in front."""


async def resolve_host(host: str, port: int) -> Sequence[str]:
    """Ask the system for the addresses of a host."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for _family, _kind, _protocol, _name, address in found]


async def addresses_of(
    origin: UpstreamOrigin, resolve: Resolve, *, allow_private: bool
) -> Sequence[str]:
    """Return the addresses to connect to; a name that leads inside is refused unless allowed."""
    is_literal = literal_address(origin.host) is not None
    known = [origin.host] if is_literal else await resolve(origin.host, origin.port)
    found = list(dict.fromkeys(known))
    if not found:
        message = f"`{origin.host}` has no address"
        raise UpstreamError(message, error_class="network", is_unreached=True)
    # One inner address among public ones is how rebinding looks, so none of them is taken.
    for address in found:
        if not (allow_private or origin.is_consented):
            _check(origin.host, address)
        if is_service(address):
            message = f"`{origin.host}` leads to a link-local address or a metadata service"
            raise UpstreamError(message, error_class="other")
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
        each.is_global and not each.is_multicast for each in carried_addresses(literal)
    ) and (not is_service(address))
