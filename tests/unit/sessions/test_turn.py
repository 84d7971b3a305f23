"""A turn of a conversation, by hand: its events, its lock, and every way it can end."""

from __future__ import annotations

import pytest
from msgspec import Raw
from tests.unit.sessions.models import HAIKU, OPUS, SONNET, a_policy
from tests.unit.sessions.play import (
    PICTURE,
    Play,
    a_tool,
    a_turn,
    a_use,
    answer,
    failure,
    wants,
)

from pointsman.calls.flow import Fallback
from pointsman.providers.messages import Text, ToolResult
from pointsman.sessions.effects import CallModel
from pointsman.sessions.events.calls import (
    LlmCallStarted,
    ToolCalled,
    ToolCompleted,
    ToolConfirmationResolved,
    ToolFailed,
)
from pointsman.sessions.events.session import (
    PatternMatched,
    PatternOverrideDismissed,
    RouteOverridden,
    TurnCompleted,
    TurnStarted,
)
from pointsman.sessions.tool import ConfirmationAnswer, ConfirmationRequest, ToolOutcome
from pointsman.sessions.transcript import request_text
from pointsman.turns.learning.pattern_row import PatternRow

READ = a_tool("read_file", properties={"path": {"type": "string"}}, required=["path"])
SIMPLE = [
    "turn.started", "route.decided", "llm.call_started", "llm.call_completed", "turn.completed",
]  # fmt: skip


@pytest.mark.req(110, 244)
def test_a_turn_starts_with_the_users_message_and_ends_with_end_turn() -> None:
    play = Play(answer("hello yourself"))
    end = play.turn(a_turn(a_policy()))
    assert play.log == SIMPLE
    assert (end.status, end.stop_reason, end.text) == ("completed", "end_turn", "hello yourself")
    assert [each.role for each in play.messages] == ["user", "assistant"]


def test_causes_are_linked_from_the_turn_to_its_calls_and_tools() -> None:
    play = Play(wants("read_file", {"path": "a"}), answer("done"))
    play.turn(a_turn(a_policy(), tools=[READ]))
    assert play.parent_of(LlmCallStarted) == ["turn.started", "tool.completed"]
    assert play.parent_of(ToolCalled) == ["llm.call_completed"]
    assert play.parent_of(ToolCompleted) == ["tool.called"]


@pytest.mark.req(101, 111, 112, 264, 278)
def test_every_call_of_a_turn_uses_the_model_chosen_at_its_start() -> None:
    rules = [{"name": "reads", "when": {"message_matches": "Read"}, "use": SONNET}]
    ready = a_policy({"schema_version": 1, "global_default": HAIKU, "rules": rules})
    play = Play(
        wants("read_file", {"path": "README.md"}, id="tu_1"),
        wants("read_file", {"path": "TOC.md"}, id="tu_2"),
        answer("a summary"),
    )
    end = play.turn(a_turn(ready, "Read README.md and summarize", tools=[READ]))
    assert [each.model for each in play.calls] == [SONNET, SONNET, SONNET]
    assert [each.number for each in play.calls] == [1, 2, 3]
    assert len(play.records) == 1
    assert {each.request_id for each in play.of(LlmCallStarted)} == {"t.1", "t.2", "t.3"}
    assert end.tally.llm_calls == 3
    assert end.tally.tool_calls == 2


def test_what_a_turn_cost_is_added_up() -> None:
    play = Play(wants("read_file", {"path": "a"}), answer("done", cost=90))
    end = play.turn(a_turn(a_policy(), tools=[READ]))
    assert end.tally.cost_usd == "0.0001"
    (completed,) = play.of(TurnCompleted)
    assert completed.total_cost_usd == "0.0001"
    assert (completed.total_input_tokens, completed.total_output_tokens) == (10, 14)


@pytest.mark.parametrize(
    ("stop", "told"),
    [("length", "max_tokens"), ("stop_sequence", "stop_sequence"), ("refusal", "refusal")],
)
def test_any_stop_but_a_tool_call_ends_the_turn(stop: str, told: str) -> None:
    play = Play(answer("cut", a_use("read_file", {"path": "a"}), stop=stop))  # type: ignore[arg-type] # a literal
    end = play.turn(a_turn(a_policy(), tools=[READ]))
    assert (end.status, end.stop_reason) == ("completed", told)
    assert play.ran == []


def test_an_answer_that_asks_for_tools_goes_on_whatever_it_calls_its_end() -> None:
    play = Play(answer(a_use("read_file", {"path": "a"}), stop="end"), answer("done"))
    assert play.turn(a_turn(a_policy(), tools=[READ])).text == "done"


