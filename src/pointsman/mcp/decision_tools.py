"""The tools that decide: `decision_evaluate`, `place` and `agents_decide`."""

from __future__ import annotations

from typing import Final

from pointsman.agents.explain import to_json as agent_value
from pointsman.agents.explain import to_screen as agent_screen
from pointsman.agents.facts import GivenJob
from pointsman.agents.facts import read_facts as read_agent_facts
from pointsman.app import Pointsman
from pointsman.errors import DocumentError, InputError
from pointsman.expressions.values import Value
from pointsman.jobs.entries import Caller
from pointsman.kernel.document import Document
from pointsman.mcp.shapes import AgentDecided, EvaluateInput, EvaluateOutput, PlaceAnswer
from pointsman.mcp.tool import Hints, Tool, ToolAnswer, ToolRequest
from pointsman.mcp.working import in_thread
from pointsman.placement.explain import to_json as placement_value
from pointsman.placement.explain import to_screen as placement_screen
from pointsman.placement.facts import GivenPlacement
from pointsman.placement.facts import read_facts as read_placement_facts
from pointsman.workflows.branch_log import dry_run_value, evaluation_screen, evaluation_value
from pointsman.workflows.branching import BranchEvaluation, Branching, EvaluationRequest, dry_run

EVALUATE_TOLD: Final = (
    "Evaluate one of the home's workflow decisions in a context and tell which targets it selects, "
    "with every case and guardrail. Recorded, unless `dry_run`. A guardrail that blocks is told, "
    "and where a target needs approval it is asked for, never given here."
)


def branch_tool(pointsman: Pointsman) -> Tool[EvaluateInput]:
    """Return the tool."""
    branching = pointsman.branching

    async def evaluate(call: ToolRequest[EvaluateInput]) -> ToolAnswer:
        made = await in_thread(lambda: _evaluate(branching, call, pointsman))
        value = dry_run_value(made) if made.is_dry_run else evaluation_value(made)
        return ToolAnswer(value, evaluation_screen(made))

    return Tool(
        "decision_evaluate",
        "Evaluate a workflow decision",
        EVALUATE_TOLD,
        EvaluateInput,
        EvaluateOutput,
        ("POST", "/api/decisions/{id}/evaluate"),
        Hints(is_read_only=False, is_idempotent=False),
        evaluate,
    )


def _evaluate(
    branching: Branching, call: ToolRequest[EvaluateInput], pointsman: Pointsman
) -> BranchEvaluation:
    given, context = call.given, _context(call.document)
    in_force = branching.in_force()
    if given.id not in in_force.decisions and in_force.problems:
        # It may be there, in a file that cannot be read.
        raise DocumentError(in_force.problems)
    if given.dry_run:
        return dry_run(in_force, given.id, context, pointsman.clock.now())
    asked = EvaluationRequest(
        given.workflow_id, given.stage_id, by=call.by.actor, tenant=call.by.caller.tenant
    )
    return branching.evaluate(given.id, context, asked)


def _context(document: Document) -> dict[str, Value]:
    """Return the context as it was read: its numbers are exact there."""
    value = document.value
    if not isinstance(value, dict) or not isinstance(value.get("input"), dict):
        raise InputError("a context is a mapping of names to values")
    return value["input"]  # type: ignore[return-value] # JSON values are a decision's values


PLACE_TOLD: Final = (
    "Decide whether a question may leave this machine, from the question, the state of the models "
    "and the network, and the policy in force. The decision is recorded; nothing is sent anywhere."
)


def place_tool(pointsman: Pointsman) -> Tool[GivenPlacement]:
    """Return the tool."""

    async def place(call: ToolRequest[GivenPlacement]) -> ToolAnswer:
        facts = await in_thread(lambda: pointsman.placement_facts(call.given))
        shown = await in_thread(lambda: pointsman.place(facts, tenant=call.by.caller.tenant))
        return ToolAnswer(placement_value(shown), placement_screen(shown))

    return Tool(
        "place",
        "Place a question",
        PLACE_TOLD,
        GivenPlacement,
        PlaceAnswer,
        ("POST", "/api/place"),
        Hints(is_read_only=False, is_idempotent=False),
        place,
        read_placement_facts,
    )


AGENT_TOLD: Final = (
    "Decide which agent takes a job, from recorded snapshots of the modules and of a mind, with "
    "every candidate's score and why each was left out. Recorded; runs no agent."
)


def agent_tool(pointsman: Pointsman) -> Tool[GivenJob]:
    """Return the tool."""

    async def decide(call: ToolRequest[GivenJob]) -> ToolAnswer:
        caller = Caller(
            call.by.actor,
            call.given.trace_id or pointsman.ids.new_id(),
            tenant=call.by.caller.tenant,
        )
        route = await in_thread(lambda: pointsman.agency.decide(call.given, caller))
        outcome = route.outcome
        if outcome.error_code:
            line = f"{outcome.error_code}: {outcome.cause.meaning}; decision {route.decision_id}"
            return ToolAnswer(agent_value(route), line, is_error=True)
        return ToolAnswer(agent_value(route), agent_screen(route))

    return Tool(
        "agents_decide",
        "Choose an agent",
        AGENT_TOLD,
        GivenJob,
        AgentDecided,
        ("POST", "/router/decide"),
        Hints(is_read_only=False, is_idempotent=False),
        decide,
        read_agent_facts,
    )
