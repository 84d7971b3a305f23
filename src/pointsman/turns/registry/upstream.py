"""A provider's address and fixed headers, read from `models.yaml`. Nothing is called here.

The check of a file and the gateway that opens its providers use the same functions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

from pointsman.errors import InputError

_HOST = re.compile(r"[a-z0-9_]([a-z0-9_.-]{0,251}[a-z0-9_])?\.?", re.ASCII)
_PATH = re.compile(r"[A-Za-z0-9/._~!$&'()*+,;=:@%-]*", re.ASCII)
_PORTS = {"http": 80, "https": 443}
_TOKEN = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]+", re.ASCII)
HEADER_VALUE: Final = re.compile(r"[\x20-\x7e]*", re.ASCII)

_NOT_CONFIGURABLE: Final = frozenset(
    {
        "accept",
        "accept-encoding",
        "authorization",
        "connection",
        "content-length",
        "content-type",
        "cookie",
        "expect",
        "host",
        "keep-alive",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "x-api-key",
        "x-goog-api-key",
    }
)


class UpstreamOrigin(Struct, frozen=True):
    """Scheme, host and port. One pool of connections belongs to one of these."""

    is_tls: bool
    host: str
    port: int

    @property
    def host_header(self) -> str:
        """Return the value of the `host` header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = _PORTS["https" if self.is_tls else "http"]
        return host if self.port == usual else f"{host}:{self.port}"

    @property
    def is_consented(self) -> bool:
        """Tell whether the configuration itself names an address, and so means it."""
        return self.host == "localhost" or literal_address(self.host) is not None

    def __str__(self) -> str:
        return f"{'https' if self.is_tls else 'http'}://{self.host_header}"


def read_base_url(text: str) -> tuple[UpstreamOrigin, str]:
    """Return the origin of a configured address and its path without a slash at the end."""
    try:
        parts = urlsplit(text)
        port = parts.port
        host = parts.hostname or ""
    except ValueError:
        raise _refusal("is no address") from None
    if parts.scheme not in _PORTS:
        raise _refusal("begins with neither `https://` nor `http://`")
    if "@" in parts.netloc:
        raise _refusal("holds a name or a password: write `api_key: {env: NAME}` instead")
    if parts.query or parts.fragment or "?" in text or "#" in text:
        raise _refusal("holds `?` or `#`: write `query:` instead")
    if not (_HOST.fullmatch(host) or literal_address(host)) or port == 0:
        raise _refusal("names no host: letters, digits, `-` and `.`, in ascii")
    if is_service(host):
        raise _refusal("is a link-local address or a metadata service: no model answers there")
    if not _PATH.fullmatch(parts.path):
        raise _refusal("has a path with characters that an address cannot hold")
    origin = UpstreamOrigin(parts.scheme == "https", host, port or _PORTS[parts.scheme])
    return origin, parts.path.rstrip("/")


_NAT64: Final = ip_network("64:ff9b::/96")
_COMPATIBLE: Final = ip_network("::/96")
_ISATAP: Final = frozenset({0x00005EFE, 0x02005EFE})
_SERVICES: Final = frozenset(
    {
        ip_address("168.63.129.16"),  # Azure's wire server stands in a public range
        ip_address("192.0.0.192"),  # Oracle's metadata; older Pythons call it public
        ip_address("100.100.100.200"),  # Alibaba's
        ip_address("fd00:ec2::254"),  # Amazon's
    }
)
_SERVICE_NAMES: Final = frozenset(
    {
        "metadata",
        "metadata.goog",
        "metadata.google.internal",
        "instance-data",
        "instance-data.ec2.internal",
    }
)


def is_service(host: str) -> bool:
    """Tell whether a host is a link-local address or a machine's metadata service.

    An address counts however it is spelled: whole or by parts, decimal, octal or hexadecimal, and
    carried in an IPv6 address. A name counts only if it is a service's own.
    """
    bare = host.rstrip(".").lower()
    address = literal_address(bare) or _spelled_address(bare)
    if address is None:
        return bare in _SERVICE_NAMES
    return any(each.is_link_local or each in _SERVICES for each in carried_addresses(address))


def carried_addresses(
    address: IPv4Address | IPv6Address,
) -> tuple[IPv4Address | IPv6Address, ...]:
    """Return an address and those that it carries: mapped, translated or tunnelled."""
    if isinstance(address, IPv4Address):
        return (address,)
    if address.ipv4_mapped is not None:
        return (address.ipv4_mapped,)
    low = IPv4Address(int(address) & 0xFFFFFFFF)
    # A translated address is as public as the address it carries.
    if address in _NAT64 or (address in _COMPATIBLE and int(address) > 1):
        return (low,)
    found = [address.sixtofour, *(address.teredo or ())]
    if int(address) >> 32 & 0xFFFFFFFF in _ISATAP:
        found.append(low)
    return (address, *(each for each in found if each is not None))


def _spelled_address(host: str) -> IPv4Address | None:
    """Return the address that a system's resolver reads in numbers; None in a name."""
    parts = [_number(part) for part in host.split(".")]
    if len(parts) > 4 or None in parts:
        return None
    *heads, last = (part or 0 for part in parts)
    if any(head > 255 for head in heads) or last >= 256 ** (4 - len(heads)):
        return None
    value = sum(head << 8 * (3 - place) for place, head in enumerate(heads)) + last
    return IPv4Address(value)


def _number(text: str) -> int | None:
    try:
        if text.startswith("0x"):
            return int(text[2:] or "0", 16)
        return int(text, 8 if text.startswith("0") else 10)
    except ValueError:
        return None


def _refusal(why: str) -> InputError:
    # The address itself is not repeated: it may hold a password.
    return InputError(f"`base_url` {why}")


def read_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return configured headers with lower-case names, or refuse them."""
    lowered = {name.lower(): value for name, value in headers.items()}
    for name, value in lowered.items():
        if name in _NOT_CONFIGURABLE:
            hint = "a key is written as `api_key: {env: NAME}`"
            raise InputError(f"the header `{name}` cannot be configured", hint=hint)
        if not (_TOKEN.fullmatch(name) and HEADER_VALUE.fullmatch(value)):
            raise InputError(f"the header `{name}` holds characters that a header cannot hold")
    return lowered


def literal_address(text: str) -> IPv4Address | IPv6Address | None:
    """Return the network address that a host is; None where it is a name."""
    try:
        return ip_address(text.partition("%")[0])
    except ValueError:
        return None
