"""`place`: may a question leave this machine?"""

from __future__ import annotations

from typing import Final

from pointsman.app import Pointsman
from pointsman.mcp.shapes import PlaceAnswer
from pointsman.mcp.tool import Answer, Call, Hints, Tool
from pointsman.mcp.working import in_thread
from pointsman.placement.explain import to_json, to_screen
from pointsman.placement.facts import GivenPlacement, read_facts

TOLD: Final = (
    "Decide whether a question may leave this machine, from the question, the state of the models "
    "and the network, and the policy in force. The decision is recorded; nothing is sent anywhere."
)


def place_tool(pointsman: Pointsman) -> Tool[GivenPlacement]:
    """Return the tool."""

    async def place(call: Call[GivenPlacement]) -> Answer:
        facts = await in_thread(lambda: pointsman.placement_facts(call.given))
        shown = await in_thread(lambda: pointsman.place(facts))
        return Answer(to_json(shown), to_screen(shown))

    return Tool(
        "place",
        "Place a question",
        TOLD,
        GivenPlacement,
        PlaceAnswer,
        ("POST", "/api/place"),
        Hints(is_read_only=False, is_idempotent=False),
        place,
        read_facts,
    )
