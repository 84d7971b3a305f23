"""`POST /mcp` of a gateway on a real port: keys, roles, limits, and who hangs up."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator

import httpx2 as httpx
import pytest
from mcp import MCPError
from msgspec.structs import replace
from tests.gateway.house import Running, entries, eventually, facts_of, running, stalls
from tests.gateway.town import ADMIN
from tests.mcp_surface.depot import (
    TOOLS,
    Depot,
    done,
    over_http,
    read,
    refused,
    text_of,
    whole_conversation,
)

from pointsman.testing.upstream_replies import says

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
TAKEN = {"accept": "application/json, text/event-stream", "content_type": "application/json"}


@pytest.fixture
def live(depot: Depot) -> Iterator[Running]:
    with running(depot.home) as found:
        yield found


def key(live: Running, **given: object) -> dict[str, str]:
    told = live.post("/api/keys", {"name": "someone", **given}, **ADMIN)
    assert told.status_code == 201, told.text
    return {"authorization": f"Bearer {told.json()['key']}"}


async def tools_of(live: Running, headers: dict[str, str]) -> set[str]:
    async with over_http(live.url, **headers) as client:
        return {each.name for each in (await client.list_tools()).tools}


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_whole_conversation_by_the_official_client(
    live: Running, depot: Depot, mode: str
) -> None:
    async with over_http(live.url, mode, **ADMIN) as client:
        await whole_conversation(client, depot)
        assert "open:big" in await read(client, "pointsman://policy/routing")


async def test_this_machine_is_served_without_a_key_but_not_as_an_admin(live: Running) -> None:
    async with over_http(live.url) as client:
        assert {each.name for each in (await client.list_tools()).tools} == TOOLS
        assert (await done(client, "route_preview", message="hi"))["chosen_model"] == "open:big"
        with pytest.raises(MCPError, match=r"^access\.not_authenticated"):
            await client.read_resource("pointsman://policy/routing")
        listed = {each.uri for each in (await client.list_resources()).resources}
        assert "pointsman://policy/routing" not in listed
        assert "pointsman://policy/models" in listed


@pytest.mark.parametrize("credential", [None, "Bearer nobody", "Bearer pk_" + "a" * 69])
def test_whoever_has_no_key_is_let_nowhere_once_there_is_one(
    live: Running, credential: str | None
) -> None:
    key(live, scopes=["read"])
    headers = {} if credential is None else {"authorization": credential}
    told = live.post("/mcp", LIST, **TAKEN, **headers)
    assert told.status_code == 401
    assert told.json()["error_code"].startswith("access.")


async def test_a_key_sees_and_calls_what_its_scopes_allow(live: Running) -> None:
    own = {scope: key(live, scopes=[scope]) for scope in ("models", "read", "act", "admin")}
    assert await tools_of(live, own["models"]) == {"delegate"}
    assert await tools_of(live, own["read"]) == {"route_explain", "cost"}
    assert await tools_of(live, own["act"]) == TOOLS - {"delegate", "route_explain", "cost"}
    assert await tools_of(live, own["admin"]) == TOOLS
    async with over_http(live.url, **own["models"]) as client:
        line = await refused(client, "route_explain")
        assert line == "access.not_permitted: this key may not do that: it lacks the scope `read`"
        with pytest.raises(MCPError, match="lacks the scope `read`"):
            await client.read_resource("pointsman://turns")
        with pytest.raises(MCPError, match="lacks the scope `read`"):
            await client.get_prompt("why_this_model", {})
        rule = await client.get_prompt("write_a_rule", {"wish": "all to llama"})
        assert "open:big" not in str(rule.messages)
        assert (await client.list_resources()).resources == []


@pytest.mark.req(404)
async def test_a_role_may_do_over_mcp_what_it_may_do_over_http(live: Running) -> None:
    viewer, auditor = key(live, role="viewer"), key(live, role="auditor")
    assert await tools_of(live, viewer) == {"route_explain", "cost"}
    assert await tools_of(live, auditor) == {"route_explain", "cost", "route_replay"}
    async with over_http(live.url, **auditor) as client:
        assert "may not do that" in await refused(client, "route_preview", message="hi")


async def test_a_key_s_models_privacy_and_budget_bind_its_workers(
    live: Running, depot: Depot
) -> None:
    narrow = key(live, scopes=["models"], allowed_models=["house:llama"])
    poor = key(live, scopes=["models"], budgets=[{"limit_usd": "0.000001", "per": "day"}])
    local = key(live, scopes=["models"], privacy="local")
    depot.provider.then(*(says("done") for _ in range(4)))
    for headers in (narrow, local):
        async with over_http(live.url, **headers) as client:
            result = await client.call_tool("delegate", {"task": "x", "tier": "deep"})
            assert result.structured_content["model"] != "open:big", text_of(result)
    async with over_http(live.url, **poor) as client:
        line = await refused(client, "delegate", task="many words " * 20, tier="deep")
        assert line.startswith("delegate.")
    assert all(each.json["model"] != "big" for each in depot.provider.requests)


async def test_a_header_may_keep_everything_on_this_machine(live: Running, depot: Depot) -> None:
    depot.provider.then(says("here"))
    async with over_http(live.url, x_pointsman_privacy="local") as client:
        preview = await done(client, "route_preview", message="hi")
        assert preview["chosen_model"] != "open:big"
        result = await client.call_tool("delegate", {"task": "x", "tier": "deep"})
    assert result.structured_content["model"] != "open:big"


def test_a_header_that_cannot_be_read_is_refused_at_the_door(live: Running) -> None:
    told = live.post("/mcp", LIST, **TAKEN, x_pointsman_privacy="sometimes")
    assert (told.status_code, told.json()["error_code"]) == (400, "input.invalid")


async def test_without_a_key_nobody_speaks_as_an_admin(live: Running) -> None:
    job = {
        "job_id": "j", "job_seed": "s", "query_text": "q", "selfrep_snapshot_id": "sha256:0",
        "brainstate_snapshot_id": "sha256:0", "user_role": "admin",
    }  # fmt: skip
    async with over_http(live.url) as client:
        await refused(client, "agents_decide", **job)
    (told,) = entries(live.home, "event.agents.call")
    assert json.loads(told.payload)["by"]["role"] == "operator"


async def test_what_a_worker_costs_is_charged_to_the_key(live: Running, depot: Depot) -> None:
    own = key(live, scopes=["models"])
    depot.provider.then(says("done"))
    async with over_http(live.url, **own) as client:
        await done(client, "delegate", task="x", tier="fast")
    (listed,) = live.get("/api/keys", **ADMIN).json()["keys"]

    def charged() -> bool:
        rows = live.get("/api/cost", **ADMIN).json().get("by_key", [])
        return listed["id"] in {each["what"] for each in rows}

    assert eventually(charged)


async def test_a_preview_is_the_decision_that_the_live_turn_gets(
    live: Running, depot: Depot
) -> None:
    depot.provider.then(says("hello"))
    async with over_http(live.url) as client:
        preview = await done(client, "route_preview", message="what is a monad?")
    decided = live.chat("what is a monad?").headers["x-pointsman-decision"]
    before, after = (facts_of(live.home, name) for name in (preview["decision_id"], decided))
    # A minute may have begun between the two.
    assert replace(before, local_minutes=after.local_minutes) == after
    async with over_http(live.url) as client:
        taken = await done(client, "route_explain", turn=decided)
    for name in ("chosen_model", "policy_id", "winner_index", "chain", "placement", "banners"):
        assert taken[name] == preview[name], name


async def test_over_http_each_delegation_is_a_session_of_its_own(
    live: Running, depot: Depot
) -> None:
    depot.provider.then(says("one"), says("two"))
    async with over_http(live.url) as client:
        first = await done(client, "delegate", task="one", tier="fast")
        second = await done(client, "delegate", task="two", tier="fast")
    assert first["session_id"] != second["session_id"]
    assert len(entries(live.home, "event.session.ended")) == 4


async def test_a_caller_who_hangs_up_ends_the_worker(live: Running, depot: Depot) -> None:
    depot.provider.then(stalls("never ends"))
    call = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "delegate", "arguments": {"task": "slow", "tier": "fast"}},
    }
    headers = {"accept": TAKEN["accept"], "content-type": "application/json"}
    async with httpx.AsyncClient(timeout=60, trust_env=False) as http:
        asking = asyncio.ensure_future(http.post(f"{live.url}/mcp", json=call, headers=headers))
        await asyncio.to_thread(eventually, lambda: depot.provider.requests)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
    failed = await asyncio.to_thread(eventually, lambda: entries(live.home, "event.delegate.fail"))
    assert b"cancelled_by_user" in failed[0].payload


async def test_many_clients_are_served_side_by_side(live: Running) -> None:
    async def one(number: int) -> str:
        async with over_http(live.url) as client:
            told = await done(client, "route_preview", message=f"message {number}")
            again = await done(client, "route_explain", turn=told["turn_id"])
            assert again["decision_id"] == told["decision_id"]
            return str(told["decision_id"])

    assert len(set(await asyncio.gather(*(one(number) for number in range(12))))) == 12


def test_pages_elsewhere_and_other_names_are_refused(live: Running) -> None:
    foreign = live.post("/mcp", LIST, **TAKEN, origin="https://evil.example")
    assert (foreign.status_code, foreign.json()["error_code"]) == (403, "http.origin")
    renamed = live.post("/mcp", LIST, **TAKEN, host="evil.example")
    assert renamed.status_code == 421
    simple = live.post("/mcp", LIST, accept=TAKEN["accept"], content_type="text/plain")
    assert simple.status_code == 400


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
def test_there_is_no_stream_to_follow_and_no_session_to_end(live: Running, method: str) -> None:
    told = live.client.request(method, "/mcp", headers={"accept": "text/event-stream"})
    assert told.status_code == 405


JUNK = [
    b"",
    b"[]",
    b"null",
    b"{",
    b"\xff\xfe",
    b"[" * 100_000,
    b'{"jsonrpc": "2.0", "id": 1}',
    b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}',
    json.dumps([LIST, LIST]).encode(),
    json.dumps({**LIST, "method": "no/such"}).encode(),
    json.dumps({**LIST, "method": "tools/call", "params": {"name": 7}}).encode(),
    json.dumps({**LIST, "id": {"a": 1}}).encode(),
]


def test_what_is_no_message_is_refused_and_tells_nothing(live: Running) -> None:
    for version in (None, b"2026-07-28", b"2025-06-18", b"1999-01-01", b"\xe9"):
        headers = [
            (name.replace("_", "-").encode(), value.encode()) for name, value in TAKEN.items()
        ]
        headers += [] if version is None else [(b"mcp-protocol-version", version)]
        for body in JUNK:
            told = live.client.post("/mcp", content=body, headers=headers)
            # What has no id that can be answered to is taken for a notification, and dropped.
            assert told.status_code in {200, 202, 400, 404}, (version, body)
            assert ("error" in told.text) == (told.status_code != 202), (version, body)
            assert "Traceback" not in told.text
            assert "/pointsman/" not in told.text
    assert entries(live.home, "decision.") == []


def test_a_body_past_the_limit_is_refused(live: Running) -> None:
    most = live.parts.settings.server.max_body_bytes
    told = live.client.post("/mcp", content=b" " * (most + 1))
    assert told.status_code == 413


def test_a_missing_sdk_is_told_with_the_command_that_installs_it(
    live: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    told = live.post("/mcp", LIST, **TAKEN)
    assert (told.status_code, told.json()["error_code"]) == (501, "mcp.not_installed")
    assert "pip install 'pointsman[mcp]'" in told.json()["developer_message"]


async def test_a_key_sees_and_replays_its_own_tenants_turns_alone(
    live: Running, depot: Depot
) -> None:
    acme = key(live, scopes=["models", "read", "act"], tenant="acme")
    globex = key(live, scopes=["models", "read", "act"], tenant="globex")
    depot.provider.then(says("done"))
    turn = live.chat("hello", headers=acme).headers["x-pointsman-turn"]
    async with over_http(live.url, **globex) as client:
        for name in (turn, "last"):
            assert "no turn is recorded" in await refused(client, "route_explain", turn=name)
            with pytest.raises(MCPError, match="no turn is recorded"):
                await read(client, f"pointsman://turn/{name}")
            with pytest.raises(MCPError, match="no turn is recorded"):
                await client.get_prompt("why_this_model", {"turn": name})
        assert "no decision is recorded" in await refused(client, "route_replay", ids=[turn])
        assert (await done(client, "route_replay"))["total"] == 0
        assert turn not in await read(client, "pointsman://turns")
        assert (await done(client, "cost"))["total"]["calls"] == 0
        listed = await client.list_resources()
        assert turn not in str(listed)
    async with over_http(live.url, **acme) as client:
        assert (await done(client, "route_explain", turn=turn))["turn_id"] == turn
        assert turn in await read(client, "pointsman://turns")
        assert (await done(client, "route_replay"))["identical"] >= 1
