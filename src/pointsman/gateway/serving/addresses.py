"""What callers read of an error of our own stores: the cause, without where those stores are."""

from __future__ import annotations

import re
from typing import Final

from pointsman.errors import LedgerError, PointsmanError, RedisEvicts, RedisUnavailable

_ADDRESS: Final = re.compile(
    r"[A-Za-z][A-Za-z0-9+.-]*://[^\s,;)]+"  # an address
    r'|\b(?:at|socket|host|user|database) "[^"]*"(?: \([^)]*\))?(?:, port \d+)?'
    r"|\b(?:to|at|from) [A-Za-z0-9_.-]+:\d{2,5}\b"  # a host and a port
    r"|(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?"
    r"|(?<![\w/])/[\w.-]+(?:/[\w.-]+)+"  # a path
)
_OWN_STORES: Final = (LedgerError, RedisUnavailable, RedisEvicts)


def hide_addresses(text: str) -> str:
    """Return a text without addresses, hosts, names of databases and paths."""
    return _ADDRESS.sub("[…]", text)


def public_words(error: PointsmanError) -> tuple[str, str, str]:
    """Return the message, the place and the hint of an error as a caller may read them."""
    if not isinstance(error, _OWN_STORES):
        return error.message, error.where, error.hint
    return hide_addresses(error.message), "", hide_addresses(error.hint)
