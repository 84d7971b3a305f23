"""`POST /api/decisions/{id}/evaluate`: which branch a workflow takes, decided and recorded."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from pointsman.access.actors import OWNER, actor_of
from pointsman.audit.turn_shapes import InstantText
from pointsman.errors import DocumentError, InputError, PermissionDenied
from pointsman.gateway.api.request import ApiRequest
from pointsman.gateway.serving.http import in_thread
from pointsman.gateway.serving.services import GatewayServices
from pointsman.kernel.document import Document
from pointsman.kernel.schema import conform
from pointsman.workflows.branch_log import evaluation_value
from pointsman.workflows.branching import EvaluationRequest


class EvaluateBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The context in which the decision's input is evaluated, and for whom it is."""

    input: dict[str, Any]
    workflow_id: str = ""
    stage_id: str = ""
    approved: tuple[str, ...] = ()


class EvaluateAnswer(Struct, frozen=True):
    """Where the decision leads."""

    decision_id: str
    selected_targets: tuple[str, ...]
    selected_labels: tuple[str, ...]
    is_default: bool
    blocked: bool
    withheld_targets: tuple[str, ...]
    timestamp: InstantText
    cached: bool
    evaluation_id: str
    policy_id: str
    facts_id: str


class EvaluationApi:
    """Serves workflow decisions."""

    def __init__(self, parts: GatewayServices) -> None:
        self._parts = parts

    async def evaluate(self, request: ApiRequest) -> object:
        """Evaluate a decision; what a guardrail blocks is told, not refused."""
        caller = request.caller
        name = request.part("id")
        found = request.document()
        given = conform(found, EvaluateBody)
        if given.approved and not caller.is_admin:
            raise PermissionDenied("only an admin may approve with the call itself")
        by = OWNER if caller.is_anonymous else actor_of(caller)
        asked = EvaluationRequest(
            given.workflow_id,
            given.stage_id,
            approved=given.approved,
            by=by,
            tenant=caller.tenant,
        )
        branching = self._parts.pointsman.branching
        context = _context(found)
        in_force = branching.in_force()
        if name not in in_force.decisions and in_force.problems:
            # It may be there, in a file that cannot be read.
            raise DocumentError(in_force.problems)
        made = await in_thread(lambda: branching.evaluate(name, context, asked))
        return evaluation_value(made)


def _context(found: Document) -> dict[str, Any]:
    """Return the context as it was read: its numbers are exact there."""
    value = found.value
    if not isinstance(value, dict) or not isinstance(value["input"], dict):
        raise InputError("a context is a mapping of names to values")
    return value["input"]
