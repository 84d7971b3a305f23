"""Feedback on a turn, as an entry linked to it; the comment is stored as texts are."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import UNSET, Struct, UnsetType

from pointsman.kernel.canonical import Form
from pointsman.kernel.content import Sealed
from pointsman.kernel.entry import Draft
from pointsman.kernel.number import Billionths
from pointsman.kernel.record import Names

FEEDBACK: Final = "event.feedback.given"

Sign = Literal["test", "retry", "manual_swap", "edit_followup"]
"""What a verdict was inferred from: a test that ran, or what the user did next."""

TEST_CONFIDENCE: Final = Billionths(900_000_000)
"""How sure a test is: it says much about an answer, and not all."""


class Feedback(Struct, frozen=True, forbid_unknown_fields=True):
    """A verdict on a turn's decision: the key that gave it, and the seal of its comment, if any.

    `confidence` is set where the verdict came with one, or was inferred.
    """

    decision_id: str
    score: Billionths
    key_id: str
    comment: Sealed | None
    confidence: Billionths | UnsetType = UNSET
    sign: Sign | UnsetType = UNSET
    """Set where no one judged the turn: the verdict was inferred from this."""
    exit_code: int | UnsetType = UNSET
    """How the test ended that the verdict was inferred from."""


FEEDBACK_FORM = Form(Feedback)


def feedback_draft(names: Names, feedback: Feedback) -> Draft:
    """Return the entry of a verdict; `ref` is the turn."""
    return Draft(FEEDBACK, names.id, names.ref, names.at, FEEDBACK_FORM.encode(feedback))
