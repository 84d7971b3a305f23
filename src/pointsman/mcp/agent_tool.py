"""`agents_decide`: which agent takes a job, how deep, with how many tokens?"""

from __future__ import annotations

from typing import Final

from pointsman.agents.explain import to_json, to_screen
from pointsman.agents.facts import GivenJob, read_facts
from pointsman.app import Pointsman
from pointsman.jobs.entries import Caller
from pointsman.mcp.shapes import AgentDecided
from pointsman.mcp.tool import Answer, Call, Hints, Tool
from pointsman.mcp.working import in_thread

TOLD: Final = (
    "Decide which agent takes a job, from recorded snapshots of the modules and of a mind, with "
    "every candidate's score and why each was left out. Recorded; runs no agent."
)


def agent_tool(pointsman: Pointsman) -> Tool[GivenJob]:
    """Return the tool."""

    async def decide(call: Call[GivenJob]) -> Answer:
        caller = Caller(call.by.actor, call.given.trace_id or pointsman.ids.new_id())
        route = await in_thread(lambda: pointsman.agency.decide(call.given, caller))
        outcome = route.outcome
        if outcome.error_code:
            line = f"{outcome.error_code}: {outcome.cause.meaning}; decision {route.decision_id}"
            return Answer(to_json(route), line, is_error=True)
        return Answer(to_json(route), to_screen(route))

    return Tool(
        "agents_decide",
        "Choose an agent",
        TOLD,
        GivenJob,
        AgentDecided,
        ("POST", "/router/decide"),
        Hints(is_read_only=False, is_idempotent=False),
        decide,
        read_facts,
    )
