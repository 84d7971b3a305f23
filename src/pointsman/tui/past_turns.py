"""Past turns, drawn again from their stored messages."""

from __future__ import annotations

from collections.abc import Sequence

from pointsman.kernel.number import MicroUsd
from pointsman.providers.messages import Text, Thinking, ToolUse
from pointsman.sessions.message import SessionMessage
from pointsman.tui.plain import span_text, usd_text
from pointsman.tui.turn_view import RouteLine, TurnView, pictures_in, recorded_reason

PastTurn = tuple[SessionMessage, ...]
"""The messages of one turn."""


def split_turns(history: Sequence[SessionMessage]) -> list[PastTurn]:
    """Split a history into its turns."""
    found: dict[str, list[SessionMessage]] = {}
    for message in history:
        found.setdefault(message.turn_id, []).append(message)
    return [tuple(messages) for messages in found.values()]


def past_turn_view(past: PastTurn) -> TurnView:
    """Return the view of a past turn; `draw_turn` fills it once it is on the screen."""
    first = past[0]
    view = TurnView(first.text if first.role == "user" else "", pictures_in(first))
    view.set_route(_line(past), first.turn_id)
    return view


async def draw_turn(view: TurnView, past: PastTurn) -> None:
    """Fill a view with the answers and tools of its turn."""
    for message in past:
        if message.role != "assistant":
            continue
        for block in message.content:
            match block:
                case Text():
                    await view.say(block.text)
                case Thinking():
                    await view.think(block.text)
                case ToolUse():
                    tool = await view.tool(block.id, block.name)
                    tool.stand("done" if _is_answered(past, block.id) else "cancelled")
                case _:
                    pass
        if message.metadata.status != "complete":
            await view.note(f"this answer was not finished: {message.metadata.status}")
    view.results(past)
    await view.finish()


def _line(past: PastTurn) -> RouteLine:
    said = [each.metadata for each in past if each.metadata.model]
    if not said:
        return RouteLine(state="no answer")
    last, usages = said[-1], [each.usage for each in said if each.usage is not None]
    cost = MicroUsd(sum(each.cost_microusd for each in usages))
    took = sum(each.latency_ms for each in usages) * 1000
    return RouteLine(
        model=last.model or "",
        why="" if last.routing is None else recorded_reason(last.routing),
        cost=usd_text(cost),
        took=span_text(took),
        state="" if last.status == "complete" else last.status,
    )


def _is_answered(past: PastTurn, tool_use_id: str) -> bool:
    return any(
        getattr(block, "tool_use_id", "") == tool_use_id and not getattr(block, "is_error", True)
        for message in past
        for block in message.content
    )
