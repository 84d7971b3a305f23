"""What the tests of MCP share: a home, ways to connect the official client, a conversation."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx2 as httpx
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, TextResourceContents
from tests.gateway.house import Upstream, model, provider, write_home

from pointsman.app import Pointsman
from pointsman.mcp.server import ToolServer
from pointsman.mcp.visitor import HomeOwner, Service
from pointsman.testing.upstream_replies import says

COMMAND = [sys.executable, "-c", "from pointsman.cli.main import main; main()"]
TOOLS = {
    "route_preview", "route_explain", "route_replay", "delegate", "decision_evaluate", "place",
    "agents_decide", "cost",
}  # fmt: skip
SIZE = {
    "decision": {
        "id": "size",
        "type": "binary",
        "input": "{{ order.total }}",
        "cases": [
            {"condition": "input >= 100", "target": "big", "label": "big"},
            {"condition": "input < 100", "target": "small", "label": "small"},
        ],
        "default": {"target": "small"},
    }
}
QUESTION: dict[str, Any] = {
    "question": {
        "id": "q1", "session_id": "s1", "content": "hello", "privacy_level": "local",
        "timestamp": "2026-01-01T00:00:00Z",
    },
    "state": {
        "local_model": {"model_name": "llama", "supported_intents": [], "available": True},
        "cloud_model": {"model_name": "big"},
        "network_state": "online",
    },
}  # fmt: skip


class Depot(NamedTuple):
    """A home, and the provider behind its models."""

    home: Path
    provider: Upstream


def written(home: Path, url: str, **files: object) -> Path:
    """Write a home with a model on each of two tiers, one of them in the cloud."""
    models = {
        "schema_version": 1,
        "providers": {"open": provider("openai", url), "house": provider("openai", url)},
        "models": {
            "open:big": model(aliases=["big"], tier="deep"),
            "house:llama": model("local", "1", aliases=["llama"], tier="fast"),
        },
    }
    routing = {
        "schema_version": 1,
        "global_default": "open:big",
        "tiers": {"fast": "house:llama", "deep": "open:big"},
    }
    write_home(home, models=models, routing={**routing, **files})
    (home / "decisions").mkdir(mode=0o700)
    (home / "decisions" / "size.yaml").write_text(json.dumps(SIZE))
    return home


@asynccontextmanager
async def inside(home: Path, mode: str = "auto") -> AsyncIterator[tuple[Client, Pointsman]]:
    """Connect to a server in this process: the official client and our server, without a pipe."""
    with Pointsman(home, writer="mcp") as pointsman:
        service = Service(pointsman, lambda: pointsman.conversations.services, keeps_session=True)
        owner = HomeOwner()
        made = ToolServer(service, lambda _request: owner)
        async with Client(made.server, mode=mode) as client:  # type: ignore[arg-type] # as asked
            yield client, pointsman
        await made.delegations.close()
        if "conversations" in pointsman.__dict__:
            await pointsman.conversations.close()


@asynccontextmanager
async def beside(home: Path, mode: str = "auto") -> AsyncIterator[Client]:
    """Connect to the command, in a process of its own."""
    started = StdioServerParameters(
        command=COMMAND[0], args=[*COMMAND[1:], "mcp", "--home", str(home)]
    )
    async with Client(stdio_client(started), mode=mode) as client:  # type: ignore[arg-type] # as asked
        yield client


@asynccontextmanager
async def over_http(url: str, mode: str = "auto", **headers: str) -> AsyncIterator[Client]:
    """Connect to a gateway."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with (
        httpx.AsyncClient(headers=named, timeout=60, trust_env=False) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http), mode=mode) as client,  # type: ignore[arg-type] # as asked
    ):
        yield client


def text_of(result: CallToolResult) -> str:
    (content,) = result.content
    assert content.type == "text"
    return content.text


async def done(client: Client, name: str, /, **arguments: object) -> dict[str, Any]:
    """Call a tool that succeeds; the client itself holds its value against the tool's schema."""
    result = await client.call_tool(name, arguments)
    assert not result.is_error, text_of(result)
    found: dict[str, Any] = result.structured_content
    return found


