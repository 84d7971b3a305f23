"""Prompts a user may pick: why this model, and a rule from a wish."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from pointsman.app import Pointsman
from pointsman.errors import AccessError, InputError, NotFound
from pointsman.mcp.resources import POLICY, TURN, YAML, Resources
from pointsman.mcp.turn_tools import READ_TURN
from pointsman.mcp.visitor import Visitor
from pointsman.operations.starter import starter_text
from pointsman.turns.explain import to_screen

LONGEST: Final = 4_000


class Argument(Struct, frozen=True):
    """Something a prompt is filled with."""

    name: str
    told: str
    is_required: bool = False


class Prompt(Struct, frozen=True):
    """A prompt in a list."""

    name: str
    title: str
    told: str
    arguments: tuple[Argument, ...]


class Part(Struct, frozen=True):
    """A text of a filled prompt; with an address, it is what stands there."""

    text: str
    uri: str = ""
    media: str = "text/plain"


WHY: Final = Prompt(
    "why_this_model",
    "Why this model?",
    "explain in plain words why a turn went to its model, and what would have changed that",
    (Argument("turn", "a turn's or decision's id; the newest turn without it"),),
)
RULE: Final = Prompt(
    "write_a_rule",
    "Write a routing rule",
    "turn a wish into a rule of routing.yaml, and try it before it is saved",
    (Argument("wish", "what should go to which model, in your words", is_required=True),),
)
PROMPTS: Final = (WHY, RULE)

_WHY: Final = (
    "Below is the why-screen of a recorded turn. Explain in plain words which model was chosen, by "
    "which slot of the chain, and which model served, then go through the candidates that lost and "
    "the calls that failed and say why. End with the one change (a rule, a budget, a capability) "
    "that would have sent it elsewhere. Say nothing that the screen does not show; route_explain "
    "has the whole chain."
)
_RULE: Final = (
    "Write one rule for `routing.yaml` that does what this wish asks for:\n\n{wish}\n\nUse only "
    "predicates that the starter file below shows. Put it where it wins over the rules it must win "
    "over: they are tried in order. Then try it in your head on two messages it should catch and "
    "two it should not, check with route_preview which model takes them today, and show the rule "
    "with the line it belongs after. Do not save it: `pointsman rules check`, `rules test` and "
    "`backtest` come first."
)


class Prompts:
    """The prompts of one home."""

    def __init__(self, pointsman: Pointsman, resources: Resources) -> None:
        self._pointsman = pointsman
        self._resources = resources

    def fill(self, name: str, given: Mapping[str, str], visitor: Visitor) -> list[Part]:
        """Fill a prompt, with what its reader may see."""
        if name == WHY.name:
            visitor.admit(READ_TURN)
            return self._why(given.get("turn") or "last")
        if name == RULE.name:
            return self._rule(given.get("wish", ""), visitor)
        raise NotFound(f"there is no prompt `{name[:100]}`", hint="prompts/list names them")

    def _why(self, turn: str) -> list[Part]:
        story = self._pointsman.read_turn(turn)
        return [Part(_WHY), Part(to_screen(story), TURN + story.first.turn_id)]

    def _rule(self, wish: str, visitor: Visitor) -> list[Part]:
        if not wish.strip():
            raise InputError("`wish` is missing", hint="say what should go to which model")
        if len(wish) > LONGEST:
            raise InputError(f"`wish` is longer than {LONGEST} characters")
        starter = starter_text("routing.yaml").decode()
        parts = [Part(_RULE.format(wish=wish)), Part(f"The starter file:\n\n{starter}")]
        found = self._resources.find(POLICY + "routing")
        try:
            visitor.admit(found.route)
        except AccessError:
            return parts
        return [*parts, Part(found.read().text, POLICY + "routing", YAML)]
