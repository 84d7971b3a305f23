"""What a conversation may not do: send what must stay, spend what is not there."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.acceptance.parlour import (
    HAIKU,
    OPUS,
    ROUTING,
    Bench,
    a_parlour,
    over,
    said,
)
from tests.gateway.house import keeps

from pointsman.conversations.services import Kit
from pointsman.kernel.number import MicroUsd
from pointsman.providers.messages import Text
from pointsman.sessions.tool import ToolOutcome
from pointsman.sessions.update import (
    ConfirmEgress,
    Notice,
    Update,
)
from pointsman.testing import calls, says

pytestmark = pytest.mark.anyio


async def test_what_a_tool_brings_may_have_to_stay_here(tmp_path: Path) -> None:
    """The turn was begun in the cloud; what came back must not follow it there."""
    bench = Bench({"look": ToolOutcome((Text("DE89 3704 0044 0532 0130 00"),))})
    async with a_parlour(tmp_path / "h", calls(("look", {})), placement=keeps("iban")) as parlour:
        conversation = await parlour.conversations.start(kit=Kit(bench))
        updates = await said(conversation, "look")
        assert over(updates).status == "refused"
        assert over(updates).stop_reason == "privacy"
        assert len(parlour.anthropic.requests) == 1


@pytest.mark.parametrize("is_allowed", [True, False])
async def test_a_policy_may_want_a_humans_yes_first(tmp_path: Path, *, is_allowed: bool) -> None:
    asks = {
        "id": "p1",
        "name": "ask",
        "type": "privacy",
        "enabled": True,
        "priority": 1,
        "conditions": [{"field": "content", "operator": "contains", "value": "hello"}],
        "action": "require_confirmation",
        "message": "sure?",
    }
    table = {**keeps(), "policy_rules": [asks]}
    table.pop("sensitive")
    async with a_parlour(tmp_path / "h", says("hi"), placement=table) as parlour:
        conversation = await parlour.conversations.start(is_interactive=True)
        found: list[Update] = []
        async for update in conversation.send("hello"):
            found.append(update)
            if isinstance(update, ConfirmEgress):
                assert update.text == "sure?"
                conversation.allow_egress(is_allowed=is_allowed)
        assert over(found).status == ("completed" if is_allowed else "refused")
        assert len(parlour.anthropic.requests) == int(is_allowed)
        story = parlour.pointsman.read_turn(over(found).turn_id)
        (call,) = story.calls
        assert story.state == ("done" if is_allowed else "refused")
        assert story.served_model == (OPUS if is_allowed else "")
        assert (call.number, call.model) == (1, OPUS)
        if not is_allowed:
            assert (call.outcome, call.error_class, call.status, call.attempts) == (
                "refused", "confirmation_needed", 403, 0,
            )  # fmt: skip
            assert conversation.cost().total_microusd == 0


async def test_a_question_that_is_cancelled_leaves_no_open_turn(tmp_path: Path) -> None:
    asks = {"id": "p1", "action": "requireConfirmation", "message": "sure?"}
    table = {**keeps(), "policy_rules": [asks]}
    async with a_parlour(tmp_path / "h", placement=table) as parlour:
        conversation = await parlour.conversations.start(is_interactive=True)
        found: list[Update] = []
        async for update in conversation.send("hello"):
            found.append(update)
            if isinstance(update, ConfirmEgress):
                conversation.cancel()
        assert over(found).status == "cancelled"
        story = parlour.pointsman.read_turn(over(found).turn_id)
        assert [each.error_class for each in story.calls] == ["confirmation_needed"]
        assert story.state == "refused"


async def test_over_budget_nothing_is_called(tmp_path: Path) -> None:
    budgets = [{"name": "tiny", "limit_usd": "0.000001", "per": "day"}]
    async with a_parlour(
        tmp_path / "h", says("hello"), routing={**ROUTING, "budgets": budgets}
    ) as parlour:
        conversation = await parlour.conversations.start()
        end = over(await said(conversation, "hi"))
        assert end.status == "no_model"
        assert "over_budget" in end.error
        assert parlour.anthropic.requests == []


async def test_spending_counts_against_the_days_budget(tmp_path: Path) -> None:
    async with a_parlour(tmp_path / "h", says("hello"), says("again")) as parlour:
        conversation = await parlour.conversations.start()
        await said(conversation, "hi")
        await said(conversation, "and once more, differently")
        decision = conversation.last_turn
        assert decision is not None
        reading = parlour.conversations.events(conversation.id)
        assert [each.type for each in reading].count("route.decided") == 2
        assert conversation.cost().total_microusd == MicroUsd(570)


@pytest.mark.req(185)
async def test_the_budget_breaker_shows_what_it_did(tmp_path: Path) -> None:
    rules = [{"name": "cap", "when": {"cost_today_exceeds_usd": "0.0001"}, "use": HAIKU}]
    async with a_parlour(
        tmp_path / "h", says("one"), says("two"), routing={**ROUTING, "rules": rules}
    ) as parlour:
        conversation = await parlour.conversations.start()
        assert over(await said(conversation, "hi")).model == OPUS
        updates = await said(conversation, "what else is there?")
        assert over(updates).model == HAIKU
        (notice,) = [each for each in updates if isinstance(each, Notice)]
        assert notice.text == (
            'Daily budget $0.0001 exceeded ($0.000285 today). Routing per "cap" rule.'
        )
