"""Workers on scripted providers: routed, bounded, cancelled, paid for."""

from __future__ import annotations

import asyncio
import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.parlour import (
    HAIKU,
    OPUS,
    PICTURE,
    ROUTING,
    SONNET,
    Bench,
    Parlour,
    a_model,
    a_parlour,
    delegates,
    encoded,
    models,
    over,
    replays,
    said,
    task,
    told,
)
from tests.gateway.house import keeps, stalls

from pointsman.audit.turn_catalog import TurnCatalog
from pointsman.conversations.services import Kit
from pointsman.gateway.api.sessions.handlers import session_rows
from pointsman.kernel.number import MicroUsd
from pointsman.providers.messages import Usage
from pointsman.sessions.envelope import Envelope
from pointsman.sessions.events.calls import LlmCallStarted
from pointsman.sessions.events.delegation import DelegateFailed, DelegateStarted
from pointsman.sessions.rollup import rollup_text
from pointsman.sessions.tool import ToolOutcome
from pointsman.sessions.update import (
    WorkerState,
)
from pointsman.testing import calls, says

pytestmark = pytest.mark.anyio


@pytest.mark.req(230)
async def test_cancel_during_a_delegation_reaches_the_worker_first(tmp_path: Path) -> None:
    script = (delegates(task("rename it")), stalls("renaming now"), says("anew"))
    async with a_parlour(tmp_path / "h", *script) as parlour:
        conversation = await parlour.conversations.start()

        async def stop() -> None:
            while len(parlour.anthropic.requests) < 2:
                await asyncio.sleep(0)
            conversation.cancel()

        stopping = asyncio.ensure_future(stop())
        updates = await said(conversation, "please")
        await stopping
        assert told(updates)[-6:] == [
            "llm.call_started", "llm.call_failed", "turn.cancelled", "session.ended",
            "delegate.failed", "turn.cancelled",
        ]  # fmt: skip
        last = parlour.conversations.events(conversation.id)[-2]
        assert isinstance(last, Envelope)
        assert isinstance(last.payload, DelegateFailed)
        assert last.payload.failure_mode == "cancelled_by_user"
        assert over(await said(conversation, "again please")).text == "anew"


@pytest.mark.req(215, 219, 220, 234, 235, 253, 287, 288, 291)
async def test_two_delegations_one_upgraded_and_what_all_of_it_cost(tmp_path: Path) -> None:
    bench = Bench({"look": ToolOutcome((PICTURE,))})

    async with a_parlour(tmp_path / "h", calls(("look", {}))) as parlour:
        conversation = await parlour.conversations.start(kit=Kit(bench))

        def now_delegate(request: Any) -> Any:
            # What the planner points at, it was told with the result.
            told_id = encoded(request.json).split("[tool_use_id: ")[1].split("]")[0]
            include = [{"type": "tool_result", "tool_use_id": told_id}]
            seen = task("describe it", context={"mode": "explicit", "include": include})
            return delegates(task("rename it"), seen)(request)

        def works(request: Any) -> Any:
            is_rename = "rename it" in str(request.json["system"])
            return says("renamed" if is_rename else "a cat")(request)

        parlour.anthropic.then(now_delegate, works, works, says("all done"))
        updates = await said(conversation, "look and do")
        assert over(updates).text == "all done"
        events = parlour.conversations.events(conversation.id)
        payloads = [each.payload for each in events if isinstance(each, Envelope)]
        started = [each for each in payloads if isinstance(each, DelegateStarted)]
        assert sorted(each.resolved_model for each in started) == [HAIKU, SONNET]
        for each in started:
            own = parlour.conversations.events(each.worker_session_id)
            assert {event.parent_session_id for event in own if isinstance(event, Envelope)} == {
                conversation.id
            }
            calls_of = [
                event.payload
                for event in own
                if isinstance(event, Envelope) and isinstance(event.payload, LlmCallStarted)
            ]
            assert [call.is_worker for call in calls_of] == [True]
        listed = parlour.conversations.list_sessions()
        assert [each.id for each in listed] == [conversation.id]
        assert listed[0].workers == ()
        (nested,) = parlour.conversations.list_sessions(include_workers=True)
        assert {each.id for each in nested.workers} == {each.worker_session_id for each in started}
        with closing(TurnCatalog(parlour.pointsman.home)) as catalog:
            index, _ = catalog.look()
            shown = session_rows(parlour.pointsman, {}, index, 10, None)
        assert [each.session_id for each in shown] == [conversation.id]
        cost = conversation.cost()
        sessions = [conversation.id, *(each.worker_session_id for each in started)]
        usages = [
            message.metadata.usage
            for session in sessions
            for message in parlour.conversations.messages(session)
            if message.metadata.usage is not None
        ]
        assert cost.total_microusd == MicroUsd(sum(each.cost_microusd for each in usages))
        assert len(usages) == 5
        assert cost.workers_microusd > 0
        tree = rollup_text(cost).splitlines()
        assert tree[1].startswith(f"├─ planner ({OPUS}): $")
        assert tree[2].endswith(", 2 delegations")
        assert len(tree) == 5
        replays(parlour)


@pytest.mark.req(214, 289, 299)
async def test_on_the_wire_a_worker_has_neither_delegate_nor_memory(tmp_path: Path) -> None:
    bench = Bench()
    script = (
        delegates(task("remember it", allowed_tools=["read_file", "memory_add", "delegate"])),
        calls(("memory_add", {"text": "x"})),
        says("I cannot"),
        says("done"),
    )
    async with a_parlour(tmp_path / "h", *script) as parlour:
        conversation = await parlour.conversations.start(kit=Kit(bench))
        assert over(await said(conversation, "please")).text == "done"
        planner, worker, after, _ = [each.json for each in parlour.anthropic.requests]
        assert "delegate" in [each["name"] for each in planner["tools"]]
        assert [each["name"] for each in worker["tools"]] == ["read_file", "_request_context"]
        assert "there is no tool `memory_add`" in encoded(after["messages"])
        assert bench.ran == []


