"""Conversations on scripted providers that speak the vendors' wire formats, ledger and all."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from tests.acceptance.parlour import (
    HAIKU,
    MINI,
    OPUS,
    PICTURE,
    ROUTING,
    SONNET,
    Bench,
    a_parlour,
    encoded,
    over,
    replays,
    said,
    told,
)
from tests.gateway.house import stalls

from pointsman.conversations.conversations import Conversation
from pointsman.conversations.services import Kit
from pointsman.errors import InputError, NotFound, UnknownModel
from pointsman.sessions.tool import ConfirmationAnswer, ConfirmationRequest
from pointsman.sessions.update import (
    Confirm,
    MessageComplete,
    Notice,
    RouteUpdate,
    TextDelta,
    ToolState,
    Update,
    UsageUpdate,
)
from pointsman.testing import calls, fails, says
from pointsman.turns.explain import to_screen

pytestmark = pytest.mark.anyio
SIMPLE = [
    "turn.started", "route.decided", "llm.call_started", "llm.call_completed", "turn.completed",
]  # fmt: skip


async def cancelled(conversation: Conversation, text: str, kind: type[Update]) -> list[Update]:
    """Send a message and cancel at the first update of a kind."""
    found: list[Update] = []
    async for update in conversation.send(text):
        found.append(update)
        if isinstance(update, kind):
            conversation.cancel()
            conversation.cancel()
    return found


@pytest.mark.req(110, 122, 244)
async def test_a_turn_is_shown_recorded_and_kept(tmp_path: Path) -> None:
    async with a_parlour(tmp_path / "h", says("hello yourself")) as parlour:
        conversation = await parlour.conversations.start()
        assert conversation.sticky_model is None
        updates = await said(conversation, "hello")
        assert "".join(each.text for each in updates if isinstance(each, TextDelta)) == (
            "hello yourself"
        )
        (routed,) = [each for each in updates if isinstance(each, RouteUpdate)]
        assert (routed.model, routed.policy) == (OPUS, "global_default")
        assert over(updates).status == "completed"
        assert parlour.types(conversation.id) == ["session.created", *SIMPLE]
        kept = parlour.conversations.messages(conversation.id)
        assert [each.role for each in kept] == ["user", "assistant"]
        usage = kept[1].metadata.usage
        assert usage is not None
        assert usage.cost_usd == "0.000285"
        replays(parlour)


@pytest.mark.req(111, 112, 171, 264, 278)
async def test_tool_cycles_stay_on_their_model_and_their_turn(tmp_path: Path) -> None:
    bench = Bench()
    script = (
        calls(("read_file", {"path": "README.md"})),
        calls(("read_file", {"path": "TOC.md"})),
        says("a summary"),
    )
    rules = [
        {"name": "reads", "when": {"message_matches": "^Read"}, "use": SONNET},
        {"name": "md", "when": {"file_extensions_in_context": [".md"]}, "use": HAIKU},
    ]
    async with a_parlour(
        tmp_path / "h", *script, says("more"), routing={**ROUTING, "rules": rules}
    ) as parlour:
        conversation = await parlour.conversations.start(kit=Kit(bench))
        updates = await said(conversation, "Read README.md and summarize")
        assert over(updates).text == "a summary"
        assert {each.json["model"] for each in parlour.anthropic.requests} == {"claude-sonnet-4-6"}
        states = [(each.name, each.state) for each in updates if isinstance(each, ToolState)]
        assert states == [("read_file", "running"), ("read_file", "done")] * 2
        turns = {each.turn_id for each in parlour.conversations.events(conversation.id)} - {""}
        assert len(turns) == 1
        assert parlour.types(conversation.id).count("route.decided") == 1
        again = await said(conversation, "and now?")
        assert over(again).model == HAIKU
        replays(parlour)


@pytest.mark.req(114, 115, 123, 124, 265, 302)
async def test_a_swap_during_a_turn_waits_and_the_last_one_counts(tmp_path: Path) -> None:
    async with a_parlour(tmp_path / "h", says("one"), says("two"), says("three")) as parlour:
        conversation = await parlour.conversations.start()
        notices: list[Notice | None] = []
        async for update in conversation.send("first"):
            if isinstance(update, RouteUpdate):
                notices.append(await conversation.swap_model("haiku"))
                notices.append(await conversation.swap_model("sonnet"))
        assert [each.text for each in notices if each is not None] == [
            f"Model swap pending: {HAIKU}. Applies to next turn.",
            f"Model swap pending: {SONNET}. Applies to next turn.",
        ]
        assert conversation.sticky_model is None
        assert conversation.pending_model == (SONNET,)
        updates = await said(conversation, "second")
        assert over(updates).model == SONNET
        (routed,) = [each for each in updates if isinstance(each, RouteUpdate)]
        assert routed.policy == "manual_sticky"
        assert await conversation.swap_model(None) is None
        assert over(await said(conversation, "third")).model == OPUS
        names = [each.json["model"] for each in parlour.anthropic.requests]
        assert names == ["claude-opus-4-7", "claude-sonnet-4-6", "claude-opus-4-7"]


@pytest.mark.req(117)
async def test_a_queued_swap_applies_after_a_cancel(tmp_path: Path) -> None:
    async with a_parlour(tmp_path / "h", stalls("a long story"), says("two")) as parlour:
        conversation = await parlour.conversations.start()
        async for update in conversation.send("first"):
            if isinstance(update, TextDelta):
                await conversation.swap_model("haiku")
                conversation.cancel()
        assert over(await said(conversation, "second")).model == HAIKU


@pytest.mark.req(258)
async def test_an_override_beats_the_sticky_model_and_leaves_it(tmp_path: Path) -> None:
    async with a_parlour(tmp_path / "h", says("one"), says("two")) as parlour:
        conversation = await parlour.conversations.start()
        await conversation.swap_model("haiku")
        updates = await said(conversation, "@sonnet tell me")
        assert over(updates).model == SONNET
        assert parlour.anthropic.requests[0].json["messages"][-1]["content"][0]["text"] == "tell me"
        assert conversation.sticky_model == HAIKU
        assert over(await said(conversation, "and now")).model == HAIKU


@pytest.mark.req(272)
async def test_an_unknown_alias_starts_no_turn(tmp_path: Path) -> None:
    async with a_parlour(tmp_path / "h", says("one")) as parlour:
        conversation = await parlour.conversations.start()
        with pytest.raises(InputError, match="names no model"):
            await said(conversation, "@hiaku tell me")
        assert parlour.types(conversation.id) == ["session.created"]
        with pytest.raises(UnknownModel):
            await conversation.swap_model("hiaku")
        assert over(await said(conversation, "hello")).status == "completed"


@pytest.mark.req(283)
async def test_with_every_provider_down_the_turn_does_not_start(tmp_path: Path) -> None:
    async with a_parlour(tmp_path / "h", fails(401), fails(401)) as parlour:
        conversation = await parlour.conversations.start()
        first = over(await said(conversation, "hello"))
        assert first.status == "failed"
        updates = await said(conversation, "hello again, are you there?")
        assert over(updates).status == "no_model"
        assert "anthropic provider currently unavailable" in over(updates).error
        assert told(updates) == []
        assert parlour.types(conversation.id)[-1] != "turn.started"
        assert len([each for each in conversation.history if each.role == "user"]) == 1


async def test_a_failed_model_is_replaced_before_the_first_word(tmp_path: Path) -> None:
    rules = [{"name": "all", "when": {"has_images": False}, "use": MINI}]
    async with a_parlour(
        tmp_path / "h",
        says("from opus"),
        openai=(fails(500),) * 3,
        routing={**ROUTING, "rules": rules},
    ) as parlour:
        conversation = await parlour.conversations.start()
        updates = await said(conversation, "hello")
        assert over(updates).text == "from opus"
        assert over(updates).error == ""
        kinds = [each.kind for each in updates if isinstance(each, RouteUpdate)]
        assert kinds == ["turn", "fallback"]
        assert parlour.types(conversation.id).count("route.decided") == 1
        replays(parlour)


@pytest.mark.req(279)
async def test_a_rule_edited_between_turns_counts_for_the_next(tmp_path: Path) -> None:
    async with a_parlour(tmp_path / "h", says("one"), says("two")) as parlour:
        conversation = await parlour.conversations.start()
        assert over(await said(conversation, "first")).model == OPUS
        rules = [{"name": "all", "when": {"has_images": False}, "use": HAIKU}]
        (tmp_path / "h" / "routing.yaml").write_text(json.dumps({**ROUTING, "rules": rules}))
        assert over(await said(conversation, "second")).model == HAIKU


@pytest.mark.req(116, 118)
async def test_cancel_while_the_model_speaks(tmp_path: Path) -> None:
    async with a_parlour(tmp_path / "h", stalls("a long story"), says("anew")) as parlour:
        conversation = await parlour.conversations.start()
        updates = await cancelled(conversation, "tell me", TextDelta)
        assert parlour.types(conversation.id)[1:] == [
            "turn.started", "route.decided", "llm.call_started", "llm.call_failed",
            "turn.cancelled",
        ]  # fmt: skip
        assert MessageComplete("cancelled") in updates
        assert over(updates).status == "cancelled"
        kept = parlour.conversations.messages(conversation.id)
        assert kept[-1].metadata.status == "cancelled"
        assert kept[-1].text
        assert "a long story".startswith(kept[-1].text)
        updates = await said(conversation, "again please")
        assert over(updates).text == "anew"


@pytest.mark.req(116, 118)
async def test_cancel_while_a_tool_runs(tmp_path: Path) -> None:
    bench = Bench()
    script = calls(("hang", {}), ("read_file", {}))
    async with a_parlour(tmp_path / "h", script, says("anew")) as parlour:
        conversation = await parlour.conversations.start(kit=Kit(bench))

        async def stop() -> None:
            await bench.running.wait()
            conversation.cancel()
            conversation.cancel()

        stopping = asyncio.ensure_future(stop())
        updates = await said(conversation, "do it")
        await stopping
        assert told(updates) == [
            "turn.started", "llm.call_started", "llm.call_completed", "tool.called",
            "tool.failed", "tool.failed", "turn.cancelled",
        ]  # fmt: skip
        assert len(bench.cancelled) == 1
        assert [name for _, name in bench.ran] == ["hang"]
        assert over(await said(conversation, "again please")).text == "anew"


@pytest.mark.req(116, 118)
async def test_cancel_at_the_seam(tmp_path: Path) -> None:
    bench = Bench()
    async with a_parlour(tmp_path / "h", calls(("look", {}), ("read_file", {}))) as parlour:
        conversation = await parlour.conversations.start(kit=Kit(bench))
        updates = await cancelled(conversation, "do it", UsageUpdate)
        assert told(updates) == [
            "turn.started", "llm.call_started", "llm.call_completed", "tool.failed",
            "tool.failed", "turn.cancelled",
        ]  # fmt: skip
        assert bench.ran == []


async def test_a_tool_waits_for_its_human(tmp_path: Path) -> None:
    bench = Bench()
    bench.asks["read_file"] = ConfirmationRequest("read a file", "read_file")
    script = (calls(("read_file", {})), calls(("read_file", {})), says("done"))
    async with a_parlour(tmp_path / "h", *script) as parlour:
        conversation = await parlour.conversations.start(kit=Kit(bench, is_interactive=True))
        asked = 0
        async for update in conversation.send("please"):
            if isinstance(update, Confirm):
                asked += 1
                conversation.answer(update.asked.id, ConfirmationAnswer("allow", "session"))
        assert asked == 1
        assert len(bench.ran) == 2
        with pytest.raises(NotFound):
            conversation.answer("id", ConfirmationAnswer("allow"))


async def test_without_anybody_to_ask_a_tool_that_must_ask_does_not_run(tmp_path: Path) -> None:
    bench = Bench()
    bench.asks["read_file"] = ConfirmationRequest("read a file", "read_file")
    async with a_parlour(tmp_path / "h", calls(("read_file", {})), says("fine")) as parlour:
        conversation = await parlour.conversations.start(kit=Kit(bench))
        updates = await said(conversation, "please")
        assert bench.ran == []
        assert over(updates).text == "fine"
        assert "tool.confirmation_resolved" in told(updates)


async def test_images_are_sent_and_seen_by_models_with_eyes(tmp_path: Path) -> None:
    async with a_parlour(tmp_path / "h", says("a cat"), says("which one?")) as parlour:
        conversation = await parlour.conversations.start()
        updates = await said(conversation, "what is it?", PICTURE)
        assert over(updates).text == "a cat"
        content = parlour.anthropic.requests[0].json["messages"][0]["content"]
        assert [each["type"] for each in content][:2] == ["text", "image"]
        await said(conversation, "@haiku and this?")
        assert "cannot see" in encoded(parlour.anthropic.requests[1].json)


@pytest.mark.req(255)
async def test_the_last_turns_whole_chain_can_be_shown(tmp_path: Path) -> None:
    async with a_parlour(tmp_path / "h", says("hello")) as parlour:
        conversation = await parlour.conversations.start()
        turn_id = over(await said(conversation, "hi")).turn_id
        screen = to_screen(parlour.pointsman.read_turn(turn_id))
        assert f"session {conversation.id}" in screen
        assert "[7] GLOBAL_DEFAULT         chose" in screen
        assert "call 1: " in screen


async def test_whoever_stops_following_ends_the_turn(tmp_path: Path) -> None:
    async with a_parlour(tmp_path / "h", stalls("a long story")) as parlour:
        conversation = await parlour.conversations.start()
        following = conversation.send("tell me")
        async for update in following:
            if isinstance(update, TextDelta):
                break
        await following.aclose()  # type: ignore[attr-defined] # a generator
        assert parlour.types(conversation.id)[-1] == "turn.cancelled"
        assert not conversation.is_busy


async def test_one_turn_at_a_time(tmp_path: Path) -> None:
    async with a_parlour(tmp_path / "h", says("one")) as parlour:
        conversation = await parlour.conversations.start()
        async for update in conversation.send("first"):
            if isinstance(update, RouteUpdate):
                with pytest.raises(InputError, match="under way"):
                    await said(conversation, "second")


async def test_a_second_opinion_shows_the_answer_that_is_taken_and_no_other(tmp_path: Path) -> None:
    routing = {**ROUTING, "pattern": {"second_opinion": {"ask": [HAIKU, MINI]}}}
    said_by = {"openai": (says("Answer: 4."), says("5")), "routing": routing}
    replies = (says("**4**"), says("4"), says("it is six"))
    async with a_parlour(tmp_path / "h", *replies, **said_by) as parlour:
        conversation = await parlour.conversations.start()
        updates = await said(conversation, "two and two?")
        shown = "".join(each.text for each in updates if isinstance(each, TextDelta))
        assert (shown, over(updates).model) == ("**4**", HAIKU)
        updates = await said(conversation, "and then?")
        shown = "".join(each.text for each in updates if isinstance(each, TextDelta))
        assert (shown, over(updates).model) == ("it is six", OPUS)
        assert parlour.types(conversation.id).count("turn.opinion") == 6
        replays(parlour)


@pytest.mark.parametrize(("digit", "shown"), [("3", "**4**"), ("1", "from above")])
async def test_a_judge_in_a_chat_is_asked_about_an_answer_that_is_held(
    tmp_path: Path, digit: str, shown: str
) -> None:
    asked = {"ask": [HAIKU], "agree": "judge", "judge": MINI}
    routing = {**ROUTING, "pattern": {"second_opinion": asked}}
    replies = (says("**4**"), says("from above"))
    async with a_parlour(
        tmp_path / "h", *replies, openai=(says(digit),), routing=routing
    ) as parlour:
        conversation = await parlour.conversations.start()
        updates = await said(conversation, "two and two?")
        assert "".join(each.text for each in updates if isinstance(each, TextDelta)) == shown
        assert "two and two?" in str(parlour.openai.requests[0].json)
        replays(parlour)
