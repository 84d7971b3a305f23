"""A conversation with the tools of the home itself: files, memory, and a worker that has less."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.parlour import Parlour, a_parlour, encoded, over, said, told

from pointsman.conversations.conversations import Conversations, open_conversations
from pointsman.conversations.equipment import equip_from_home
from pointsman.conversations.services import OpenHome
from pointsman.sessions.tool import ConfirmationAnswer
from pointsman.sessions.update import Confirm, Update
from pointsman.testing import calls, says

pytestmark = pytest.mark.anyio


def equipped(parlour: Parlour) -> Conversations:
    """Open the conversations as the app does."""
    pointsman = parlour.pointsman
    parts = (pointsman.home, pointsman.files, pointsman.decision_recorder, pointsman.gathering)
    ground = OpenHome(*parts, pointsman.clock, pointsman.ids, pointsman.gather_placement)
    return open_conversations(ground, equip=equip_from_home, health=pointsman.health)


async def allowed(conversation: Any, text: str) -> list[Update]:
    """Send a message and allow whatever is asked for."""
    found: list[Update] = []
    async for update in conversation.send(text):
        found.append(update)
        if isinstance(update, Confirm):
            conversation.answer(update.asked.id, ConfirmationAnswer("allow"))
    return found


async def test_a_file_is_read_and_another_written_once_allowed(tmp_path: Path) -> None:
    place = tmp_path / "work"
    place.mkdir()
    (place / "a.txt").write_text("the answer is 42\n")
    script = (
        calls(("read_file", {"path": "a.txt"})),
        calls(("write_file", {"path": "b.txt", "content": "42\n", "mode": "create"})),
        says("done"),
    )
    async with a_parlour(tmp_path / "h", *script) as parlour:
        conversations = equipped(parlour)
        conversation = await conversations.start(place, is_interactive=True)
        updates = await allowed(conversation, "copy the answer")
        assert over(updates).text == "done"
        assert (place / "b.txt").read_text() == "42\n"
        assert "the answer is 42" in encoded(parlour.anthropic.requests[1].json)
        assert "tool.confirmation_resolved" in told(updates)
        await conversation.end()
        await conversations.close()


async def test_what_a_planner_remembers_a_worker_is_told_and_cannot_change(tmp_path: Path) -> None:
    task: Any = {
        "tier": "fast",
        "task": "say the colour",
        "context": {"mode": "minimal"},
        "allowed_tools": ["memory_add"],
    }
    script = (
        calls(("memory_add", {"text": "the colour is green"})),
        says("kept"),
        calls(("delegate", task)),
        says("green"),
        says("done"),
    )
    async with a_parlour(tmp_path / "h", *script) as parlour:
        conversations = equipped(parlour)
        first = await conversations.start(is_interactive=True)
        updates = await allowed(first, "remember the colour")
        assert "memory.updated" in told(updates)
        await first.end()
        second = await conversations.start(is_interactive=True)
        assert over(await said(second, "which colour?")).text == "done"
        worker = parlour.anthropic.requests[3].json
        assert "the colour is green" in str(worker["system"])
        assert [each["name"] for each in worker["tools"]] == ["_request_context"]
        await second.end()
        await conversations.close()