async def refused(client: Client, name: str, /, **arguments: object) -> str:
    """Call a tool that fails, and give the one line it says."""
    result = await client.call_tool(name, arguments)
    assert result.is_error
    line = text_of(result)
    assert "\n" not in line
    assert "Traceback" not in line
    return line


async def whole_conversation(client: Client, depot: Depot) -> None:
    """Ask for everything once, as an agent would."""
    await _tools_described(client)
    preview = await done(client, "route_preview", message="what is a monad?")
    assert preview["chosen_model"] == "open:big"
    explained = await done(client, "route_explain", turn=preview["turn_id"])
    assert explained["decision_id"] == preview["decision_id"]
    assert explained["is_preview"] is True
    assert "Chose: open:big" in explained["why"]
    await _delegated(client, depot)
    await _decided(client)
    spent = await _written_down(client, 2)
    assert {each["name"] for each in spent["by_model"]} == {"house:llama", "open:big"}
    await _replayed(client)
    await _read(client, preview)


async def _tools_described(client: Client) -> None:
    listed = (await client.list_tools()).tools
    assert {each.name for each in listed} == TOOLS
    for each in listed:
        assert each.input_schema["type"] == "object"
        assert each.output_schema is not None
        assert each.output_schema["type"] == "object"
        assert each.annotations is not None
        assert each.annotations.destructive_hint is False


async def _delegated(client: Client, depot: Depot) -> None:
    depot.provider.then(says("a burrito"), says('{"words": 2}'))
    notes = [{"label": "style", "text": "be short"}]
    worked = await done(client, "delegate", task="say what it is", tier="fast", context=notes)
    assert worked["output"] == "a burrito"
    assert worked["model"] == "house:llama"
    assert float(worked["cost_usd"]) > 0
    sent = depot.provider.requests[-1].body.decode()
    assert "say what it is" in sent
    assert "be short" in sent
    why = await done(client, "route_explain", turn=worked["decision_id"])
    assert why["chain"][why["winner_index"]]["policy"] == "delegate_request"
    schema = {"type": "object", "required": ["words"]}
    counted = await done(client, "delegate", task="count", tier="deep", output_schema=schema)
    assert counted["output"] == {"words": 2}
    assert counted["model"] == "open:big"


async def _written_down(client: Client, calls: int) -> dict[str, Any]:
    """Give the cost once so many calls are in the books: those are written a moment later."""
    while (spent := await done(client, "cost"))["total"]["calls"] < calls:
        await asyncio.sleep(0.01)
    return spent


async def _decided(client: Client) -> None:
    order = {"order": {"total": 250}}
    tried = await done(client, "decision_evaluate", id="size", input=order, dry_run=True)
    assert (tried["selected_targets"], tried["dry_run"]) == (["big"], True)
    taken = await done(client, "decision_evaluate", id="size", input={"order": {"total": 99.5}})
    assert taken["selected_targets"] == ["small"]
    assert taken["evaluation_id"]
    placed = await done(client, "place", **QUESTION)
    assert placed["route"] == "local"


async def _replayed(client: Client) -> None:
    steps: list[float] = []

    async def progress(done: float, _total: float | None, _message: str | None) -> None:
        steps.append(done)

    result = await client.call_tool("route_replay", {}, progress_callback=progress)
    assert result.structured_content["total"] >= 5
    assert result.structured_content["identical"] == result.structured_content["total"]
    assert steps
    assert steps == sorted(set(steps))


async def _read(client: Client, preview: dict[str, Any]) -> None:
    address = f"pointsman://turn/{preview['turn_id']}"
    uris = {each.uri for each in (await client.list_resources()).resources}
    assert {"pointsman://turns", address} <= uris
    assert json.loads(await read(client, address))["decision_id"] == preview["decision_id"]
    prompt = await client.get_prompt("why_this_model", {"turn": preview["turn_id"]})
    assert "open:big" in str(prompt.messages[1].content)


async def read(client: Client, uri: str) -> str:
    """Read a resource."""
    (content,) = (await client.read_resource(uri)).contents
    assert isinstance(content, TextResourceContents)
    return content.text
