"""Shadow runs and judges of a turn: the decision each runs under, and the entries it leaves.

Both are decided like every call: from the turn's own facts, with every veto, and so that a replay
decides the same.
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
from pointsman.recording.ruling import Policies, Ruling, decide_model
from pointsman.turns.chain.exploring import may_leave, shadow_model

SHADOWED: Final = "event.turn.shadowed"
JUDGED: Final = "event.turn.judged"


class ShadowRunRecord(Struct, frozen=True, forbid_unknown_fields=True):
    """A shadow run of a turn: its decision, its model, and the seal of its answer."""

    decision_id: str
    model: str
    served_model: str
    answer: Sealed | None


class JudgeVerdict(Struct, frozen=True, forbid_unknown_fields=True):
    """A model judged an answer: the one given under `decision_id`, by a rubric, in fixed steps."""

    decision_id: str
    judge_decision_id: str
    judge_model: str
    rubric_id: str
    score: Billionths


SHADOW_RUN_FORM = Form(ShadowRunRecord)
JUDGE_VERDICT_FORM = Form(JudgeVerdict)


def shadow_run_draft(names: Names, shadowed: ShadowRunRecord) -> Draft:
    """Return the entry of a shadow run; `ref` is the turn."""
    return Draft(SHADOWED, names.id, names.ref, names.at, SHADOW_RUN_FORM.encode(shadowed))


def judge_verdict_draft(names: Names, judged: JudgeVerdict) -> Draft:
    """Return the entry of a judge's verdict; `ref` is the turn."""
    return Draft(JUDGED, names.id, names.ref, names.at, JUDGE_VERDICT_FORM.encode(judged))


def shadow_ruling(turn_id: str, policies: Policies, before: Ruling) -> Ruling | None:
    """Decide the model of a turn's shadow run; None for most turns."""
    model = shadow_model(turn_id, policies.turns, before.facts, before.model)
    return None if model is None else rule_for_model(policies, before, model)


def judge_ruling(policies: Policies, before: Ruling, model: str) -> Ruling | None:
    """Decide whether a model may judge the answers of a turn; None where it may not."""
    if not may_leave(policies.turns, before.facts, before.model, model):
        return None
    return rule_for_model(policies, before, model)


def rule_for_model(policies: Policies, before: Ruling, model: str) -> Ruling | None:
    """Decide a turn again for a given model; None where a veto rejects it."""
    facts = replace(
        before.facts, override=None, sticky_model=model, explore_draw=UNSET, opinions=UNSET
    )
    ruling = replace(decide_model(policies, before.placing, facts), is_placed_anew=False)
    if ruling.model != model or not may_call(policies, before.placing, model):
        return None
    return ruling
