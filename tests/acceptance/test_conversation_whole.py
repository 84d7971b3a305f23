"""One session from its first word to its last: tools, workers, cancels, a crash, and its end.

The events are those the catalogue documents, in their order; every decision replays.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.parlour import (
    HAIKU,
    OPUS,
    SONNET,
    Bench,
    Parlour,
    a_parlour,
    encoded,
    killed,
    over,
    said,
)
from tests.gateway.house import stalls

from pointsman.conversations.conversations import Conversation
from pointsman.conversations.services import Kit
from pointsman.kernel.number import MicroUsd
from pointsman.providers.messages import Image
from pointsman.sessions.envelope import Envelope
from pointsman.sessions.events.delegation import DelegateStarted
from pointsman.sessions.tool import ToolOutcome
from pointsman.sessions.update import TextDelta, Update, UsageUpdate
from pointsman.testing import calls, says

pytestmark = pytest.mark.anyio

BEGUN = ["turn.started", "route.decided"]
CALLED = ["llm.call_started", "llm.call_completed"]
TOOL = ["tool.called", "tool.completed"]
WITH_TOOLS = [*BEGUN, *CALLED, *TOOL, *CALLED, *TOOL, *CALLED, "turn.completed"]
CUT_CALL = [*BEGUN, "llm.call_started", "llm.call_failed", "turn.cancelled"]
CUT_TOOL = [*BEGUN, *CALLED, "tool.called", "tool.failed", "turn.cancelled"]
CUT_SEAM = [*BEGUN, *CALLED, "tool.failed", "tool.failed", "turn.cancelled"]
CRASHED = [*BEGUN, "llm.call_started"]
CLOSED = ["session.resumed", "llm.call_failed", "turn.cancelled"]
SIMPLE = [*BEGUN, *CALLED, "turn.completed"]
WORKER = [
    "session.created", *BEGUN, *CALLED, "turn.completed", "session.ended",
]  # fmt: skip


def now_delegate(request: Any) -> Any:
    """A planner that points at the picture it was shown."""
    shown = encoded(request.json).split("[tool_use_id: ")[1].split("]")[0]
    include = [{"type": "tool_result", "tool_use_id": shown}]
    given = [
        {"tier": "fast", "task": "rename it", "context": {"mode": "minimal"}},
        {"tier": "fast", "task": "see it", "context": {"mode": "explicit", "include": include}},
    ]
    return calls(*(("delegate", each) for each in given))(request)


async def stopped_at(conversation: Conversation, text: str, kind: type[Update]) -> None:
    async for update in conversation.send(text):
        if isinstance(update, kind):
            conversation.cancel()


async def stopped_in_tool(conversation: Conversation, bench: Bench) -> None:
    async def stop() -> None:
        await bench.running.wait()
        conversation.cancel()

    stopping = asyncio.ensure_future(stop())
    await said(conversation, "now hang")
    await stopping


def workers_of(parlour: Parlour, session: str) -> dict[str, str]:
    events = parlour.conversations.events(session)
    payloads = [each.payload for each in events if isinstance(each, Envelope)]
    started = [each for each in payloads if isinstance(each, DelegateStarted)]
    return {each.worker_session_id: each.resolved_model for each in started}


@pytest.mark.req(101, 112, 116, 215, 219, 234, 244, 287, 288, 291)
async def test_a_whole_session(tmp_path: Path) -> None:
    home, bench = (
        tmp_path / "h",
        Bench({"look": ToolOutcome((Image("base64", "aGk=", "image/png"),))}),
    )
    tools = (calls(("look", {})), calls(("read_file", {"path": "a.md"})), says("looked"))
    async with a_parlour(home, *tools) as parlour:
        start, script = parlour.conversations.start, parlour.anthropic.then
        conversation = await start(kit=Kit(bench))
        assert over(await said(conversation, "look and read")).text == "looked"

        script(now_delegate, says("worked"), says("worked"), says("delegated"))
        assert over(await said(conversation, "hand it out")).text == "delegated"

        script(stalls("a long story"))
        await stopped_at(conversation, "tell a story", TextDelta)
        script(calls(("hang", {})))
        await stopped_in_tool(conversation, bench)
        script(calls(("look", {}), ("read_file", {})))
        await stopped_at(conversation, "both of them", UsageUpdate)

        script(stalls("until the end"))
        session = await killed(home, "talk for ever", "TextDelta", conversation.id)
        assert session == conversation.id
        script(says("here again"))
        again = await parlour.conversations.resume(session, kit=Kit(bench))
        assert over(await said(again, "are you there?")).text == "here again"
        await again.end()

        workers = workers_of(parlour, session)
        assert sorted(workers.values()) == [HAIKU, SONNET]
        types = parlour.types(session)
        delegating = types[len(WITH_TOOLS) + 1 :]
        assert types[: len(WITH_TOOLS) + 1] == ["session.created", *WITH_TOOLS]
        # Two workers side by side: their four events come in any order that keeps each one's own.
        assert delegating[:4] == [*BEGUN, *CALLED]
        assert sorted(delegating[4:8]) == ["delegate.completed"] * 2 + ["delegate.started"] * 2
        assert delegating[8:] == [
            *CALLED, "turn.completed", *CUT_CALL, *CUT_TOOL, *CUT_SEAM, "session.resumed",
            *CRASHED, *CLOSED, *SIMPLE, "session.ended", *["pattern.recorded"] * 3,
        ]  # fmt: skip
        for worker in workers:
            assert parlour.types(worker) == WORKER

        cost, all_of = again.cost(), [session, *workers]
        usages = [
            message.metadata.usage
            for name in all_of
            for message in parlour.conversations.messages(name)
            if message.metadata.usage is not None
        ]
        assert cost.total_microusd == MicroUsd(sum(each.cost_microusd for each in usages))
        assert {each.model for each in cost.planner} == {OPUS}
        assert [each.id for each in parlour.conversations.list_sessions()] == [session]

        report = parlour.pointsman.replay_all()
        assert (report.diverged, report.unable) == (0, 0)
        assert report.identical == 9
        assert parlour.pointsman.verify().is_intact
