"""`POST /api/decisions/{id}/evaluate`: which branch a workflow takes, decided and recorded."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from pointsman.access.actors import OWNER, actor_of
from pointsman.audit.turn_shapes import InstantText
from pointsman.errors import DocumentError, InputError, PermissionDenied
from pointsman.gateway.access import check_reader
from pointsman.gateway.api.bodies import document
from pointsman.gateway.asgi import Handler, named_parts
from pointsman.gateway.http import Asked as Request
from pointsman.gateway.http import Receive, Send, answer_value, in_thread
from pointsman.gateway.parts import Parts
from pointsman.kernel.document import Document
from pointsman.kernel.schema import conform
from pointsman.workflows.branch_view import evaluation_value
from pointsman.workflows.branching import Asked

_PATH = "/api/decisions/{id}/evaluate"


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


class BranchApi:
    """Serves workflow decisions."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def routes(self) -> dict[tuple[str, str], Handler]:
        """Give what is served where."""
        return {("POST", _PATH): self.evaluate}

    async def evaluate(self, request: Request, _receive: Receive, send: Send) -> None:
        """Evaluate a decision; what a guardrail blocks is told, not refused."""
        caller = check_reader(self._parts, request, "act")
        name = named_parts(_PATH, request.path)["id"]
        found = document(request)
        given = conform(found, EvaluateBody)
        if given.approved and not caller.is_admin:
            raise PermissionDenied("only an admin may approve with the call itself")
        by = OWNER if caller.is_anonymous else actor_of(caller)
        asked = Asked(given.workflow_id, given.stage_id, approved=given.approved, by=by)
        branching = self._parts.pointsman.branching
        context = _context(found)
        in_force = branching.in_force()
        if name not in in_force.decisions and in_force.problems:
            # It may be there, in a file that cannot be read.
            raise DocumentError(in_force.problems)
        made = await in_thread(lambda: branching.evaluate(name, context, asked))
        await answer_value(send, evaluation_value(made))


def _context(found: Document) -> dict[str, Any]:
    """Give the context as it was read: its numbers are exact there."""
    value = found.value
    if not isinstance(value, dict) or not isinstance(value["input"], dict):
        raise InputError("a context is a mapping of names to values")
    return value["input"]
