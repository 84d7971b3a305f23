"""A cancel in each of its places: what is told, what is kept, and that nothing goes on."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.unit.sessions.models import HAIKU, a_policy
from tests.unit.sessions.play import Play, a_tool, a_turn, a_use, answer, nth, wants

from pointsman.sessions.effects import (
    AskHuman,
    CallModel,
    CanContinue,
    Effect,
    KeepMessage,
    RunTool,
)
from pointsman.sessions.events.calls import ToolFailed
from pointsman.sessions.events.session import TurnCancelled
from pointsman.sessions.message import unanswered_calls
from pointsman.sessions.tool import ConfirmationRequest
from pointsman.sessions.transcript import transcript

LOOK, ACT = a_tool("look"), a_tool("act")
BOTH = (a_use("look"), a_use("act"))
STARTED = ["turn.started", "route.decided", "llm.call_started"]


@pytest.mark.req(116, 118)
def test_while_the_model_streams_the_call_fails_and_no_tool_does() -> None:
    play = Play(cancel_at=nth(CallModel))
    end = play.turn(a_turn(a_policy(), tools=[LOOK, ACT]))
    assert play.log == [*STARTED, "llm.call_failed", "turn.cancelled"]
    assert end.status == "cancelled"
    assert play.of(TurnCancelled) == [TurnCancelled("user_cancel", 1, 0)]
    assert play.messages[-1].metadata.status == "cancelled"
    assert play.messages[-1].text == "half an ans"


@pytest.mark.req(116, 118)
def test_while_a_tool_runs_every_scheduled_tool_fails_and_no_call_does() -> None:
    play = Play(answer(*BOTH, stop="tool_use"), cancel_at=nth(RunTool))
    play.turn(a_turn(a_policy(), tools=[LOOK, ACT]))
    assert play.log == [
        *STARTED,
        "llm.call_completed",
        "tool.called",
        "tool.failed",
        "tool.failed",
        "turn.cancelled",
    ]
    assert [each.error_class for each in play.of(ToolFailed)] == ["cancelled", "cancelled"]
    assert play.of(TurnCancelled) == [TurnCancelled("user_cancel", 0, 2)]


@pytest.mark.req(116, 118)
def test_at_the_seam_pending_tools_fail_and_nothing_runs() -> None:
    play = Play(answer(*BOTH, stop="tool_use"), cancel_at=nth(CanContinue, 2))
    play.turn(a_turn(a_policy(), tools=[LOOK, ACT]))
    assert play.log == [
        *STARTED, "llm.call_completed", "tool.failed", "tool.failed", "turn.cancelled",
    ]  # fmt: skip
    assert play.ran == []


def test_in_a_later_call_it_is_as_in_the_first() -> None:
    play = Play(wants("look"), cancel_at=nth(CallModel, 2))
    play.turn(a_turn(a_policy(), tools=[LOOK]))
    assert play.log[-3:] == ["llm.call_started", "llm.call_failed", "turn.cancelled"]


def test_between_tools_and_the_next_call_only_the_turn_is_told() -> None:
    play = Play(wants("look"), cancel_at=nth(CanContinue, 3))
    end = play.turn(a_turn(a_policy(), tools=[LOOK]))
    assert play.log[-2:] == ["tool.completed", "turn.cancelled"]
    assert end.status == "cancelled"
    assert len(play.calls) == 1


def test_before_the_first_call_nothing_is_called() -> None:
    play = Play(cancel_at=nth(KeepMessage))
    play.turn(a_turn(a_policy()))
    assert play.log == ["turn.started", "route.decided", "turn.cancelled"]
    assert play.calls == []


def test_while_a_human_is_asked_the_tool_fails_as_cancelled() -> None:
    play = Play(
        wants("act"), needs={"act": ConfirmationRequest("act", "act")}, cancel_at=nth(AskHuman)
    )
    play.turn(a_turn(a_policy(), tools=[ACT]))
    assert play.log[-3:] == ["tool.confirmation_requested", "tool.failed", "turn.cancelled"]
    assert play.ran == []


def test_after_the_last_word_a_cancel_comes_too_late() -> None:
    play = Play(answer("all said"), cancel_at=nth(KeepMessage, 2))
    assert play.turn(a_turn(a_policy())).status == "completed"


@pytest.mark.parametrize("at", [nth(CallModel), nth(RunTool), nth(CanContinue, 2)])
@pytest.mark.req(116)
def test_the_next_turn_routes_afresh_over_a_history_that_providers_take(
    at: Callable[[Effect], bool],
) -> None:
    play = Play(answer(*BOTH, stop="tool_use"), cancel_at=at)
    end = play.turn(a_turn(a_policy(), tools=[LOOK, ACT]))
    assert unanswered_calls(end.messages) == ()
    following = Play(answer("a new turn"))
    again = following.turn(
        a_turn(a_policy(), "again", override=HAIKU, history=end.messages, tools=[LOOK])
    )
    assert again.model == HAIKU
    assert following.log.count("route.decided") == 1
    sent = transcript(following.messages)
    assert sent[0].role == "user"
    assert sent[-1].role == "assistant"


def test_the_reason_is_told() -> None:
    play = Play(cancel_at=nth(CallModel), reason="client_disconnect")
    end = play.turn(a_turn(a_policy()))
    assert end.cancelled_by == "client_disconnect"
    assert play.of(TurnCancelled)[0].reason == "client_disconnect"
