"""Delegation: what a planner may ask, what a worker gets, and how either is told of the end."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import msgspec
import pytest
from tests.unit.sessions.models import HAIKU, MODELS, OPUS, SONNET, a_policy
from tests.unit.sessions.play import (
    PICTURE,
    Play,
    a_tool,
    a_turn,
    a_use,
    answer,
    failure,
    nth,
    wants,
)

from pointsman.errors import InputError
from pointsman.providers.messages import Text, ToolResult
from pointsman.sessions.delegate_call import (
    DELEGATE_TOOL,
    DelegateInput,
    File,
    FileRange,
    Inline,
    PastMessage,
    PastResult,
    offered_to_worker,
    read_delegation,
)
from pointsman.sessions.effects import CallModel, Effect
from pointsman.sessions.events.delegation import (
    DelegateCompleted,
    DelegateFailed,
    DelegateStarted,
    InsufficientContextRequest,
)
from pointsman.sessions.events.tools import ToolFailed
from pointsman.sessions.include import handed_over
from pointsman.sessions.prompts import worker_prompt
from pointsman.sessions.tool import ToolOutcome

READ, SHELL = a_tool("read_file"), a_tool("shell")
MEMORY = a_tool("memory_add")
TASK = "rename `foo` to `bar` in src/"
MINIMAL = {"mode": "minimal"}


def call(task: str = TASK, tier: str = "fast", **more: Any) -> dict[str, Any]:
    return {"tier": tier, "task": task, "context": MINIMAL, **more}


def delegates(*given: dict[str, Any]) -> Any:
    uses = [a_use("delegate", each, id=f"tu_{number}") for number, each in enumerate(given, 1)]
    return answer(*uses, stop="tool_use")


def result_of(play: Play, number: int = 0) -> dict[str, Any]:
    """What the planner reads of its delegation."""
    found = [
        block
        for message in play.messages
        for block in message.content
        if isinstance(block, ToolResult)
    ]
    (text,) = found[number].content
    assert isinstance(text, Text)
    return msgspec.json.decode(text.text)  # type: ignore[no-any-return] # an object


@pytest.mark.req(212)
def test_delegate_takes_six_arguments_and_no_more() -> None:
    schema = msgspec.json.decode(DELEGATE_TOOL.input_schema)
    assert [*schema["properties"]] == [
        "tier", "task", "context", "output_schema", "allowed_tools", "max_tokens",
    ]  # fmt: skip
    assert schema["required"] == ["tier", "task", "context"]
    assert [*DelegateInput.__struct_fields__] == [*schema["properties"]]


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
            OPUS: {**MODELS["models"][OPUS], "capabilities": {"supports_images": False}},
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
    offered, dropped = offered_to_worker((READ, MEMORY, planner_only, DELEGATE_TOOL), None)
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
    handed = handed_over(items, history)
    inlined = "".join(each.text for each in handed.blocks if isinstance(each, Text))
    assert "src/auth.ts" in handed.summary
    assert "lines 40 to 80" in handed.summary
    assert "auth.ts" not in inlined
    for words in ("the whole file", "look at it", "use argon2"):
        assert words in inlined


@pytest.mark.parametrize("item", [PastResult("tu_none"), PastMessage("m_none")])
def test_a_reference_to_nothing_is_refused(item: Any) -> None:
    with pytest.raises(InputError, match="none"):
        handed_over((item,), ())


def test_lines_that_run_backwards_are_refused() -> None:
    with pytest.raises(InputError, match="are none"):
        handed_over((FileRange("a", (9, 3)),), ())


@pytest.mark.req(224)
def test_the_worker_is_told_its_model_task_context_tools_and_schema() -> None:
    schema: dict[str, object] = {"type": "object", "required": ["n"]}
    prompt = worker_prompt(HAIKU, TASK, "Context:\n[1] file a", ["read_file"], schema)
    for words in (HAIKU, TASK, "[1] file a", "Available tools: read_file", '"required":["n"]'):
        assert words in prompt
    assert "schema" not in worker_prompt(HAIKU, TASK, "", [])


@pytest.mark.req(226)
def test_a_worker_that_breaks_keeps_what_it_said() -> None:
    play = Play(delegates(call()), answer("done"), workers={TASK: [failure(text="half of it")]})
    play.turn(a_turn(a_policy()))
    result = result_of(play)
    assert result["error"] == "worker_error: it broke"
    assert result["output"] == "half of it"
    assert play.of(DelegateFailed)[0].failure_mode == "worker_error"


@pytest.mark.req(227)
def test_a_worker_past_its_tokens_gives_back_what_it_has() -> None:
    play = Play(
        delegates(call(max_tokens=50)),
        answer("done"),
        workers={TASK: [answer("as far as it", stop="length")]},
    )
    play.turn(a_turn(a_policy()))
    result = result_of(play)
    assert (result["error"], result["output"]) == ("max_tokens_exceeded", "as far as it")
    assert play.calls[1].request.max_output_tokens == 50


def test_tokens_of_all_calls_of_a_worker_count() -> None:
    first = answer("so", a_use("read_file"), stop="tool_use")
    play = Play(delegates(call(max_tokens=7)), answer("done"), workers={TASK: [first]})
    play.turn(a_turn(a_policy(), tools=[READ]))
    assert result_of(play)["error"] == "max_tokens_exceeded"


@pytest.mark.req(228)
@pytest.mark.parametrize(
    ("said", "is_fine"),
    [('{"n": 1}', True), ('```json\n{"n": 1}\n```', True), ('{"n": "x"}', False), ("n=1", False)],
)
def test_an_answer_must_keep_the_schema_it_was_given(said: str, *, is_fine: bool) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    play = Play(
        delegates(call(output_schema=schema)), answer("done"), workers={TASK: [answer(said)]}
    )
    play.turn(a_turn(a_policy()))
    result = result_of(play)
    assert result["success"] is is_fine
    assert result["output"] == ({"n": 1} if is_fine else said)
    assert result["error"] == (None if is_fine else "output_schema_validation_failed")


MISSING = {
    "missing": [
        {"type": "file", "ref": "src/auth/jwt.ts", "hint": "need the signing logic"},
        {"type": "decision", "ref": "expiration policy", "hint": "need the window"},
    ],
    "summary": "Need the JWT code and the policy.",
}


@pytest.mark.req(231, 233, 301)
def test_a_worker_that_lacks_context_ends_with_a_request_for_it() -> None:
    play = Play(
        delegates(call()),
        answer("I will give it"),
        workers={TASK: [wants("_request_context", MISSING)]},
    )
    play.turn(a_turn(a_policy()))
    result = result_of(play)
    assert (result["error"], result["output"]) == ("insufficient_context", MISSING)
    (failed,) = play.of(DelegateFailed)
    assert failed.failure_mode == "insufficient_context"
    payload = msgspec.json.decode(str(failed.insufficient_context_request))
    jsonschema_rs.validate(msgspec.json.schema(InsufficientContextRequest), payload)
    assert len(play.calls) == 3


@pytest.mark.req(232)
def test_only_six_kinds_of_things_can_be_missing() -> None:
    wrong = {**MISSING, "missing": [{"type": "money", "ref": "x", "hint": "y"}]}
    play = Play(
        delegates(call()),
        answer("done"),
        workers={TASK: [wants("_request_context", wrong), answer("then so")]},
    )
    play.turn(a_turn(a_policy()))
    assert result_of(play)["success"] is True
    assert "worker tool.input_invalid" in play.log


@pytest.mark.req(230)
def test_a_cancel_reaches_the_worker_first_and_the_planner_last() -> None:
    play = Play(delegates(call()), cancel_at=nth(CallModel, 2))
    end = play.turn(a_turn(a_policy()))
    assert play.log[-5:] == [
        "worker llm.call_failed",
        "worker turn.cancelled",
        "worker session.ended",
        "delegate.failed",
        "turn.cancelled",
    ]
    assert play.of(DelegateFailed)[0].failure_mode == "cancelled_by_user"
    result = result_of(play)
    assert (result["error"], result["output"]) == ("cancelled_by_user", "half an ans")
    assert end.status == "cancelled"
    assert play.of(ToolFailed) == []


def test_a_worker_out_of_time_fails_and_its_planner_goes_on() -> None:
    play = Play(
        delegates(call()), answer("without it"), cancel_at=nth(CallModel, 2), reason="timeout"
    )
    end = play.turn(a_turn(a_policy()))
    assert play.of(DelegateFailed)[0].failure_mode == "timeout"
    assert end.text == "without it"


def test_several_delegations_of_one_answer_are_handed_over_together() -> None:
    handed: list[int] = []

    def heard(effect: Effect) -> None:
        if type(effect).__name__ == "Delegate":
            handed.append(len(effect.delegations))  # type: ignore[union-attr] # it is one

    play = Play(
        delegates(call("one"), call("two"), call("three")),
        answer("done"),
        workers={each: [answer(each)] for each in ("one", "two", "three")},
        on=heard,
    )
    play.turn(a_turn(a_policy()))
    assert handed == [3]
    assert [result_of(play, each)["output"] for each in range(3)] == ["one", "two", "three"]
    assert len(play.of(DelegateCompleted)) == 3


@pytest.mark.req(240)
def test_a_workers_turn_is_locked_too() -> None:
    play = Play(
        delegates(call()),
        answer("done"),
        workers={TASK: [wants("read_file"), answer("ok")]},
    )
    play.turn(a_turn(a_policy(), tools=[READ]))
    assert [each.model for each in play.calls] == [OPUS, HAIKU, HAIKU, OPUS]


def test_a_rule_that_is_written_for_workers_fires_for_them() -> None:
    rules = [{"name": "renames", "when": {"message_matches": "^rename"}, "use": SONNET}]
    routing = {"schema_version": 1, "global_default": OPUS, "rules": rules}
    play = Play(delegates(call()), answer("done"), workers={TASK: [answer("ok")]})
    play.turn(a_turn(a_policy(routing), "please do"))
    assert play.calls[1].model == SONNET
