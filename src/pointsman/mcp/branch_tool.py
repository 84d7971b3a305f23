"""`decision_evaluate`: which branch does a workflow take?"""

from __future__ import annotations

from typing import Final

from pointsman.app import Pointsman
from pointsman.errors import DocumentError, InputError
from pointsman.expressions.values import Value
from pointsman.kernel.document import Document
from pointsman.mcp.shapes import EvaluateAnswer, EvaluateInput
from pointsman.mcp.tool import Answer, Call, Hints, Tool
from pointsman.mcp.working import in_thread
from pointsman.workflows.branch_view import dry_run_value, evaluation_screen, evaluation_value
from pointsman.workflows.branching import BranchEvaluation, Branching, EvaluationRequest, dry_run

TOLD: Final = (
    "Evaluate one of the home's workflow decisions in a context and tell which targets it selects, "
    "with every case and guardrail. Recorded, unless `dry_run`. A guardrail that blocks is told, "
    "and where a target needs approval it is asked for, never given here."
)


def branch_tool(pointsman: Pointsman) -> Tool[EvaluateInput]:
    """Return the tool."""
    branching = pointsman.branching

    async def evaluate(call: Call[EvaluateInput]) -> Answer:
        made = await in_thread(lambda: _evaluate(branching, call, pointsman))
        value = dry_run_value(made) if made.is_dry_run else evaluation_value(made)
        return Answer(value, evaluation_screen(made))

    return Tool(
        "decision_evaluate",
        "Evaluate a workflow decision",
        TOLD,
        EvaluateInput,
        EvaluateAnswer,
        ("POST", "/api/decisions/{id}/evaluate"),
        Hints(is_read_only=False, is_idempotent=False),
        evaluate,
    )


def _evaluate(
    branching: Branching, call: Call[EvaluateInput], pointsman: Pointsman
) -> BranchEvaluation:
    given, context = call.given, _context(call.document)
    in_force = branching.in_force()
    if given.id not in in_force.decisions and in_force.problems:
        # It may be there, in a file that cannot be read.
        raise DocumentError(in_force.problems)
    if given.dry_run:
        return dry_run(in_force, given.id, context, pointsman.clock.now())
    asked = EvaluationRequest(given.workflow_id, given.stage_id, by=call.by.actor)
    return branching.evaluate(given.id, context, asked)


def _context(document: Document) -> dict[str, Value]:
    """Return the context as it was read: its numbers are exact there."""
    value = document.value
    if not isinstance(value, dict) or not isinstance(value.get("input"), dict):
        raise InputError("a context is a mapping of names to values")
    return value["input"]  # type: ignore[return-value] # JSON values are a decision's values