@pytest.mark.req(283)
def test_a_hard_failure_is_decided_but_starts_no_turn() -> None:
    play = Play()
    end = play.turn(a_turn(a_policy(), availability={"anthropic": "unavailable"}))
    assert play.log == ["route.decided"]
    assert play.messages == []
    assert end.status == "no_model"
    assert "anthropic provider currently unavailable" in end.error
    assert play.records[0].ruling.outcome.winner_index == -1


def test_after_a_failed_call_another_model_takes_over_and_the_lock_moves() -> None:
    rules = [{"name": "all", "when": {"has_images": False}, "use": OPUS}]
    ready = a_policy({"schema_version": 1, "global_default": SONNET, "rules": rules})
    play = Play(failure(), wants("read_file", {"path": "a"}), answer("done"))
    end = play.turn(a_turn(ready, tools=[READ]))
    assert [each.model for each in play.calls] == [OPUS, SONNET, SONNET]
    assert play.log.count("route.decided") == 1
    assert play.log.count("turn.fallback") == 1
    assert end.model == SONNET
    assert play.parent_of(LlmCallStarted)[1] == "llm.call_failed"


def test_a_failure_that_nobody_takes_over_ends_the_turn_as_failed() -> None:
    play = Play(failure())
    end = play.turn(a_turn(a_policy(), fallback=Fallback(is_on=False)))
    assert (end.status, end.stop_reason, end.error) == ("failed", "error", "it broke")
    assert play.log[-2:] == ["llm.call_failed", "turn.completed"]


def test_a_call_that_breaks_off_keeps_what_was_said_and_has_no_successor() -> None:
    play = Play(failure(text="so far"))
    end = play.turn(a_turn(a_policy()))
    assert end.status == "failed"
    assert (play.messages[-1].text, play.messages[-1].metadata.status) == ("so far", "error")
    assert len(play.calls) == 1


def test_a_turn_without_money_ends_before_its_call() -> None:
    end = Play(failure("over_budget")).turn(a_turn(a_policy(), fallback=Fallback(is_on=False)))
    assert (end.status, end.stop_reason) == ("failed", "over_budget")


def test_a_turn_that_goes_round_and_round_is_stopped() -> None:
    again = [wants("read_file", {"path": "a"}, id=f"tu_{each}") for each in range(3)]
    play = Play(*again)
    end = play.turn(a_turn(a_policy(), tools=[READ], most_calls=3))
    assert (end.status, end.stop_reason) == ("completed", "loop_limit")
    assert len(play.calls) == 3
    assert len(play.ran) == 3


def test_an_unknown_tool_is_told_to_the_model_and_the_turn_goes_on() -> None:
    play = Play(wants("fly"), answer("I cannot fly"))
    end = play.turn(a_turn(a_policy(), tools=[READ]))
    (failed,) = play.of(ToolFailed)
    assert (failed.error_class, failed.error_message) == (
        "not_found",
        "there is no tool `fly`: there are: read_file, delegate",
    )
    assert end.text == "I cannot fly"
    assert play.ran == []


def test_input_that_breaks_the_schema_never_reaches_the_tool() -> None:
    play = Play(wants("read_file", {"path": 7}), answer("sorry"))
    play.turn(a_turn(a_policy(), tools=[READ]))
    assert "tool.input_invalid" in play.log
    assert play.of(ToolFailed)[0].error_class == "validation_error"
    assert play.ran == []
    (result,) = play.messages[2].content
    assert isinstance(result, ToolResult)
    assert result.is_error


def test_a_failed_tool_is_told_with_what_it_said() -> None:
    broken = ToolOutcome((Text("no such file"),), "not_found", "no such file")
    play = Play(wants("read_file", {"path": "a"}), answer("ok"), tools={"read_file": broken})
    play.turn(a_turn(a_policy(), tools=[READ]))
    assert play.of(ToolFailed)[0].error_class == "not_found"


@pytest.mark.parametrize(
    ("said", "failed"), [("deny", "user_denied"), ("timeout", "confirmation_timeout")]
)
def test_a_tool_that_is_not_allowed_does_not_run(said: str, failed: str) -> None:
    play = Play(
        wants("read_file", {"path": "a"}),
        answer("then not"),
        needs={"read_file": ConfirmationRequest("read a", "read_file")},
        says=[ConfirmationAnswer(said)],  # type: ignore[arg-type] # a literal
    )
    play.turn(a_turn(a_policy(), tools=[READ]))
    assert play.ran == []
    assert play.log[4:8] == [
        "tool.confirmation_requested",
        "tool.confirmation_resolved",
        "tool.failed",
        "llm.call_started",
    ]
    assert play.of(ToolFailed)[0].error_class == failed


