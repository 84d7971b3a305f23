"""When one call is tried again, as a flow of effects; whoever drives it tries and waits.

Companion §2.2. Sustained failure is not its business: that is told to the availability of models.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Final

from msgspec import Struct

from pointsman.providers.port import ErrorClass, UpstreamError

Jitter = Callable[[], float]
"""Gives a number between -1 and 1, another one each time."""

_RETRIED: Final[tuple[ErrorClass, ...]] = ("rate_limit", "server_error", "network")
_OF_THE_KEY: Final[tuple[ErrorClass, ...]] = ("rate_limit", "auth")

_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 30.0
_SPREAD = 0.25


class Try(Struct, frozen=True):
    """Make the call with the key of this number; answered with its error, None when it worked."""

    key: int


class Wait(Struct, frozen=True):
    """Wait so long."""

    seconds: float


Effect = Try | Wait
Flow = Generator[Effect, UpstreamError | None, None]


def tries(keys: int, first_key: int, jitter: Jitter, retries: int = 2) -> Flow:
    """Give the tries of one call until one works or nothing is left to try.

    The next key is tried at once, each key once; waiting and trying again is done `retries` times.
    """
    key = first_key
    other_keys = keys - 1
    done = 0
    while True:
        error = yield Try(key)
        if error is None or error.is_policy_refusal:
            return
        if error.error_class in _OF_THE_KEY and other_keys > 0:
            other_keys -= 1
            key = (key + 1) % keys
            continue
        if error.error_class not in _RETRIED or done == retries:
            return
        yield Wait(pause_s(done, error.retry_after_s, jitter()))
        done += 1


def pause_s(done: int, retry_after_s: float | None, jitter: float) -> float:
    """Give the pause after so many retries: what the provider asks for, else doubling."""
    if retry_after_s is not None:
        return retry_after_s
    return min(_FIRST_PAUSE_S * 2.0**done, _LONGEST_PAUSE_S) * (1.0 + _SPREAD * jitter)