async def test_five_delegations_run_four_at_a_time(tmp_path: Path) -> None:
    most = 0

    def works(request: Any) -> Any:
        nonlocal most
        most = max(most, parlour.anthropic.open_connections)
        return says("done")(request)

    async with a_parlour(
        tmp_path / "h", delegates(*(task(f"task {each}") for each in range(5)))
    ) as parlour:
        parlour.anthropic.then(*[works] * 5, says("all done"))
        conversation = await parlour.conversations.start()
        updates = await said(conversation, "please")
        states = [each.state for each in updates if isinstance(each, WorkerState)]
        assert states.count("completed") == 5
        assert over(updates).text == "all done"
        assert most <= 4


async def test_a_worker_past_its_time_is_stopped_and_the_planner_goes_on(tmp_path: Path) -> None:
    script = (delegates(task("forever")), says("without it"))
    async with a_parlour(tmp_path / "h", *script) as parlour:
        conversation = await parlour.conversations.start(kit=Kit(worker_s=0))
        updates = await said(conversation, "please")
        assert over(updates).text == "without it"
        failed = [each for each in updates if isinstance(each, WorkerState)][-1]
        assert (failed.state, failed.detail) == ("failed", "timeout")


HERE = "openai:here"


def with_local_planner(parlour: Parlour, home: Path) -> None:
    """Put a local model that can delegate beside those of the cloud."""
    known = models(parlour.anthropic.base_url, parlour.openai.base_url)
    known["models"][HERE] = a_model("deep", "here", "0", location="local", can_delegate=True)
    (home / "models.yaml").write_text(json.dumps(known))


async def test_a_worker_of_a_session_that_stays_stays_too(tmp_path: Path) -> None:
    """What a planner may not send itself, its workers may not send for it."""
    home = tmp_path / "h"
    async with a_parlour(home, says("never asked"), placement=keeps("iban")) as parlour:
        with_local_planner(parlour, home)
        parlour.openai.then(delegates(task("just add one and one")), says("then myself"))
        conversation = await parlour.conversations.start()
        await conversation.swap_model("here")
        updates = await said(conversation, "pay to DE89 3704 0044 0532 0130 00")
        assert (over(updates).text, over(updates).model) == ("then myself", HERE)
        failed = [each for each in updates if isinstance(each, WorkerState)]
        assert [each.detail for each in failed] == ["no_model_available_for_tier"]
        assert parlour.anthropic.requests == []
        replays(parlour)


async def test_no_budget_of_a_session_is_passed_by_delegating(tmp_path: Path) -> None:
    budgets = [{"name": "mine", "limit_usd": "0.091", "per": "day", "each": "session"}]
    huge = Usage(input_tokens=12, output_tokens=6_000)
    async with a_parlour(tmp_path / "h", routing={**ROUTING, "budgets": budgets}) as parlour:
        first = calls(("delegate", task("work")), usage=huge)
        parlour.anthropic.then(first, says("worked"), says("done"))
        conversation = await parlour.conversations.start()
        updates = await said(conversation, "please")
        states = [each.state for each in updates if isinstance(each, WorkerState)]
        assert states[-1] == "failed"
        assert over(updates).stop_reason == "over_budget"
        assert len(parlour.anthropic.requests) == 1


LABELS = {"zones": {"eu": "cloud"}, "labels": {"seen": {"within": "eu", "tools": ["look"]}}}


def with_zones(home: Path) -> None:
    """Place all models but the fast ones within a zone."""
    known = json.loads((home / "models.yaml").read_text())
    for name in (SONNET, OPUS):
        known["models"][name]["zone"] = "eu"
    (home / "models.yaml").write_text(json.dumps(known))


async def test_a_worker_gets_the_labels_of_what_its_planner_saw(tmp_path: Path) -> None:
    home, script = tmp_path / "h", (calls(("look", {})), delegates(task("add one and one")))
    async with a_parlour(home, *script, placement={**keeps(), **LABELS}) as parlour:
        with_zones(home)
        parlour.anthropic.then(says("two"), says("two it is"))
        conversation = await parlour.conversations.start(kit=Kit(Bench()))
        updates = await said(conversation, "look and count")
        assert over(updates).text == "two it is"
        events = parlour.conversations.events(conversation.id)
        payloads = [each.payload for each in events if isinstance(each, Envelope)]
        started = [each for each in payloads if isinstance(each, DelegateStarted)]
        # The fast model stands outside of the zone.
        assert [each.resolved_model for each in started] == [SONNET]
        replays(parlour)


async def test_what_a_worker_saw_keeps_its_planners_session_within_the_zone(
    tmp_path: Path,
) -> None:
    home, script = tmp_path / "h", (delegates(task("look around", tier="balanced")),)
    async with a_parlour(home, *script, placement={**keeps(), **LABELS}) as parlour:
        with_zones(home)
        parlour.anthropic.then(calls(("look", {})), says("a cat"), says("a cat it is"))
        conversation = await parlour.conversations.start(kit=Kit(Bench()))
        assert over(await said(conversation, "have a look")).text == "a cat it is"
        (tainted,) = parlour.pointsman.tainted()
        assert (tainted.session_id, tainted.taint.zones) == (conversation.id, ("eu",))
        replays(parlour)
