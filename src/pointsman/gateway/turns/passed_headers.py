"""Headers of a provider that its caller gets, too: request ids, rate limits, its own timing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pointsman.providers.port import Dialect, provider_request_id

_NAMED: Final = frozenset({"openai-processing-ms", "openai-version", "retry-after"})
_PREFIXES: Final = ("x-ratelimit-", "anthropic-ratelimit-")


def request_id_header(
    dialect: Dialect, headers: Mapping[str, str], own_id: str
) -> tuple[bytes, bytes]:
    """Return the request id under the name that the vendor of a dialect gives it."""
    name = b"request-id" if dialect == "messages" else b"x-request-id"
    return name, _bytes(provider_request_id(headers) or own_id)


def passed_headers(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """Return what a provider says of its limits and its time."""
    return [
        (name.encode("ascii", "replace"), _bytes(value))
        for name, value in headers.items()
        if name in _NAMED or name.startswith(_PREFIXES)
    ]


def _bytes(value: str) -> bytes:
    return value.encode("latin-1", "replace")