def test_what_was_allowed_for_the_session_is_not_asked_again() -> None:
    need = {"read_file": ConfirmationRequest("read a", "read_file")}
    play = Play(
        wants("read_file", {"path": "a"}, id="tu_1"),
        wants("read_file", {"path": "b"}, id="tu_2"),
        answer("done"),
        needs=need,
        says=[ConfirmationAnswer("allow", "session")],
    )
    end = play.turn(a_turn(a_policy(), tools=[READ]))
    assert play.ran == ["tu_1", "tu_2"]
    assert [each.scope for each in play.of(ToolConfirmationResolved)] == ["session"]
    later = Play(wants("read_file", {"path": "c"}), answer("done"), needs=need)
    later.turn(a_turn(a_policy(), tools=[READ], granted=end.granted))
    assert later.ran == ["tu_read_file"]


def test_once_means_once() -> None:
    play = Play(
        wants("read_file", {"path": "a"}, id="tu_1"),
        wants("read_file", {"path": "b"}, id="tu_2"),
        answer("done"),
        needs={"read_file": ConfirmationRequest("read", "read_file")},
        says=[ConfirmationAnswer("allow"), ConfirmationAnswer("deny")],
    )
    assert play.turn(a_turn(a_policy(), tools=[READ])).granted == frozenset()
    assert play.ran == ["tu_1"]


def patterned(**more: object) -> tuple[object, tuple[PatternRow, ...]]:
    routing = {
        "schema_version": 1,
        "global_default": HAIKU,
        "pattern": {"mode": "apply"},
        "pattern_disagreement": {"surface": True, "min_confidence": "0.05", "min_sample_size": 5},
        **more,
    }
    row = ("f1", SONNET, 900_000_000, 10, 23, 950_000_000)
    return routing, (PatternRow(*row),)  # type: ignore[arg-type] # exact numbers


COMMITS = [{"name": "fast for commits", "when": {"message_matches": "^/commit"}, "use": HAIKU}]


@pytest.mark.req(198, 199, 285)
def test_route_override_takes_the_patterns_choice_before_the_first_call() -> None:
    routing, rows = patterned(rules=COMMITS)
    play = Play(answer("done"), route="override")
    end = play.turn(a_turn(a_policy(routing), "/commit it", pattern_rows=rows))
    assert end.model == SONNET
    assert [each.model for each in play.calls] == [SONNET]
    assert play.log[:4] == ["turn.started", "route.decided", "turn.override", "route.overridden"]
    (told,) = play.of(RouteOverridden)
    assert (told.original_chosen_model, told.new_chosen_model) == (HAIKU, SONNET)
    assert told.rule_name == "fast for commits"
    assert play.parent_of(LlmCallStarted) == ["route.overridden"]


@pytest.mark.req(199, 285)
def test_route_ignore_keeps_the_rules_choice_and_tells_so() -> None:
    routing, rows = patterned(rules=COMMITS)
    play = Play(answer("done"), route="ignore")
    end = play.turn(a_turn(a_policy(routing), "/commit it", pattern_rows=rows))
    assert end.model == HAIKU
    (told,) = play.of(PatternOverrideDismissed)
    assert (told.chosen_model, told.dismissed_pattern_model) == (HAIKU, SONNET)
    assert play.log.count("route.decided") == 1


def test_an_overridden_route_keeps_every_veto() -> None:
    routing, rows = patterned(rules=COMMITS)
    play = Play(answer("done"), route="override")
    turn = a_turn(a_policy(routing), "/commit it", pattern_rows=rows, allowed_models=(HAIKU,))
    assert play.turn(turn).model == HAIKU
    assert "route.overridden" not in play.log


def test_a_pattern_that_wins_is_told() -> None:
    routing, rows = patterned()
    play = Play(answer("done"))
    play.turn(a_turn(a_policy(routing), "hello", pattern_rows=rows))
    (told,) = play.of(PatternMatched)
    assert (told.chosen_model, told.fingerprint_id, told.sample_size) == (SONNET, "f1", 23)


@pytest.mark.req(211, 213, 236)
def test_delegate_is_offered_only_while_the_active_model_may_delegate() -> None:
    def tools_of(model: str) -> list[str]:
        play = Play(answer("done"))
        play.turn(a_turn(a_policy(), override=model, tools=[READ]))
        return [each.name for each in play.calls[0].request.tools]

    assert tools_of(OPUS) == ["read_file", "delegate"]
    assert tools_of(HAIKU) == ["read_file"]


