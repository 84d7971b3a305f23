"""How a worker ends: broken, past its tokens or time, lacking context, cancelled; or well."""

from __future__ import annotations

import jsonschema_rs
import msgspec
import pytest
from tests.unit.sessions.delegating import READ, TASK, call, delegates, result_of
from tests.unit.sessions.models import HAIKU, OPUS, SONNET, a_policy
from tests.unit.sessions.play import Play, a_turn, a_use, answer, failure, nth, wants

from pointsman.sessions.effects import CallModel, Effect
from pointsman.sessions.events.calls import ToolFailed
from pointsman.sessions.events.delegation import (
    DelegateCompleted,
    DelegateFailed,
    InsufficientContextRequest,
)
from pointsman.sessions.prompts import worker_prompt


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
