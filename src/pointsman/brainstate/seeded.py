"""Ids and instants out of a job's seed and a counter: no clock, no randomness."""

from __future__ import annotations

from hashlib import sha256
from typing import Final

from pointsman.kernel.instant import SECOND, Instant

BASE: Final = Instant(1_735_689_600 * SECOND)
"""2025-01-01T00:00:00Z, from which all seeded time counts."""

MAX_SEQUENCE: Final = 4_000_000_000
"""Instants stay below 2^53 microseconds."""


def seeded_instant(counter: int) -> Instant:
    """Return the instant of a job's counter: monotonic, one second a step."""
    # Every happening of a tick has one: calling `Instant` would take longer than the sum.
    return BASE + counter * SECOND  # type: ignore[return-value] # it is a whole number


def brainstate_id(job_seed: str, counter: int) -> str:
    """Name a state by its job and the counter it was made at."""
    return f"bs:{job_seed}:{counter}"


def wm_id(job_seed: str, counter: int) -> str:
    """Name an item of working memory."""
    return sha256(f"{job_seed}:{counter}".encode()).hexdigest()


def event_id(job_seed: str, sequence_index: int, event_type: str) -> str:
    """Name an event."""
    return sha256(f"{job_seed}:{sequence_index}:{event_type}".encode()).hexdigest()
