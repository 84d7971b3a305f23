"""Calls of one answer that only read run side by side; what is told of them stays in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw
from tests.acceptance.parlour import (
    MINI,
    ROUTING,
    Bench,
    a_model,
    a_parlour,
    able,
    models,
    over,
)

from pointsman.conversations.conversation import NO_TOOLS
from pointsman.conversations.services import Kit
from pointsman.providers.messages import Text, ToolUse
from pointsman.sessions.delegate_call import MOST_AT_ONCE
from pointsman.sessions.tool import ConfirmationRequest, ToolContext, ToolDefinition, ToolOutcome
from pointsman.sessions.update import Notice, ToolAnswered, ToolAsked, ToolState, TurnOver
from pointsman.testing import ScriptedUpstream, calls, says

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Shelf(Bench):
    """Tools that read, each done only once as many run as a test waits for; one that writes."""

    def __init__(self, together: int) -> None:
        super().__init__()
        self._together = together
        self._full = asyncio.Event()
        self.running_now = 0
        self.most = 0
        self.order: list[str] = []
        self.on_most = 0
        self.then: Callable[[], object] = bool

    def definitions(self) -> tuple[ToolDefinition, ...]:
        schema = Raw(b'{"type": "object"}')
        writing = ToolDefinition("write_file", "writes", schema, "write", requires_workspace=False)
        return (*super().definitions(), writing)

    async def cancel(self, tool_use_id: str) -> None:
        await super().cancel(tool_use_id)
        if len(self.cancelled) == self.on_most:
            self._full.set()

    async def run(self, use: ToolUse, context: ToolContext) -> ToolOutcome:
        self.running_now += 1
        self.most = max(self.most, self.running_now)
        self.order.append(use.name)
        if self.running_now == self.on_most:
            self.then()
        if use.name != "write_file":
            if self.running_now >= self._together:
                self._full.set()
            await self._full.wait()
        self.running_now -= 1
        return ToolOutcome((Text(f"{use.name} {bytes(use.input).decode()}"),))


def reads(count: int) -> tuple[tuple[str, dict[str, Any]], ...]:
    return tuple(("read_file", {"number": number}) for number in range(count))


async def test_readers_run_at_once_and_are_answered_in_the_order_of_their_calls(
    tmp_path: Path,
) -> None:
    async with a_parlour(tmp_path, calls(*reads(3)), says("read")) as parlour:
        conversation = await parlour.conversations.start(kit=Kit(Shelf(together=3)))
        updates = [each async for each in conversation.send("read all")]
        asked = [each.use.id for each in updates if isinstance(each, ToolAsked)]
        answered = [each.result.tool_use_id for each in updates if isinstance(each, ToolAnswered)]
        assert answered == asked
        assert len(asked) == 3
        told = [each for each in parlour.types(conversation.id) if each.startswith("tool.")]
        assert told == ["tool.called"] * 3 + ["tool.completed"] * 3
        sent = parlour.anthropic.requests[1].json["messages"][-1]["content"]
        assert [each["content"][0]["text"] for each in sent] == [
            f'read_file {{"number":{n}}}' for n in range(3)
        ]


async def test_no_more_readers_run_at_once_than_workers_do(tmp_path: Path) -> None:
    shelf = Shelf(together=MOST_AT_ONCE)
    async with a_parlour(tmp_path, calls(*reads(9)), says("read")) as parlour:
        conversation = await parlour.conversations.start(kit=Kit(shelf))
        assert [each async for each in conversation.send("read all")][-1].status == "completed"
    assert shelf.most == MOST_AT_ONCE


async def test_what_writes_waits_for_the_readers_before_it_and_comes_before_those_after(
    tmp_path: Path,
) -> None:
    shelf = Shelf(together=2)
    asked = calls(*reads(2), ("write_file", {}), ("look", {}), ("look", {}))
    async with a_parlour(tmp_path, asked, says("done")) as parlour:
        conversation = await parlour.conversations.start(kit=Kit(shelf))
        assert [each async for each in conversation.send("do it")][-1].status == "completed"
    assert shelf.order == ["read_file", "read_file", "write_file", "look", "look"]


async def test_a_reader_that_needs_a_yes_does_not_run_beside_others(tmp_path: Path) -> None:
    shelf = Shelf(together=1)
    shelf.asks["look"] = ConfirmationRequest("look behind the curtain", scope_key="look")
    asked = calls(("read_file", {}), ("look", {}), ("read_file", {}))
    async with a_parlour(tmp_path, asked, says("done")) as parlour:
        conversation = await parlour.conversations.start(kit=Kit(shelf))
        updates = [each async for each in conversation.send("do it")]
    states = [each.state for each in updates if isinstance(each, ToolState)]
    assert "waiting" in states
    assert shelf.order == ["read_file", "read_file"]
    assert shelf.most == 1


async def test_a_cancel_ends_all_readers_and_answers_each_once(tmp_path: Path) -> None:
    shelf = Shelf(together=99)
    shelf.on_most = MOST_AT_ONCE
    async with a_parlour(tmp_path, calls(*reads(6))) as parlour:
        conversation = await parlour.conversations.start(kit=Kit(shelf))
        shelf.then = conversation.cancel
        over = [each async for each in conversation.send("read all")][-1]
        assert isinstance(over, TurnOver)
        assert over.status == "cancelled"
        told = parlour.types(conversation.id)
        assert told.count("tool.called") == told.count("tool.failed") == 6
        assert told[-1] == "turn.cancelled"
    assert len(shelf.cancelled) == MOST_AT_ONCE


async def test_a_session_that_must_stay_goes_on_without_tools_where_no_local_model_has_them(
    tmp_path: Path,
) -> None:
    async with ScriptedUpstream(says("here"), says("still here")) as upstream:
        known = models(upstream.base_url, upstream.base_url)
        unable = {**able(), "supports_tools": False}
        known["models"][MINI] = a_model("fast", "mini", "2", location="local", capabilities=unable)
        routing = {**ROUTING, "global_default": MINI}
        async with a_parlour(tmp_path, models=known, routing=routing) as parlour:
            conversation = await parlour.conversations.start(kit=Kit(Bench()), privacy="local")
            first = [each async for each in conversation.send("hi")]
            then = [each async for each in conversation.send("and now?")]
    assert [each for each in first if isinstance(each, Notice)] == [NO_TOOLS]
    assert not [each for each in then if isinstance(each, Notice)]
    assert [over(each).text for each in (first, then)] == ["here", "still here"]
    assert not any("tools" in each.json for each in upstream.requests)
