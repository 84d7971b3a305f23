"""What the tools say, and what they refuse: the official client and a server in one process."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest
from mcp import MCPError
from tests.gateway.house import entries, eventually, stalls
from tests.mcp_surface.depot import QUESTION, SIZE, Depot, done, inside, read, refused, written
from tests.models.brainstate_start import read_start

from pointsman.agents.file.agents_file import read_selfrep_document
from pointsman.app import Pointsman
from pointsman.errors import LedgerUnavailable
from pointsman.kernel.document import Document
from pointsman.kernel.json_text import read_json
from pointsman.kernel.record import DECISION
from pointsman.storage.home import open_home
from pointsman.testing.upstream_replies import calls, fails, says

pytestmark = pytest.mark.anyio

DEEP: Any = "x"
for _ in range(150):
    DEEP = [DEEP]

HOSTILE: list[tuple[str, dict[str, Any]]] = [
    ("route_preview", {}),
    ("route_preview", {"message": "a", "facts": {"message": "b"}}),
    ("route_preview", {"message": 7}),
    ("route_preview", {"message": "hi", "extra": "\x1b[2J"}),
    ("route_preview", {"facts": {"message": "a", "cost_today_usd": float("nan")}}),
    ("route_preview", {"facts": {"message": "a", "estimated_input_tokens": 10**40}}),
    ("route_preview", {"facts": {"message": "a", "privacy_level": DEEP}}),
    ("route_preview", {"message": "@nobody-here hello"}),
    ("route_preview", {"message": "\ud800"}),
    ("route_explain", {"turn": ""}),
    ("route_explain", {"turn": "../../etc/passwd"}),
    ("route_explain", {"turn": "x" * 100_000}),
    ("route_explain", {"turn": "last'; drop table entries; --"}),
    ("route_explain", {"turn": None}),
    ("route_replay", {"ids": ["nobody"]}),
    ("route_replay", {"ids": ["a"] * 1001}),
    ("route_replay", {"since": "yesterday"}),
    ("route_replay", {"since": "2026-01-01T00:00:00Z", "ids": ["a"]}),
    ("delegate", {"task": "", "tier": "fast"}),
    ("delegate", {"task": "a", "tier": "cheapest"}),
    ("delegate", {"task": "a", "tier": "fast", "output_schema": {"type": "nonsense"}}),
    ("delegate", {"task": "a", "tier": "fast", "output_schema": {"$ref": "http://127.0.0.1/x"}}),
    ("delegate", {"task": "a", "tier": "fast", "max_tokens": 0}),
    ("delegate", {"task": "a", "tier": "fast", "timeout_s": 1e300}),
    ("delegate", {"task": "a", "tier": "fast", "privacy": "cloud"}),
    ("delegate", {"task": "a", "tier": "fast", "context": [{"type": "file", "path": "/etc"}]}),
    ("decision_evaluate", {"id": "size", "input": [1]}),
    ("decision_evaluate", {"id": "nobody", "input": {}}),
    ("decision_evaluate", {"id": "size", "input": {}, "approved": ["big"]}),
    ("place", {}),
    ("place", {"question": {"id": "q"}, "state": None}),
    ("cost", {"since": "2026"}),
    ("cost", {"session_id": ""}),
    ("agents_decide", {}),
    (
        "agents_decide",
        {
            "job_id": "j", "job_seed": "s", "query_text": "q", "selfrep_snapshot_id": "sha256:0",
            "brainstate_snapshot_id": "sha256:0",
        },
    ),
]  # fmt: skip


def _document(value: object) -> Document:
    return read_json(json.dumps(value).encode(), "it")


def facts(message: str, **more: object) -> dict[str, Any]:
    return {"message": message, **more}


async def test_arguments_that_cannot_be_used_are_one_line_with_a_code(depot: Depot) -> None:
    async with inside(depot.home) as (client, _):
        await done(client, "route_preview", message="a first turn")
        for name, arguments in HOSTILE:
            line = await refused(client, name, **arguments)
            assert line.isprintable(), (name, line)
            code = line.split(":")[0]
            assert code == code.strip(), line
            assert "." in code or code.isupper(), line
            assert len(line) <= 2_100
        assert depot.provider.requests == []
        assert (await done(client, "route_replay"))["unable"] == 0


async def test_what_nobody_foresaw_is_logged_and_told_without_details(
    depot: Depot, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def breaks(*_: object, **__: object) -> None:
        raise RuntimeError("the secret inside")

    async with inside(depot.home) as (client, pointsman):
        monkeypatch.setattr(pointsman, "read_turn", breaks)
        with caplog.at_level(logging.ERROR, "pointsman.mcp"):
            line = await refused(client, "route_explain")
            with pytest.raises(MCPError) as told:
                await client.read_resource("pointsman://turn/last")
    assert "secret" not in line + str(told.value)
    assert "the secret inside" in caplog.text


async def test_a_ledger_that_cannot_be_written_is_told_and_nothing_is_decided(
    depot: Depot, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*_: object, **__: object) -> None:
        raise LedgerUnavailable

    async with inside(depot.home) as (client, pointsman):
        monkeypatch.setattr(pointsman.decision_recorder, "record", breaks)
        assert (await refused(client, "route_preview", message="hi")).startswith("ledger.")


async def test_a_tool_that_is_not_there_is_an_error_of_the_protocol(depot: Depot) -> None:
    async with inside(depot.home) as (client, _):
        with pytest.raises(MCPError, match="there is no tool `rm_rf`"):
            await client.call_tool("rm_rf", {})


async def test_a_preview_without_a_record_leaves_none(depot: Depot) -> None:
    async with inside(depot.home) as (client, pointsman):
        await done(client, "route_preview", message="hi", record=False)
        await done(client, "route_preview", facts=facts("hi"), record=False)
        assert pointsman.recent(10) == []
        await done(client, "route_preview", facts=facts("hi"))
        (shown,) = pointsman.recent(10)
        assert shown.is_preview


async def test_a_preview_on_facts_looks_at_nothing_else(depot: Depot) -> None:
    given = facts("hi", network_state="offline")
    async with inside(depot.home) as (client, _):
        first = await done(client, "route_preview", facts=given)
        again = await done(client, "route_preview", facts=given)
    assert first["facts_id"] == again["facts_id"]
    assert first["chosen_model"] != "open:big"
    failures = [each["validation_failure"] for each in first["chain"]]
    assert "provider_unavailable" in failures


async def test_decisions_go_to_a_chain_of_the_server_s_own(depot: Depot) -> None:
    async with inside(depot.home) as (client, pointsman):
        await done(client, "route_preview", message="hi")
        assert pointsman.decision_recorder.recorder().chain == "mcp"
        async with inside(depot.home) as (other, second):
            await done(other, "route_preview", message="hi")
            assert second.decision_recorder.recorder().chain != "mcp"
    with Pointsman(depot.home) as pointsman:
        assert pointsman.verify().is_intact
        assert pointsman.replay_all().is_clean


async def test_calls_side_by_side_get_each_their_own_answer(depot: Depot) -> None:
    depot.provider.then(*(says("worked") for _ in range(6)))
    async with inside(depot.home, "legacy") as (client, _):
        previews = [done(client, "route_preview", message=f"message {n}") for n in range(20)]
        work = [done(client, "delegate", task=f"task {n}", tier="fast") for n in range(6)]
        found = await asyncio.gather(*previews, *work)
        named = [each["decision_id"] for each in found]
        assert len(set(named)) == 26
        told = await asyncio.gather(*(done(client, "route_explain", turn=name) for name in named))
        assert [each["decision_id"] for each in told] == named
        assert (await done(client, "route_replay", ids=named))["identical"] == 26


@pytest.mark.req(212, 214, 215, 287, 289)
async def test_a_worker_gets_the_task_its_notes_and_no_tool_but_to_ask_for_more(
    depot: Depot,
) -> None:
    missing = {
        "missing": [{"type": "file", "ref": "a.py", "hint": "to read it"}],
        "summary": "no file",
    }
    depot.provider.then(calls(("_request_context", missing)))
    async with inside(depot.home) as (client, _):
        line = await refused(client, "delegate", task="review a.py", tier="deep")
        assert line.startswith("delegate.insufficient_context (next: route_explain ")
        named = line.rpartition(" ")[2].rstrip(")")
        why = await done(client, "route_explain", turn=named)
        assert why["chosen_model"] == "open:big"
    (request,) = depot.provider.requests
    assert [each["function"]["name"] for each in request.json["tools"]] == ["_request_context"]


@pytest.mark.req(253)
async def test_all_delegations_of_one_agent_are_one_session_and_cost_one_tree(depot: Depot) -> None:
    depot.provider.then(says("one"), says("two"))
    async with inside(depot.home) as (client, pointsman):
        first = await done(client, "delegate", task="one", tier="fast")
        second = await done(client, "delegate", task="two", tier="deep")
        assert first["session_id"] == second["session_id"]
        cost = pointsman.conversations.cost(first["session_id"])
        assert cost.total_microusd == sum(
            round(float(each["cost_usd"]) * 1_000_000) for each in (first, second)
        )
        kinds = [each.kind for each in entries(depot.home, "event.delegate")]
        assert kinds == [
            "event.delegate.started", "event.delegate.completed",
            "event.delegate.started", "event.delegate.completed",
        ]  # fmt: skip


async def test_a_failing_provider_is_told_in_one_line(depot: Depot) -> None:
    depot.provider.then(fails(400))
    async with inside(depot.home) as (client, _):
        line = await refused(client, "delegate", task="try", tier="fast")
    assert line.startswith("delegate.worker_error: ")


async def test_an_answer_that_breaks_its_schema_is_no_success(depot: Depot) -> None:
    depot.provider.then(says("not json"))
    schema = {"type": "object", "required": ["a"]}
    async with inside(depot.home) as (client, _):
        line = await refused(client, "delegate", task="x", tier="fast", output_schema=schema)
    assert line.startswith("delegate.output_schema_validation_failed")


async def test_privacy_keeps_a_task_from_the_cloud_whatever_tier_is_asked_for(depot: Depot) -> None:
    depot.provider.then(says("here"))
    async with inside(depot.home) as (client, _):
        kept = await client.call_tool("delegate", {"task": "x", "tier": "deep", "privacy": "local"})
        told = kept.structured_content
        assert told["model"] != "open:big"
        why = await done(client, "route_explain", turn=told["decision_id"])
    rejected = [each["validation_failure"] for each in why["chain"]]
    assert "privacy_blocked" in rejected
    assert all(each.json["model"] != "big" for each in depot.provider.requests)


async def test_a_budget_holds_for_workers_as_for_anybody(tmp_path: Path, depot: Depot) -> None:
    budgets = [{"name": "tiny", "limit_usd": "0.000001", "per": "day"}]
    home = written(tmp_path / "poor", depot.provider.url, budgets=budgets)
    async with inside(home) as (client, _):
        line = await refused(client, "delegate", task="x", tier="deep")
        assert line.startswith("delegate.")
        preview = await done(client, "route_preview", message="many words " * 20)
    assert "over_budget" in [each["validation_failure"] for each in preview["chain"]]
    assert depot.provider.requests == []


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_cancelled_call_ends_its_worker_and_nothing_else(depot: Depot, mode: str) -> None:
    depot.provider.then(stalls("never ends"), says("served"))
    async with inside(depot.home, mode) as (client, _):
        running = asyncio.ensure_future(done(client, "delegate", task="slow", tier="fast"))
        await asyncio.to_thread(eventually, lambda: depot.provider.requests)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        failed = await asyncio.to_thread(
            eventually, lambda: entries(depot.home, "event.delegate.failed")
        )
        assert b"cancelled_by_user" in failed[0].payload
        assert (await done(client, "delegate", task="next", tier="fast"))["output"] == "served"


async def test_a_cancelled_replay_stops_at_its_next_step(
    depot: Depot, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()

    def endless(_since: object, *, progress: Any, tenant: object) -> None:
        try:
            while True:
                seen.append(len(seen))
                progress(len(seen), 10**9)
        finally:
            loop.call_soon_threadsafe(ended.set)

    async with inside(depot.home) as (client, pointsman):
        monkeypatch.setattr(pointsman, "replay_all", endless)
        running = asyncio.ensure_future(done(client, "route_replay"))
        await asyncio.to_thread(eventually, lambda: len(seen) > 10)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await asyncio.wait_for(ended.wait(), 30)


async def test_a_changed_entry_is_named_by_a_replay(depot: Depot) -> None:
    async with inside(depot.home) as (client, _):
        name = (await done(client, "route_preview", message="hi"))["decision_id"]
        with closing(apsw.Connection(str(open_home(depot.home).database))) as database:
            ((payload,),) = database.execute("SELECT payload FROM entries WHERE id = ?", (name,))
            changed = payload.replace(b"open:big", b"open:bad")
            assert changed != payload
            database.execute("UPDATE entries SET payload = ? WHERE id = ?", (changed, name))
        told = await done(client, "route_replay", ids=[name])
    assert told["unable"] == 1
    (row,) = told["others"]
    assert row["code"] == "INTEGRITY_FAILURE"


async def test_an_agent_is_chosen_from_recorded_snapshots(depot: Depot) -> None:
    modules = {
        "modules": {
            "writer": {"type": "agent", "version": "1", "status": "healthy", "apt": 0.9},
            "generic_agent": {"type": "agent", "version": "1", "status": "healthy", "apt": 0.5},
        },
        "edges": [],
    }
    start = {
        "job_seed": "seed",
        "goals": [],
        "attention": {"attention_gain": 0.8, "explore_bias": 0, "reward_signal": 0},
        "resource_budget": {"token_budget": 2048, "max_depth_allowed": 2},
    }
    async with inside(depot.home) as (client, pointsman):
        selfrep = pointsman.agency.record_selfrep(read_selfrep_document(_document(modules)))
        mind = pointsman.agency.record_brainstate(read_start(_document(start)))
        told = await done(
            client,
            "agents_decide",
            job_id="j1",
            job_seed="seed",
            query_text="write a poem",
            selfrep_snapshot_id=selfrep.id,
            brainstate_snapshot_id=mind.id,
            candidate_list=["writer", "generic_agent"],
        )
        assert told["selected_agent"] == "writer"
        again = await done(client, "route_replay", ids=[told["decision_id"]])
        assert again["identical"] == 1


async def test_no_text_of_a_message_comes_back(depot: Depot) -> None:
    canary = "the-canary-sings-at-noon"
    async with inside(depot.home) as (client, _):
        preview = await client.call_tool("route_preview", {"message": canary})
        facts_given = await client.call_tool("route_preview", {"facts": facts(canary)})
        told = [preview, facts_given]
        told += [await client.call_tool("route_explain", {}), await client.call_tool("cost", {})]
        told.append(await client.call_tool("route_replay", {}))
        texts = [each.model_dump_json() for each in told]
        for each in (await client.list_resources()).resources:
            texts += [each.model_dump_json(), await read(client, each.uri)]
        prompt = await client.get_prompt("why_this_model", {})
        texts.append(prompt.model_dump_json())
    assert not any(canary in each for each in texts)


def _kinds(found: Iterable[Any]) -> set[str]:
    return {each.kind for each in found if each.kind.startswith(DECISION)}


async def test_every_room_that_decides_is_recorded(depot: Depot) -> None:
    depot.provider.then(says("done"))
    async with inside(depot.home) as (client, _):
        await done(client, "place", **QUESTION)
        await done(client, "decision_evaluate", id="size", input={"order": {"total": 1}})
        await done(client, "delegate", task="x", tier="fast")
        assert {"decision.placement", "decision.branch", "decision.turn"} <= _kinds(
            entries(depot.home)
        )


async def test_a_dry_run_leaves_nothing(depot: Depot) -> None:
    order = {"order": {"total": 1}}
    async with inside(depot.home) as (client, _):
        await done(client, "decision_evaluate", id="size", input=order, dry_run=True)
        assert not open_home(depot.home).database.exists()


async def test_a_choice_that_waits_for_approval_is_withheld(depot: Depot) -> None:
    guardrail = {"type": "requires_approval", "targets": ["big"], "escalation_target": "human"}
    text = json.dumps({"decision": {**SIZE["decision"], "guardrails": [guardrail]}})
    (depot.home / "decisions" / "size.yaml").write_text(text)
    async with inside(depot.home) as (client, _):
        for is_dry_run in (True, False):
            told = await done(
                client,
                "decision_evaluate",
                id="size",
                input={"order": {"total": 250}},
                dry_run=is_dry_run,
            )
            assert (told["selected_targets"], told["blocked"]) == (["human"], True)
            assert told["withheld_targets"] == told["approval_required"] == ["big"]


async def test_numbers_of_a_context_are_taken_exactly(depot: Depot) -> None:
    async with inside(depot.home) as (client, _):
        for total, target in ((99.99999999, "small"), (100, "big"), (1e20, "big")):
            told = await done(
                client, "decision_evaluate", id="size", input={"order": {"total": total}}
            )
            assert told["selected_targets"] == [target]
