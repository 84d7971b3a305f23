"""What somebody thinks of a turn, as an entry linked to it; the comment is kept as texts are."""

from __future__ import annotations

from typing import Final

from msgspec import UNSET, Struct, UnsetType

from pointsman.kernel.canonical import Form
from pointsman.kernel.content import Sealed
from pointsman.kernel.entry import Draft
from pointsman.kernel.number import Billionths
from pointsman.kernel.record import Names

FEEDBACK: Final = "event.feedback.given"


class Feedback(Struct, frozen=True, forbid_unknown_fields=True):
    """A verdict on a turn's decision, by whom, with the seal of a comment where there is one.

    `confidence` is there where whoever judged said how sure that is.
    """

    decision_id: str
    score: Billionths
    key_id: str
    comment: Sealed | None
    confidence: Billionths | UnsetType = UNSET


FEEDBACK_FORM = Form(Feedback)


def feedback_draft(names: Names, feedback: Feedback) -> Draft:
    """Make the entry of a verdict; `ref` is the turn."""
    return Draft(FEEDBACK, names.id, names.ref, names.at, FEEDBACK_FORM.encode(feedback))
