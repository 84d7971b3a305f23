"""Labels go with the items of a conversation: with the item a turn is bound, without it free."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.gateway.conftest import Town
from tests.gateway.house import keeps, write_home

from pointsman.app import Pointsman
from pointsman.recording.labels import NO_ITEMS, items_in_body

ASKED = {"role": "user", "content": "what is next?"}
THANKS = {"role": "user", "content": "thanks"}
TOOLS = [{"type": "function", "function": {"name": "crm_find", "parameters": {"type": "object"}}}]


def used(name: str = "crm_find", **given: Any) -> list[dict[str, Any]]:
    function = {"name": name, "arguments": json.dumps(given)}
    call = {"id": "c1", "type": "function", "function": function}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "Ann, born 1970"},
        {"role": "assistant", "content": "done"},
    ]


@pytest.fixture
def labelled(town: Town) -> Town:
    models = {name: {**each, **({"zone": "eu"} if name == "claude:opus" else {})}
              for name, each in town.models["models"].items()}  # fmt: skip
    labels = {
        "crm": {"within": "eu", "tools": ["crm_*"]},
        "plans": {"within": "local", "paths": ["/plans/*"]},
    }
    write_home(
        town.home,
        models={**town.models, "models": models},
        placement={**keeps(), "zones": {"eu": "cloud"}, "labels": labels},
        routing={"schema_version": 1, "global_default": ["open:big", "claude:opus"]},
    )
    return town


def test_a_turn_is_bound_by_the_items_it_sends_and_free_without_them(
    labelled: Town, serve: Any
) -> None:
    live = serve(labelled.home)
    headers = {"x-session-id": "s"}

    def model_for(*items: dict[str, Any]) -> str:
        told = live.chat(messages=[ASKED, *items, THANKS], tools=TOOLS, headers=headers)
        return str(told.headers["x-pointsman-model"])

    assert model_for() == "open:big"
    assert model_for(*used()) == "claude:opus"
    assert model_for(*used("shell", command="cat /plans/a.md")) == "house:llama"
    assert model_for(*used("shell", command="ls /")) == "open:big"
    # The items are dropped, in the same session.
    assert model_for() == "open:big"
    live.outcomes(5)
    assert "born 1970" not in "".join(
        json.dumps(each.json)
        for each in labelled.openai.requests
        if "crm_find" in str(each.json["messages"])
    )
    with Pointsman(labelled.home, writer="audit") as pointsman:
        assert pointsman.tainted() == []
        assert pointsman.egress().is_clean
        report = pointsman.replay_all()
        assert report.identical == report.total > 0


def test_a_result_without_its_call_binds_to_every_label(labelled: Town, serve: Any) -> None:
    live = serve(labelled.home)
    result = used()[1]
    told = live.chat(messages=[ASKED, result, THANKS], tools=TOOLS)
    assert told.headers.get("x-pointsman-model", "house:llama") == "house:llama"
    assert not labelled.openai.requests
    assert not labelled.anthropic.requests


def test_a_caller_says_what_its_items_have(labelled: Town, serve: Any) -> None:
    live = serve(labelled.home)

    def told(labels: str) -> Any:
        return live.chat("hello", headers={"x-session-id": "h", "x-pointsman-labels": labels})

    assert told("crm").headers["x-pointsman-model"] == "claude:opus"
    assert told("crm, plans").headers["x-pointsman-model"] == "house:llama"
    # Nobody knows where an unknown label may go.
    assert told("unheard").headers["x-pointsman-model"] == "house:llama"
    for wrong in ("", "a,,b", "No Label", ",".join(f"l{n}" for n in range(33))):
        assert told(wrong).status_code == 400
    free = live.chat("hello", headers={"x-session-id": "h"})
    assert free.headers["x-pointsman-model"] == "open:big"


def test_a_label_of_the_header_binds_where_the_table_names_none(town: Town, serve: Any) -> None:
    live = serve(town.home)
    told = live.chat("hello", headers={"x-pointsman-labels": "crm"})
    assert told.headers["x-pointsman-model"] == "house:llama"


@pytest.mark.parametrize("mask", [[], ["email"]])
def test_what_is_masked_needs_no_label(labelled: Town, serve: Any, mask: list[str]) -> None:
    table = keeps(**({"mask": mask} if mask else {}))
    labels = {"contacts": {"within": "eu", "finds": ["email"]}}
    write_home(labelled.home, placement={**table, "zones": {"eu": "cloud"}, "labels": labels})
    told = serve(labelled.home).chat("write to ann.lee@example.com")
    assert told.headers["x-pointsman-model"] == ("open:big" if mask else "claude:opus")
    assert "ann.lee" not in labelled.openai.texts()


def test_a_form_calls_no_tools() -> None:
    assert items_in_body(b"--b\r\ncontent-disposition: form-data\r\n\r\n\xff\r\n--b--") == NO_ITEMS
