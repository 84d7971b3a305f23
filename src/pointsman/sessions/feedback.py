"""Verdicts on a turn: given as a rating, or inferred from the user's next action."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

from pointsman.kernel.number import ONE, ZERO, Billionths
from pointsman.turns.learning.fingerprint import cosine, hashed_vector

Rating = Literal["thumbs_up", "thumbs_down"]
Signal = Literal["retry", "manual_swap", "edit_followup"]

LIKE: Final = Billionths(800_000_000)
"""From this similarity on, a message repeats the one before it."""


class TurnVerdict(Struct, frozen=True):
    """The score of a turn, and the confidence in it."""

    score: Billionths
    confidence: Billionths


RATING_VERDICTS: Final[dict[Rating, TurnVerdict]] = {
    "thumbs_up": TurnVerdict(ONE, ONE),
    "thumbs_down": TurnVerdict(ZERO, ONE),
}
SIGNAL_VERDICTS: Final[dict[Signal, TurnVerdict]] = {
    "retry": TurnVerdict(Billionths(100_000_000), Billionths(600_000_000)),
    "manual_swap": TurnVerdict(Billionths(250_000_000), Billionths(600_000_000)),
    "edit_followup": TurnVerdict(Billionths(400_000_000), Billionths(500_000_000)),
}
"""The verdict of each signal: weaker than a rating, and less sure."""


def signal_of(before: str, after: str) -> Signal | None:
    """Return the signal in a follow-up message: asked again, or asked differently."""
    first, then = before.strip(), after.strip()
    if not first or not then:
        return None
    if first == then:
        return "retry"
    alike = cosine(hashed_vector(first), hashed_vector(then))
    return "edit_followup" if alike >= LIKE else None
