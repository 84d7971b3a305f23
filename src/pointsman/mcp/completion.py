"""Completion of half-written names: ids of turns and of decisions that the caller may read."""

from __future__ import annotations

from typing import Final, NamedTuple

from pointsman.access.roles import RouteKey
from pointsman.app import Pointsman
from pointsman.mcp.prompts import WHY
from pointsman.mcp.resources import DECISION, READ_DECISION, TURN
from pointsman.mcp.turn_tools import READ_TURNS

MOST: Final = 100
"""As many as the protocol lets an answer hold."""
LOOKED_AT: Final = 1_000
"""Turns that are looked through, the newest first."""

_TURNS: Final = ((TURN + "{id}", "id"), (WHY.name, "turn"))
_DECISIONS: Final = ((DECISION + "{id}", "id"),)


class Completed(NamedTuple):
    """The names that begin so, and whether there are more than are given."""

    names: list[str]
    has_more: bool


NOTHING: Final = Completed([], has_more=False)


def route_needed(of: str, argument: str) -> RouteKey | None:
    """Return the route whose access allows completing an argument of a prompt or a template."""
    if (of, argument) in _TURNS:
        return READ_TURNS
    return READ_DECISION if (of, argument) in _DECISIONS else None


def complete(pointsman: Pointsman, route: RouteKey, begun: str) -> Completed:
    """Return the names that begin so: turns with the newest first, decisions as they stand."""
    if route == READ_TURNS:
        names = ["last", *(each.turn_id for each in pointsman.recent(LOOKED_AT))]
    else:
        names = [*pointsman.branching.in_force().decisions]
    found = [each for each in dict.fromkeys(names) if each.startswith(begun)]
    return Completed(found[:MOST], has_more=len(found) > MOST)
