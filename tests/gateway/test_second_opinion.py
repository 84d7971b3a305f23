"""Cheaper models are asked first; where they agree, theirs is the answer that goes out."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from tests.gateway.conftest import Town
from tests.gateway.house import Running, chat_text, facts_of, running, streamed, write_home
from tests.gateway.test_receipts import verified

from pointsman.audit.turn_story import read_story
from pointsman.kernel.record import read_recorded
from pointsman.learning.recorded_runs import read_recorded_run
from pointsman.storage.home import open_home
from pointsman.testing import calls, fails, says
from pointsman.turns.explain import to_screen
from pointsman.turns.trace import OUTCOME_FORM, TRACE_FORM

OPINION = "decision.turn.opinion"
BOTH = {"ask": ["open:small", "house:llama"]}


def routing(opinion: dict[str, Any], use: str = "claude:opus") -> dict[str, Any]:
    rule = {"when": {"message_contains_any": ["sum"]}, "use": use, "second_opinion": opinion}
    return {"schema_version": 1, "global_default": "open:big", "rules": [rule]}


@pytest.fixture
def asking(town: Town) -> Town:
    """Two cheap models are asked about sums before Claude is."""
    write_home(town.home, routing=routing(BOTH))
    return town


def steps(live: Running) -> list[tuple[str, str]]:
    """Return the steps that were decided, with the models they are about."""
    found = []
    for entry in live.entries(OPINION):
        _, record, _ = read_recorded(entry.payload)
        step = TRACE_FORM.decode(bytes(record.trace)).opinion
        assert step.model == OUTCOME_FORM.decode(bytes(record.outcome)).chosen_model
        found.append((step.step, step.model))
    return found


def replayed(live: Running, turn_id: str) -> set[str]:
    told = live.post(f"/api/turns/{turn_id}/replay", {}, authorization=f"Bearer {live.admin}")
    return {each["verdict"] for each in told.json()["decisions"]}


def test_two_equal_answers_spare_the_model_above(asking: Town, serve: Any) -> None:
    asking.openai.then(says("I add them up.\nThe answer is **1,204.0**."))
    asking.local.then(says("1204"))
    live = serve(asking.home)
    told = live.chat("what is the sum?")
    assert told.json()["choices"][0]["message"]["content"].startswith("I add them up.")
    assert told.headers["x-pointsman-model"] == "open:small"
    assert not asking.anthropic.requests
    assert steps(live) == [
        ("ask", "open:small"), ("ask", "house:llama"), ("take", "open:small")
    ]  # fmt: skip
    assert [each["model"] for each in live.outcomes(2)] == ["open:small", "house:llama"]
    assert [each["number"] for each in live.outcomes(2)] == [1, 2]
    turn_id = told.headers["x-pointsman-turn"]
    assert replayed(live, turn_id) == {"identical"}
    why = live.get(f"/api/turns/{turn_id}", authorization=f"Bearer {live.admin}").json()
    assert (why["state"], why["served_model"]) == ("done", "open:small")
    assert why["opinions"][-1]["reason"] == "equal answers of open:small and house:llama"


def test_different_answers_go_up(asking: Town, serve: Any) -> None:
    asking.openai.then(says("12"))
    asking.local.then(says("13"))
    asking.anthropic.then(says("it is 14"))
    live = serve(asking.home)
    told = live.chat("what is the sum?")
    assert told.json()["choices"][0]["message"]["content"] == "it is 14"
    assert told.headers["x-pointsman-model"] == "claude:opus"
    assert steps(live)[-1] == ("up", "claude:opus")
    assert replayed(live, told.headers["x-pointsman-turn"]) == {"identical"}


def test_no_text_of_an_answer_stands_in_the_ledger(asking: Town, serve: Any) -> None:
    asking.openai.then(says("the secret word is plover"))
    asking.local.then(says("the secret word is plover"))
    live = serve(asking.home)
    live.chat("the sum of words")
    last = live.entries(OPINION)[-1]
    opinions = facts_of(asking.home, last.id).opinions
    assert len({each.answer for each in opinions}) == 1
    assert all(each.answer.startswith("hmac-sha256:") for each in opinions)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/responses"])
@pytest.mark.parametrize("is_stream", [False, True])
def test_every_wire_format_gets_the_answer_that_is_taken(
    asking: Town, serve: Any, path: str, is_stream: bool
) -> None:
    asking.openai.then(says("42"))
    asking.local.then(says("The answer: 42."))
    live = serve(asking.home)
    body: dict[str, Any] = {"model": "auto", "max_tokens": 50, "stream": is_stream}
    body["messages"] = [{"role": "user", "content": "the sum, please"}]
    if path == "/v1/responses":
        body = {"model": "auto", "input": "the sum, please", "stream": is_stream}
    told = live.post(path, body)
    assert told.status_code == 200, told.text
    assert told.headers["x-pointsman-model"] == "open:small"
    said = re.findall(r'"(?:content|text|delta)":"(\d*)"', told.text)
    assert set("".join(said).replace("42", "")) == set(), told.text
    assert "42" in "".join(said)
    assert "The answer" not in told.text
    assert not asking.anthropic.requests


@pytest.mark.parametrize("is_stream", [False, True])
def test_a_model_that_fails_gives_no_opinion(asking: Town, serve: Any, is_stream: bool) -> None:
    asking.openai.then(fails(400, "invalid_request_error"))
    asking.anthropic.then(says("from above"))
    live = serve(asking.home)
    told = live.chat("sum", stream=is_stream)
    text = chat_text(streamed(told)) if is_stream else told.json()["choices"][0]["message"]
    assert "from above" in str(text)
    assert steps(live) == [("ask", "open:small"), ("up", "claude:opus")]
    assert not asking.local.requests


def test_a_turn_that_stays_here_asks_no_model_in_the_cloud(asking: Town, serve: Any) -> None:
    write_home(
        asking.home, routing=routing({"ask": ["open:small"], "agree": "judge", "judge": "open:big"},
                                     use="house:llama"),
    )  # fmt: skip
    asking.local.then(says("at home"))
    live = serve(asking.home)
    told = live.post(
        "/v1/chat/completions",
        {"model": "auto", "messages": [{"role": "user", "content": "sum"}]},
        **{"x-pointsman-privacy": "local"},
    )
    assert told.json()["choices"][0]["message"]["content"] == "at home"
    assert steps(live) == [("up", "house:llama")]
    assert not asking.openai.requests


def test_a_named_model_asks_no_other(asking: Town, serve: Any) -> None:
    asking.anthropic.then(says("mine"))
    live = serve(asking.home)
    assert "mine" in live.chat("sum", model="claude:opus").text
    assert not live.entries(OPINION)


def test_equal_tool_calls_are_taken_and_bind_the_turn(asking: Town, serve: Any) -> None:
    asking.openai.then(calls(("add", {"a": 1, "b": 2})), says("three"))
    asking.local.then(calls(("add", {"b": 2, "a": 1})))
    live = serve(asking.home)
    tool = {
        "type": "function",
        "function": {
            "name": "add",
            "parameters": {"type": "object", "required": ["a", "b"]},
        },
    }
    talk: list[dict[str, Any]] = [{"role": "user", "content": "sum of 1 and 2"}]
    body = {"model": "auto", "messages": talk, "tools": [tool]}
    first = live.post("/v1/chat/completions", body)
    said = first.json()["choices"][0]["message"]
    call = said["tool_calls"][0]
    assert first.headers["x-pointsman-model"] == "open:small"
    assert json.loads(call["function"]["arguments"]) == {"a": 1, "b": 2}
    talk += [said, {"role": "tool", "tool_call_id": call["id"], "content": "3"}]
    then = live.post("/v1/chat/completions", body)
    assert then.headers["x-pointsman-policy"] == "turn_lock"
    assert then.json()["choices"][0]["message"]["content"] == "three"
    assert len(live.entries(OPINION)) == 3


def test_an_answer_that_is_valid_by_its_schema_is_taken(town: Town, serve: Any) -> None:
    write_home(town.home, routing=routing({"ask": ["open:small", "open:big"], "agree": "valid"}))
    town.openai.then(says('{"total": "four"}'), says('{"total": 4}'))
    live = serve(town.home)
    schema = {"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]}
    wanted = {"type": "json_schema", "json_schema": {"name": "t", "schema": schema}}
    told = live.chat("sum", response_format=wanted)
    assert told.json()["choices"][0]["message"]["content"] == '{"total": 4}'
    assert steps(live)[-1] == ("take", "open:big")


@pytest.mark.parametrize(
    ("digit", "serving"), [("4", "open:small"), ("2", "claude:opus"), ("?", "claude:opus")]
)
def test_a_judge_decides_whether_an_answer_is_taken(
    town: Town, serve: Any, digit: str, serving: str
) -> None:
    asked = {"ask": ["open:small"], "agree": "judge", "judge": "house:llama"}
    write_home(town.home, routing=routing(asked))
    town.openai.then(says("a short answer"))
    town.local.then(says(digit))
    town.anthropic.then(says("from above"))
    live = serve(town.home)
    told = live.chat("sum")
    assert told.headers["x-pointsman-model"] == serving
    assert [each for each, _ in steps(live)][:2] == ["ask", "judge"]
    assert "a short answer" in town.local.texts()
    assert replayed(live, told.headers["x-pointsman-turn"]) == {"identical"}


def test_no_model_is_asked_that_the_budget_has_no_money_for(asking: Town, serve: Any) -> None:
    budget = {"name": "day", "limit_usd": 0.000001, "per": "day", "each": "all"}
    asked = {"ask": ["open:small"], "agree": "judge", "judge": "open:big"}
    policy = {**routing(asked, use="house:llama"), "budgets": [budget]}
    write_home(asking.home, routing=policy)
    asking.local.then(says("free"))
    live = serve(asking.home)
    assert "free" in live.chat("sum").text
    assert steps(live) == [("up", "house:llama")]
    assert not asking.openai.requests


def test_a_section_for_learned_turns_holds_from_an_empty_store_on(town: Town, serve: Any) -> None:
    pattern = {"pattern": {"second_opinion": {"ask": ["open:small", "house:llama"]}}}
    write_home(town.home, routing={"schema_version": 1, "global_default": "open:big", **pattern})
    town.openai.then(says("yes"))
    town.local.then(says("Yes."))
    live = serve(town.home)
    assert live.chat("is it so?").headers["x-pointsman-model"] == "open:small"


@pytest.mark.parametrize("second", ["12", "13"])
def test_a_receipt_derives_every_step_again(asking: Town, second: str) -> None:
    asking.openai.then(says("12"))
    asking.local.then(says(second))
    asking.anthropic.then(says("14"))
    with running(asking.home) as live:
        turn = live.chat("what is the sum?").headers["x-pointsman-turn"]
        live.outcomes(2 if second == "12" else 3)
    states = verified(asking.home, turn, "what is the sum?")
    assert states["decision"] == "ok"
    story = to_screen(read_story(open_home(asking.home), turn))
    told = "takes the answer of open:small" if second == "12" else "goes up to claude:opus"
    assert told in " ".join(story.split())
    # Easy questions agree and hard ones go up: neither says how good a model is.
    assert read_recorded_run(open_home(asking.home), turn) is None
