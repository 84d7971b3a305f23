"""A provider's address and fixed headers, read from `models.yaml`. Nothing is called here.

The check of a file and the gateway that opens its providers use the same functions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address
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
    }
)

SPOKEN: Final[Mapping[str, tuple[str, ...]]] = {
    "openai": ("chat", "responses"),
    "anthropic": ("messages",),
    "ollama": ("chat",),
}
"""The wire formats that each kind of provider can speak."""


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
    if not _PATH.fullmatch(parts.path):
        raise _refusal("has a path with characters that an address cannot hold")
    origin = UpstreamOrigin(parts.scheme == "https", host, port or _PORTS[parts.scheme])
    return origin, parts.path.rstrip("/")


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
