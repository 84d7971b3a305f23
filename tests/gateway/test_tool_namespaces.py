"""Tools in namespaces, as Codex has them, at providers that know none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.house import Running, Upstream, model, provider, running, upstream, write_home

from pointsman.providers.dialects.responses.namespaces import joined_name
from pointsman.testing.upstream_replies import calls, says

PARAMETERS = {"type": "object", "properties": {"target": {"type": "string"}}}
LONG = "a_namespace_with_a_name_that_is_as_long_as_some_servers_of_tools"
TOOLS = [
    {"type": "function", "name": "exec_command", "description": "Run.", "parameters": PARAMETERS},
    {
        "type": "namespace",
        "name": "multi_agent_v1",
        "description": "Sub-agents.",
        "tools": [
            {"type": "function", "name": "close", "description": "Close.", "parameters": PARAMETERS}
        ],
    },
    {
        "type": "namespace",
        "name": LONG,
        "tools": [{"type": "function", "name": "search", "parameters": PARAMETERS}],
    },
    {"type": "web_search", "external_web_access": False},
]
PAST = [
    {"type": "message", "role": "user", "content": "hi"},
    {
        "type": "function_call",
        "call_id": "c1",
        "namespace": "multi_agent_v1",
        "name": "close",
        "arguments": "{}",
    },
    {"type": "function_call_output", "call_id": "c1", "output": "closed"},
    {"type": "message", "role": "user", "content": "again"},
]
JOINED = ["exec_command", "multi_agent_v1__close", joined_name(LONG, "search")]


@pytest.fixture
def street(tmp_path: Path) -> Iterator[tuple[Running, dict[str, Upstream]]]:
    with upstream() as chat, upstream() as claude, upstream() as gemini:
        models = {
            "schema_version": 1,
            "providers": {
                "chat": provider("openai", chat.url) | {"speaks": ["chat"]},
                "messages": provider("anthropic", claude.url),
                "gemini": {"kind": "gemini", "base_url": gemini.url},
            },
            "models": {
                "chat:m": model(),
                "messages:claude-opus-4-5": model(),
                "gemini:gemini-2.5-pro": model(),
            },
        }
        with running(write_home(tmp_path / "home", models=models)) as live:
            yield live, {"chat:m": chat, "messages:claude-opus-4-5": claude,
                         "gemini:gemini-2.5-pro": gemini}  # fmt: skip


def told_names(body: dict[str, Any]) -> list[str]:
    """Return the names of the tools as a provider gets them."""
    found = body["tools"][0].get("functionDeclarations") or body["tools"]
    return [each.get("name") or each["function"]["name"] for each in found]


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("name", ["chat:m", "messages:claude-opus-4-5", "gemini:gemini-2.5-pro"])
def test_tools_in_namespaces_reach_every_provider_and_come_back_under_their_own_names(
    street: tuple[Running, dict[str, Upstream]], name: str, is_stream: bool
) -> None:
    live, upstreams = street
    upstreams[name].then(calls(("multi_agent_v1__close", {"target": "x"}), (JOINED[2], {})))
    asked = {"model": name, "input": PAST, "tools": TOOLS, "stream": is_stream}
    answer = live.post("/v1/responses", asked)
    assert answer.status_code == 200, answer.text
    (sent,) = upstreams[name].requests
    assert told_names(sent.json) == JOINED
    assert max(map(len, JOINED)) == 64
    assert b"Sub-agents.\\nClose." in sent.body
    assert sent.body.count(b'multi_agent_v1__close"') >= 2
    assert b"web_search" not in sent.body
    if is_stream:
        lines = [each for each in answer.text.splitlines() if each.startswith("data: ")]
        output = json.loads(lines[-1].removeprefix("data: "))["response"]["output"]
        done = [json.loads(each[6:]) for each in lines if "output_item.done" in each]
        assert [each["item"] for each in done] == output
    else:
        output = answer.json()["output"]
    made = [each for each in output if each["type"] == "function_call"]
    assert [(each.get("namespace"), each["name"]) for each in made] == [
        ("multi_agent_v1", "close"),
        (LONG, "search"),
    ]


def test_a_tool_outside_namespaces_keeps_its_name(
    street: tuple[Running, dict[str, Upstream]],
) -> None:
    live, upstreams = street
    upstreams["chat:m"].then(calls(("exec_command", {})))
    asked = {"model": "chat:m", "input": "hi", "tools": TOOLS}
    (item,) = live.post("/v1/responses", asked).json()["output"]
    assert (item["name"], "namespace" in item) == ("exec_command", False)
    forced = {"type": "function", "namespace": "multi_agent_v1", "name": "close"}
    upstreams["chat:m"].then(says("no"))
    live.post("/v1/responses", {**asked, "input": "forced", "tool_choice": forced})
    chosen = upstreams["chat:m"].requests[-1].json["tool_choice"]
    assert chosen == {"type": "function", "function": {"name": "multi_agent_v1__close"}}


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"type": "web_search"}, "no_server_tool_support"),
        ({"type": "function", "name": "multi_agent_v1__close"}, "two tools are called"),
        ({"type": "namespace", "tools": []}, "name` is missing"),
        (
            {"type": "namespace", "name": "n", "tools": [{"type": "custom", "name": "c"}]},
            "no_custom_tool_support",
        ),
    ],
)
def test_what_no_other_format_can_hold_is_refused(
    street: tuple[Running, dict[str, Upstream]], more: dict[str, Any], told: str
) -> None:
    live, upstreams = street
    asked = {"model": "chat:m", "input": "hi", "tools": [*TOOLS, more]}
    answer = live.post("/v1/responses", asked)
    assert (answer.status_code, told in answer.text) == (400, True), answer.text
    assert upstreams["chat:m"].requests == []


def test_a_reference_to_reasoning_is_left_out_and_any_other_is_refused(
    street: tuple[Running, dict[str, Upstream]],
) -> None:
    live, upstreams = street
    asked = {"model": "chat:m", "input": [{"type": "item_reference", "id": "rs_1"}, PAST[0]]}
    assert live.post("/v1/responses", asked).status_code == 200
    (sent,) = upstreams["chat:m"].requests
    assert [each["role"] for each in sent.json["messages"]] == ["user"]
    asked["input"][0]["id"] = "msg_1"
    refused = live.post("/v1/responses", asked)
    assert (refused.status_code, "item_reference" in refused.text) == (400, True)
