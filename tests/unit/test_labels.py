"""Labels of items: found in every wire format, in arguments as in names; closed where unsure."""

import json
from typing import Any

import pytest

from pointsman.placement.facts import Sensitivity
from pointsman.placement.rules.labels import Label
from pointsman.recording.labels import NO_ITEMS, ToolItems, items_in_body, labels_of, tool_item

TOOLS = Label("crm", "eu", ("crm_*",), (), (), ())
SERVERS = Label("tickets", "eu", (), ("jira",), (), ())
PATHS = Label("plans", "local", (), (), ("/plans/*", "plans/*"), ())
FINDS = Label("contacts", "eu", (), (), (), ("pii",))


def named(*items: Any, label: Label = PATHS) -> bool:
    return bool(labels_of([label], ToolItems(items), None))


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [{"role": "assistant", "tool_calls": [
            {"id": "c1", "type": "function",
             "function": {"name": "crm_find", "arguments": '{"who": "ann"}'}}]},
            {"role": "tool", "tool_call_id": "c1", "content": "Ann"}]},
        {"messages": [{"role": "assistant", "content": [
            {"type": "tool_use", "id": "c1", "name": "crm_find", "input": {"who": "ann"}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1"}]}]},
        {"input": [{"type": "function_call", "call_id": "c1", "name": "crm_find",
                    "arguments": '{"who": "ann"}'},
                   {"type": "function_call_output", "call_id": "c1", "output": "Ann"}]},
    ],
)  # fmt: skip
def test_calls_are_found_in_every_wire_format(body: dict[str, Any]) -> None:
    found = items_in_body(json.dumps(body).encode())
    assert [each.name for each in found.calls] == ["crm_find"]
    assert "ann" in found.calls[0].texts
    assert not found.is_open
    assert labels_of([TOOLS, SERVERS, PATHS], found, None) == ("crm",)
    # Without its call nobody knows what a result holds.
    name, (_, result) = next((name, each) for name, each in body.items())
    alone = items_in_body(json.dumps({name: [result]}).encode())
    assert alone == ToolItems((), is_open=True)
    assert labels_of([TOOLS, SERVERS, PATHS], alone, None) == ("crm", "tickets", "plans")


def test_tools_that_are_only_offered_are_no_items() -> None:
    offered = {"type": "function", "function": {"name": "crm_find", "parameters": {}}}
    written = {"name": "crm_find", "input_schema": {}}
    body = {"tools": [offered, written], "messages": [{"role": "user", "content": "hi"}]}
    assert items_in_body(json.dumps(body).encode()) == NO_ITEMS
    assert labels_of([TOOLS, SERVERS, PATHS], NO_ITEMS, None) == ()


@pytest.mark.parametrize("name", ["jira__find", "mcp__jira__find"])
def test_a_tool_belongs_to_its_server(name: str) -> None:
    assert named(tool_item(name, {}), label=SERVERS)
    assert named(tool_item("find", {}, "mcp__jira"), label=SERVERS)
    assert not named(tool_item("jira", {}), label=SERVERS)


@pytest.mark.parametrize(
    ("given", "is_named"),
    [
        ({"path": "/plans/a.md"}, True),
        ({"path": "plans/a.md"}, True),
        ({"paths": ["/x", "/plans/deep/b"]}, True),
        ({"path": "/x/../plans/a"}, True),
        ({"path": "/x/./..//plans/a"}, True),
        ({"command": "cat '/plans/a.md' | head"}, True),
        ({"command": "cat --file=/plans/a.md"}, True),
        ('{"path": "/plans/a.md"}', True),
        ({"path": "/x/plan"}, False),
        ({"path": "/plans"}, False),
        ("no json {", False),
    ],
)
def test_a_path_is_found_in_the_arguments(given: object, *, is_named: bool) -> None:
    assert named(tool_item("read_file", given)) is is_named


def test_a_text_that_was_not_looked_into_counts_as_found() -> None:
    failed = Sensitivity("d", has_failed=True, total=0, kinds=(), findings=())
    found = Sensitivity("d", has_failed=False, total=1, kinds=("pii.email",), findings=())
    clean = Sensitivity("d", has_failed=False, total=0, kinds=(), findings=())
    given = [labels_of([FINDS], NO_ITEMS, each) for each in (None, failed, found, clean)]
    assert given == [("contacts",), ("contacts",), ("contacts",), ()]


def test_what_a_worker_brings_back_is_known_by_its_taint_alone() -> None:
    items = ToolItems((tool_item("delegate", {"task": "look"}),))
    assert labels_of([TOOLS], items, None) == ()
    assert labels_of([TOOLS], items, None, knows_workers=False) == ("crm",)
