"""The happenings of a running tick; ids and instants out of the job's seed and counter."""

from __future__ import annotations

from hashlib import sha256
from typing import Final

from pointsman.brainstate.trace import Happened, Happening, Why
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


class Journal:
    """Collects happenings; lives for one tick and is never shared."""

    __slots__ = ("happenings", "job_seed", "sequence")

    def __init__(self, job_seed: str, sequence: int) -> None:
        self.job_seed = job_seed
        self.sequence = sequence
        self.happenings: list[Happening] = []

    def next_counter(self) -> int:
        """Return the next free counter and advance it."""
        sequence = self.sequence
        self.sequence = sequence + 1
        return sequence

    def note(self, event_type: Happened, subject: str, why: Why, detail: str = "") -> int:
        """Note a happening; return its counter."""
        sequence = self.sequence
        self.sequence = sequence + 1
        self.happenings.append(
            Happening(
                event_id(self.job_seed, sequence, event_type),
                event_type,
                subject,
                why,
                detail,
                seeded_instant(sequence),
            )
        )
        return sequence

    def ignore(self, event: str, subject: str, why: Why) -> None:
        """Note that an event changed nothing."""
        self.note("ignored", subject, why, event)
