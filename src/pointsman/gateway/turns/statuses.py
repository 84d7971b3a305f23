"""Which status a caller is told, and whether trying again is worth it."""

from __future__ import annotations

from typing import Final

from pointsman.errors import PointsmanError
from pointsman.providers.port import NotConfigured, UpstreamError

_FINAL: Final = frozenset({400, 401, 402, 403, 404, 405, 413, 422})
"""Statuses that waiting cannot mend."""
_PASSED_ON: Final = frozenset({400, 403, 404, 413, 422, 429})
"""Statuses of a provider that say something to its caller."""


def status_of(error: PointsmanError) -> int:
    """Return the status a caller sees: the provider's own where that is meant for the caller."""
    if not isinstance(error, UpstreamError) or isinstance(error, NotConfigured):
        return error.http_status
    if error.error_class == "auth":
        # The key is ours, not the caller's.
        return 502
    if error.status in _PASSED_ON:
        return error.status
    if error.error_class == "timeout":
        return 504
    usual = {"rate_limit": 429, "invalid_request": 400, "context_overflow": 400}
    return usual.get(error.error_class, 502)


def is_final(error: PointsmanError, status: int) -> bool:
    """Tell whether waiting cannot mend it."""
    return status in _FINAL or bool(getattr(error, "is_final", False))


def told_message(error: PointsmanError) -> str:
    """Return what a caller reads: a provider's own words where it said some."""
    message = error.message
    if isinstance(error, UpstreamError) and error.said and error.said not in message:
        message = f"{message}: {error.said}"
    return f"{message} ({error.hint})" if error.hint else message
