"""What a branch decision may look at, frozen: which decision, and the context it was asked in."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal, cast

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from pointsman.errors import InputError
from pointsman.expressions.values import Value
from pointsman.kernel.canonical import Form, canonical_json, untag

# A tag stands at the start of a text; most contexts hold no decimals, so none.
_TAG = re.compile(rb'"[ds]:')


ApprovalStatus = Literal["pending", "approved", "rejected", "used"]


class Approval(Struct, frozen=True, forbid_unknown_fields=True):
    """A request to approve one target, and its status when the facts were gathered."""

    target: str
    request_id: str
    status: ApprovalStatus


class RecordedFacts(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The facts as they are recorded; decimals of the context are tagged texts.

    Without requests there is no word of them: facts that knew none keep their bytes.
    """

    decision_id: str
    context: Raw
    approved: tuple[str, ...]
    approvals: tuple[Approval, ...] = ()


FACTS_FORM = Form(RecordedFacts)


class BranchFacts(Struct, frozen=True):
    """The facts of one decision; `canonical` are the bytes of the context.

    `approved` are the targets already approved, `approvals` the requests to approve others.
    """

    decision_id: str
    context: Mapping[str, Value]
    canonical: bytes
    approved: tuple[str, ...] = ()
    approvals: tuple[Approval, ...] = ()

    def to_recorded(self) -> RecordedFacts:
        """Return the facts as they are recorded."""
        context = Raw(self.canonical)
        return RecordedFacts(self.decision_id, context, self.approved, self.approvals)


def read_facts(
    decision_id: str, context: Mapping[str, Value], approved: Sequence[str] = ()
) -> BranchFacts:
    """Freeze a context; a value without an exact form is refused with its place.

    DETERMINISM: the context is read back from its own bytes, so that a decision looks at the same
    values now and when it is replayed. The caller may change his own afterwards.
    """
    return _read(decision_id, canonical_json(dict(context)), tuple(approved))


def from_recorded(recorded: RecordedFacts) -> BranchFacts:
    """Return recorded facts in the form `decide` reads."""
    facts = _read(recorded.decision_id, bytes(recorded.context), recorded.approved)
    return replace(facts, approvals=recorded.approvals) if recorded.approvals else facts


def _read(decision_id: str, canonical: bytes, approved: tuple[str, ...]) -> BranchFacts:
    context = msgspec.json.decode(canonical)
    if _TAG.search(canonical):
        context = untag(context)
    if not isinstance(context, dict):
        raise InputError("a context is a mapping of names to values")
    return BranchFacts(decision_id, cast("Mapping[str, Value]", context), canonical, approved)
