"""A planner that delegates, and what its worker gave back."""

from __future__ import annotations

from typing import Any

import msgspec
from tests.unit.sessions.play import Play, a_tool, a_use, answer

from pointsman.providers.messages import Text, ToolResult

READ, SHELL = a_tool("read_file"), a_tool("shell")
TASK = "rename `foo` to `bar` in src/"
MINIMAL = {"mode": "minimal"}


def call(task: str = TASK, tier: str = "fast", **more: Any) -> dict[str, Any]:
    return {"tier": tier, "task": task, "context": MINIMAL, **more}


def delegates(*given: dict[str, Any]) -> Any:
    uses = [a_use("delegate", each, id=f"tu_{number}") for number, each in enumerate(given, 1)]
    return answer(*uses, stop="tool_use")


def result_of(play: Play, number: int = 0) -> dict[str, Any]:
    """What the planner reads of its delegation."""
    found = [
        block
        for message in play.messages
        for block in message.content
        if isinstance(block, ToolResult)
    ]
    (text,) = found[number].content
    assert isinstance(text, Text)
    return msgspec.json.decode(text.text)  # type: ignore[no-any-return] # an object
