"""What stays of a conversation: its words, its verdicts, what was learned from it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.acceptance.parlour import (
    HAIKU,
    Bench,
    a_parlour,
    encoded,
    opened,
    over,
    said,
)

from pointsman.conversations.services import Kit
from pointsman.errors import NotFound
from pointsman.providers.messages import Text
from pointsman.sessions.envelope import Envelope
from pointsman.sessions.events.session import FeedbackImplicit
from pointsman.sessions.tool import ToolOutcome
from pointsman.sessions.update import RouteUpdate
from pointsman.testing import calls, says

pytestmark = pytest.mark.anyio


async def test_no_word_is_in_the_ledger(tmp_path: Path) -> None:
    bench = Bench({"read_file": ToolOutcome((Text("opensesame"),))})
    async with a_parlour(
        tmp_path / "h", calls(("read_file", {"path": "opensesame.txt"})), says("opensesame")
    ) as parlour:
        conversation = await parlour.conversations.start(kit=Kit(bench))
        await said(conversation, "opensesame please")
        await conversation.feedback("thumbs_up", "opensesame indeed")
        await conversation.end()
        await parlour.conversations.close()
        parlour.pointsman.close()
        for path in (tmp_path / "h").glob("ledger.db*"):
            assert b"opensesame" not in path.read_bytes()


async def test_asking_again_swapping_and_rewording_are_noticed(tmp_path: Path) -> None:
    async with a_parlour(tmp_path / "h", *[says("hm")] * 4) as parlour:
        conversation = await parlour.conversations.start()
        await said(conversation, "please fix the bug in the parser module")
        await said(conversation, "please fix the bug in the parser module")
        await said(conversation, "please fix the bugs in the parser module")
        await conversation.swap_model("haiku")
        events = parlour.conversations.events(conversation.id)
        signals = [
            each.payload.signal
            for each in events
            if isinstance(each, Envelope) and isinstance(each.payload, FeedbackImplicit)
        ]
        assert signals == ["retry", "edit_followup", "manual_swap"]


async def test_a_session_is_resumed_with_all_it_knew(tmp_path: Path) -> None:
    async with a_parlour(tmp_path / "h", says("one"), says("two")) as parlour:
        conversation = await parlour.conversations.start(tmp_path)
        await said(conversation, "my name is Ada")
        await conversation.swap_model("haiku")
        await parlour.conversations.close()
        again = opened(parlour.pointsman)
        resumed = await again.resume(conversation.id)
        assert resumed.workspace == str(tmp_path)
        assert resumed.sticky_model == HAIKU
        assert [each.text for each in resumed.history] == ["my name is Ada", "one"]
        assert over(await said(resumed, "what is my name?")).text == "two"
        assert "my name is Ada" in encoded(parlour.anthropic.requests[-1].json)
        with pytest.raises(NotFound):
            await again.resume("nobody")
        await again.close()


@pytest.mark.parametrize(
    ("retain", "kept"),
    [
        ("redacted", "call [phone] now"),
        ("digest", "[a message that was not kept]"),
    ],
)
async def test_words_are_kept_as_the_home_retains_them(
    tmp_path: Path, retain: str, kept: str
) -> None:
    async with a_parlour(tmp_path / "h", says("ok"), pointsman={"retain": retain}) as parlour:
        conversation = await parlour.conversations.start()
        await said(conversation, "call +41 44 668 18 00 now")
        found = parlour.conversations.messages(conversation.id)[0].text
        assert "668" not in found
        if retain == "digest":
            assert found == kept


async def test_words_can_be_erased_for_good(tmp_path: Path) -> None:
    async with a_parlour(tmp_path / "h", says("opensesame")) as parlour:
        conversation = await parlour.conversations.start()
        await said(conversation, "say opensesame")
        assert parlour.conversations.erase(conversation.id) == 2
        await parlour.conversations.close()
        for path in (tmp_path / "h").glob("conversations.db*"):
            assert b"opensesame" not in path.read_bytes()


async def test_a_swap_outlives_the_process_it_waited_in(tmp_path: Path) -> None:
    async with a_parlour(tmp_path / "h", says("one"), says("two")) as parlour:
        conversation = await parlour.conversations.start()
        async for update in conversation.send("first"):
            if isinstance(update, RouteUpdate):
                await conversation.swap_model("haiku")
        resumed = await parlour.conversations.resume(conversation.id)
        assert over(await said(resumed, "second")).model == HAIKU