def test_a_model_without_eyes_is_told_that_there_was_an_image() -> None:
    first = Play(answer("a cat"))
    end = first.turn(a_turn(a_policy(), "what is it?", PICTURE))
    then = Play(answer("I cannot see it"))
    then.turn(a_turn(a_policy(), "and now?", override=HAIKU, history=end.messages))
    sent = request_text(then.calls[0].request)
    assert "cannot see" in sent
    assert PICTURE.data not in sent


def test_a_later_call_sends_the_words_of_tools_back() -> None:
    play = Play(
        wants("read_file", {"path": "a"}),
        answer("done"),
        tools={"read_file": ToolOutcome((Text("the content"),))},
    )
    play.turn(a_turn(a_policy(), tools=[READ], override=HAIKU))
    roles = [each.role for each in play.calls[1].request.messages]
    assert roles == ["user", "assistant", "tool"]


def test_the_first_event_holds_the_users_words_for_sealing() -> None:
    play = Play(answer("x"))
    play.turn(a_turn(a_policy(), "my secret"))
    assert play.of(TurnStarted)[0].user_message_hash == "my secret"
    assert TurnStarted.words == ("user_message_hash",)


def test_a_worker_is_marked_in_its_calls() -> None:
    play = Play(answer("x"))
    play.turn(a_turn(a_policy(), is_worker=True, delegate_tier="fast"))
    assert [each.is_worker for each in play.of(LlmCallStarted)] == [True]


def test_output_left_bounds_the_next_call() -> None:
    play = Play(wants("read_file", {"path": "a"}), answer("done"))
    play.turn(a_turn(a_policy(), tools=[READ], most_output_tokens=100))
    assert [each.request.max_output_tokens for each in play.calls] == [100, 93]


def test_a_schema_is_said_to_the_model_as_it_is() -> None:
    play = Play(answer("x"))
    play.turn(a_turn(a_policy(), tools=[READ]))
    assert play.calls[0].request.tools[0].input_schema == READ.input_schema
    assert isinstance(play.calls[0], CallModel)
    assert isinstance(READ.input_schema, Raw)


ASKING = {
    "schema_version": 1,
    "global_default": OPUS,
    "pattern": {"second_opinion": {"ask": [HAIKU, SONNET]}},
}


def test_two_equal_answers_end_a_turn_and_one_of_them_is_its_message() -> None:
    play = Play(answer("**4**"), answer("Answer: 4"))
    end = play.turn(a_turn(a_policy(ASKING)))
    assert [each.model for each in play.calls] == [HAIKU, SONNET]
    assert [each.is_held for each in play.calls] == [True, True]
    assert (end.status, end.text, end.tally.llm_calls) == ("completed", "**4**", 2)
    assert [each.role for each in play.messages] == ["user", "assistant"]
    assert [each.kind for each in play.records] == ["turn", "opinion", "opinion", "opinion"]
    assert play.log.index(f"shown {HAIKU}") > play.log.index("turn.opinion")


def test_different_answers_are_never_seen_and_the_model_above_answers() -> None:
    play = Play(answer("4"), answer("5"), answer("6"))
    end = play.turn(a_turn(a_policy(ASKING)))
    assert [each.model for each in play.calls] == [HAIKU, SONNET, OPUS]
    assert [each.number for each in play.calls] == [1, 2, 3]
    assert end.text == "6"
    assert not any(each.startswith("shown") for each in play.log)


def test_no_tool_runs_that_only_a_held_answer_asks_for() -> None:
    play = Play(wants("read_file", {"path": "a"}), answer("no tool"), answer("from above"))
    end = play.turn(a_turn(a_policy(ASKING), tools=[READ]))
    assert (end.text, play.ran) == ("from above", [])


def test_equal_tool_calls_run_once_and_their_model_goes_on_alone() -> None:
    twice = [wants("read_file", {"path": "a"}, id=f"tu_{n}") for n in (1, 2)]
    play = Play(*twice, answer("done"))
    end = play.turn(a_turn(a_policy(ASKING), tools=[READ]))
    assert [each.model for each in play.calls] == [HAIKU, SONNET, HAIKU]
    assert (end.text, play.ran) == ("done", ["tu_1"])


def test_a_held_model_that_fails_leaves_the_turn_to_the_one_above() -> None:
    play = Play(failure("server_error"), answer("6"))
    end = play.turn(a_turn(a_policy(ASKING)))
    assert [each.model for each in play.calls] == [HAIKU, OPUS]
    assert (end.status, end.text, end.error) == ("completed", "6", "")


def test_a_cancel_while_others_are_asked_ends_the_turn() -> None:
    play = Play(answer("4"), cancel_at=lambda each: isinstance(each, CallModel))
    end = play.turn(a_turn(a_policy(ASKING)))
    assert end.status == "cancelled"
    assert len(play.calls) == 1
