"""The happenings of a running tick: numbered, named and timed by the job's own counter."""

from __future__ import annotations

from pointsman.brainstate.seeded import event_id, seeded_instant
from pointsman.brainstate.trace import Happened, Happening, Why


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
