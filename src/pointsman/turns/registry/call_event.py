"""How one call to a model ended. Document 002 §4.5."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from pointsman.kernel.instant import Instant

Result = Literal[
    "success", "rate_limit", "auth", "server_error", "network", "context_overflow",
    "invalid_request", "cancelled", "other", "timeout", "cut",
]  # fmt: skip
"""`network` is a provider that was not reached; `cut` is one that was, and then broke off."""

_STRIKES = ("rate_limit", "server_error", "network", "other", "timeout", "cut")


class CallEvent(Struct, frozen=True, forbid_unknown_fields=True):
    """How one whole call ended, retries included; `model` is its id, `provider:name`.

    A refusal by the provider's content policy is no outage, whatever its status code.
    """

    at: Instant
    credential: str
    provider: str
    model: str
    result: Result
    is_policy_refusal: bool = False


def tells_of_provider(event: CallEvent) -> bool:
    """Tell whether a call says something about its provider."""
    # The other errors say something about the request, nothing about the provider (D-002-9).
    if event.result == "success":
        return True
    return not event.is_policy_refusal and (event.result == "auth" or event.result in _STRIKES)
