"""Delegation: what a planner may ask, which model takes it, and what a worker gets."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.unit.sessions.delegating import READ, SHELL, TASK, call, delegates, result_of
from tests.unit.sessions.models import HAIKU, MODELS, OPUS, SONNET, a_policy
from tests.unit.sessions.play import PICTURE, Play, a_tool, a_turn, a_use, answer, wants

from pointsman.errors import InputError
from pointsman.providers.messages import Text
from pointsman.sessions.delegate_call import (
    DELEGATE_TOOL,
    DelegateRequest,
    File,
    FileRange,
    Inline,
    PastMessage,
    PastResult,
    read_delegation,
    worker_tools,
)
from pointsman.sessions.effects import Effect
from pointsman.sessions.events.delegation import DelegateFailed, DelegateStarted
from pointsman.sessions.include import resolve_context
from pointsman.sessions.tool import ToolOutcome

MEMORY = a_tool("memory_add")


@pytest.mark.req(212)
def test_delegate_takes_six_arguments_and_no_more() -> None:
    schema = msgspec.json.decode(DELEGATE_TOOL.input_schema)
    assert [*schema["properties"]] == [
        "tier", "task", "context", "output_schema", "allowed_tools", "max_tokens",
    ]  # fmt: skip
    assert schema["required"] == ["tier", "task", "context"]
    assert [*DelegateRequest.__struct_fields__] == [*schema["properties"]]


@pytest.mark.req(221, 222)
@pytest.mark.parametrize(
    "context",
    [
        {"mode": "auto"},
        {"mode": "explicit"},
        {"mode": "explicit", "include": [{"type": "directory", "path": "src"}]},
        {"mode": "explicit", "include": [{"type": "file"}]},
        {"mode": "minimal", "include": []},
        {},
    ],
)
def test_other_contexts_are_refused(context: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        read_delegation(a_use("delegate", {"tier": "fast", "task": "x", "context": context}))


@pytest.mark.req(222)
def test_the_five_kinds_of_include_are_taken() -> None:
    items = [
        {"type": "file", "path": "src/auth.ts"},
        {"type": "file_range", "path": "src/auth.ts", "lines": [40, 80]},
        {"type": "tool_result", "tool_use_id": "tu_01HZ100"},
        {"type": "message", "message_id": "01HZ_1"},
        {"type": "inline", "label": "decision", "text": "use argon2"},
    ]
    given = call(context={"mode": "explicit", "include": items})
    context = read_delegation(a_use("delegate", given)).context
    assert [type(each) for each in context.include] == [  # type: ignore[union-attr] # it is explicit
        File, FileRange, PastResult, PastMessage, Inline,
    ]  # fmt: skip


@pytest.mark.parametrize(
    "given",
    [
        call(tier="huge"),
        call(task=""),
        call(max_tokens=0),
        call(output_schema={"type": "nonsense"}),
        call(output_schema={"$ref": "file:///etc/passwd"}),
        call(output_schema={"$ref": "http://127.0.0.1:9/schema"}),
        call(more=1),
    ],
)
def test_what_is_no_delegation_is_told_to_the_planner(given: dict[str, Any]) -> None:
    play = Play(delegates(given), answer("then myself"))
    end = play.turn(a_turn(a_policy()))
    assert "tool.input_invalid" in play.log
    assert "delegate.started" not in play.log
    assert end.text == "then myself"


@pytest.mark.req(215, 220, 253, 266, 287)
def test_a_worker_is_routed_by_its_tier_and_told_to_its_planner() -> None:
    play = Play(delegates(call()), answer("all renamed"), workers={TASK: [answer("renamed")]})
    end = play.turn(a_turn(a_policy(), "rename it", tools=[READ]))
    assert [each.model for each in play.calls] == [OPUS, HAIKU, OPUS]
    assert play.log == [
        "turn.started", "route.decided", "llm.call_started", "llm.call_completed",
        "worker session.created", "worker turn.started", "worker route.decided",
        "delegate.started", "worker llm.call_started", "worker llm.call_completed",
        "worker turn.completed", "worker session.ended", "delegate.completed",
        "llm.call_started", "llm.call_completed", "turn.completed",
    ]  # fmt: skip
    (started,) = play.of(DelegateStarted)
    assert (started.worker_session_id, started.resolved_model) == ("w", HAIKU)
    assert (started.tier, started.context_mode) == ("fast", "minimal")
    assert play.parent_of(DelegateStarted) == ["llm.call_completed"]
    assert end.model == OPUS
    chain = play.records[1].ruling.trace.chain
    assert [(each.policy, each.verdict) for each in chain] == [
        ("per_message_override", "not_applicable"),
        ("manual_sticky", "not_applicable"),
        ("rule", "not_applicable"),
        ("pattern", "not_applicable"),
        ("delegate_request", "chose"),
    ]


def test_a_worker_cannot_delegate_even_on_a_model_that_may() -> None:
    play = Play(delegates(call(tier="deep")), answer("all"), workers={TASK: [answer("renamed")]})
    play.turn(a_turn(a_policy(), "rename it", tools=[READ]))
    assert [each.model for each in play.calls] == [OPUS, OPUS, OPUS]
    offered = [{tool.name for tool in each.request.tools} for each in play.calls]
    assert ["delegate" in names for names in offered] == [True, False, True]


@pytest.mark.req(113)
def test_delegation_leaves_the_planners_lock_alone() -> None:
    play = Play(
        delegates(call()), wants("read_file"), answer("done"), workers={TASK: [answer("ok")]}
    )
    play.turn(a_turn(a_policy(), tools=[READ]))
    assert [each.model for each in play.calls] == [OPUS, HAIKU, OPUS, OPUS]
    assert [each.number for each in play.calls] == [1, 1, 2, 3]


@pytest.mark.req(225)
def test_a_result_has_the_five_fields_of_the_document() -> None:
    play = Play(delegates(call()), answer("done"), workers={TASK: [answer("renamed")]})
    play.turn(a_turn(a_policy()))
    result = result_of(play)
    assert [*result] == ["success", "output", "error", "usage_summary", "worker_session_id"]
    assert result["success"] is True
    assert result["output"] == "renamed"
    assert result["usage_summary"] == {
        "model": HAIKU, "turn_count": 1, "input_tokens": 5, "output_tokens": 7,
        "cost_usd": "0.00001", "wall_time_seconds": "0", "tool_call_count": 0,
    }  # fmt: skip


@pytest.mark.req(238, 288)
def test_a_task_with_a_picture_is_upgraded_from_a_tier_without_eyes() -> None:
    shown = ToolOutcome((PICTURE,))
    include = [{"type": "tool_result", "tool_use_id": "tu_look"}]
    given = call("describe it", context={"mode": "explicit", "include": include})
    play = Play(
        wants("look"),
        delegates(given),
        answer("done"),
        tools={"look": shown},
        workers={"describe it": [answer("a cat")]},
    )
    play.turn(a_turn(a_policy(), tools=[a_tool("look")]))
    assert play.calls[2].model == SONNET
    chosen = play.records[1].ruling.trace.chain[-1]
    assert "upgraded: tier balanced" in chosen.reason
    assert PICTURE in play.calls[2].request.messages[0].content


@pytest.mark.req(229, 239, 297)
def test_a_tier_that_is_exhausted_at_deep_has_no_model() -> None:
    blind = {
        **MODELS,
        "models": {
            **MODELS["models"],
            OPUS: {**MODELS["models"][OPUS], "capabilities": {"supports_structured_output": False}},
        },
    }
    given = call(tier="deep", output_schema={"type": "object"})
    play = Play(delegates(given), answer("then myself"))
    end = play.turn(a_turn(a_policy(models=blind)))
    (failed,) = play.of(DelegateFailed)
    assert failed.failure_mode == "no_model_available_for_tier"
    assert "delegate.started" not in play.log
    result = result_of(play)
    assert (result["success"], result["output"]) == (False, "")
    assert result["error"] == "no_model_available_for_tier"
    assert end.text == "then myself"


@pytest.mark.req(214, 216, 217, 218, 289)
def test_workers_keep_files_and_shell_but_neither_delegate_nor_remember() -> None:
    given = call(allowed_tools=["read_file", "shell", "memory_add", "delegate", "nonsense"])
    play = Play(delegates(given), answer("done"), workers={TASK: [answer("ok")]})
    play.turn(a_turn(a_policy(), tools=[READ, SHELL, MEMORY]))
    offered = [each.name for each in play.calls[1].request.tools]
    assert offered == ["read_file", "shell", "_request_context"]
    (started,) = play.of(DelegateStarted)
    assert started.dropped_tools == ("memory_add", "delegate", "nonsense")
    assert started.allowed_tool_count == 2


@pytest.mark.req(216)
def test_without_a_list_a_worker_gets_what_its_planner_has_less_what_changes_state() -> None:
    planner_only = msgspec.structs.replace(a_tool("skill_create"), is_planner_only=True)
    offered, dropped = worker_tools((READ, MEMORY, planner_only, DELEGATE_TOOL), None)
    assert ([each.name for each in offered], dropped) == (["read_file"], ())


@pytest.mark.req(299)
@pytest.mark.parametrize("name", ["memory_add", "delegate"])
def test_a_worker_that_calls_what_it_has_not_got_is_told_it_is_unknown(name: str) -> None:
    heard: list[Effect] = []
    play = Play(
        delegates(call()),
        answer("done"),
        workers={TASK: [wants(name, call()), answer("without it")]},
        on=heard.append,
    )
    play.turn(a_turn(a_policy(), tools=[READ, MEMORY]))
    assert "worker tool.failed" in play.log
    assert "tool.called" not in " ".join(play.log)
    sent = msgspec.json.encode(play.calls[2].request.messages).decode()
    assert f"there is no tool `{name}`" in sent


@pytest.mark.req(223)
def test_files_go_by_reference_and_the_rest_is_inlined() -> None:
    played = Play(
        wants("read_file", id="tu_9"),
        answer("read"),
        tools={"read_file": ToolOutcome((Text("the whole file"),))},
    )
    history = played.turn(a_turn(a_policy(), "look at it", tools=[READ])).messages
    items = (
        File("src/auth.ts"),
        FileRange("src/auth.ts", (40, 80)),
        PastResult("tu_9"),
        PastMessage(history[0].id),
        Inline("decision", "use argon2"),
    )
    handed = resolve_context(items, history)
    inlined = "".join(each.text for each in handed.blocks if isinstance(each, Text))
    assert "src/auth.ts" in handed.summary
    assert "lines 40 to 80" in handed.summary
    assert "auth.ts" not in inlined
    for words in ("the whole file", "look at it", "use argon2"):
        assert words in inlined


@pytest.mark.parametrize("item", [PastResult("tu_none"), PastMessage("m_none")])
def test_a_reference_to_nothing_is_refused(item: Any) -> None:
    with pytest.raises(InputError, match="none"):
        resolve_context((item,), ())


def test_lines_that_run_backwards_are_refused() -> None:
    with pytest.raises(InputError, match="are none"):
        resolve_context((FileRange("a", (9, 3)),), ())
