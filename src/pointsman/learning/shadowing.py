"""Running a turn again beside its answer: under which decision, and what is recorded of it.

A shadow run and a judge's question are decided like every call: from the turn's own facts, with
every veto, and so that a replay decides the same.
"""

from __future__ import annotations

from typing import Final

from msgspec import UNSET, Struct
from msgspec.structs import replace

from pointsman.calls.flow import may_call
from pointsman.kernel.canonical import Form
from pointsman.kernel.content import Sealed
from pointsman.kernel.entry import Draft
from pointsman.kernel.number import Billionths
from pointsman.kernel.record import Names
from pointsman.recording.ruling import Policies, Ruling, ruled_under
from pointsman.turns.learning.exploring import may_leave, shadow_model

SHADOWED: Final = "event.turn.shadowed"
JUDGED: Final = "event.turn.judged"


class Shadowed(Struct, frozen=True, forbid_unknown_fields=True):
    """A turn was run again: by which decision, on which model, with the seal of what it said."""

    decision_id: str
    model: str
    served_model: str
    answer: Sealed | None


class Judged(Struct, frozen=True, forbid_unknown_fields=True):
    """A model judged an answer: the one given under `decision_id`, by a rubric, in fixed steps."""

    decision_id: str
    judge_decision_id: str
    judge_model: str
    rubric_id: str
    score: Billionths


SHADOWED_FORM = Form(Shadowed)
JUDGED_FORM = Form(Judged)


def shadowed_draft(names: Names, shadowed: Shadowed) -> Draft:
    """Make the entry of a shadow run; `ref` is the turn."""
    return Draft(SHADOWED, names.id, names.ref, names.at, SHADOWED_FORM.encode(shadowed))


def judged_draft(names: Names, judged: Judged) -> Draft:
    """Make the entry of a judge's verdict; `ref` is the turn."""
    return Draft(JUDGED, names.id, names.ref, names.at, JUDGED_FORM.encode(judged))


def shadow_ruling(turn_id: str, policies: Policies, before: Ruling) -> Ruling | None:
    """Decide on which model a turn is run again; None for most turns."""
    model = shadow_model(turn_id, policies.turns, before.facts, before.model)
    return None if model is None else ruled_beside(policies, before, model)


def judge_ruling(policies: Policies, before: Ruling, model: str) -> Ruling | None:
    """Decide whether a model may judge the answers of a turn; None where it may not."""
    if not may_leave(policies.turns, before.facts, before.model, model):
        return None
    return ruled_beside(policies, before, model)


def ruled_beside(policies: Policies, before: Ruling, model: str) -> Ruling | None:
    """Decide a turn again with its model given; None where any veto speaks against it."""
    facts = replace(before.facts, override=None, sticky_model=model, explore_draw=UNSET)
    ruling = replace(ruled_under(policies, before.placing, facts), is_placed_anew=False)
    if ruling.model != model or not may_call(policies, before.placing, model):
        return None
    return ruling
