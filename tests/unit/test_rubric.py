"""A judge's question, and what counts as its verdict."""

import pytest

from pointsman.calls.judging import (
    RUBRIC,
    STEPS,
    Rubric,
    answer_text,
    judge_request,
    question_text,
    verdict,
)
from pointsman.kernel.number import Billionths
from pointsman.providers.messages import Response, Text, ToolUse, Usage


@pytest.mark.parametrize("digit", range(STEPS + 1))
def test_verdict_is_one_digit_in_fixed_steps(digit):
    assert verdict(f" {digit}\n") == Billionths(digit * 250_000_000)


@pytest.mark.parametrize(
    "said",
    [
        "",
        "5",
        "-1",
        "3.5",
        "3/4",
        "10",
        "score: 3",
        "3 because it is right",
        "four",
        "٣",
        "3\n3",
        "²",
    ],
)
def test_what_is_not_one_digit_of_the_scale_is_no_verdict(said):
    assert verdict(said) is None


def test_question_shows_rubric_question_and_answer_and_asks_for_few_tokens():
    asked = judge_request(Rubric("be brief"), "what is 2 + 2?", "4")
    words = question_text(asked)
    assert all(part in words for part in ("be brief", "what is 2 + 2?", "Answer:\n4"))
    assert asked.max_output_tokens == 16
    assert asked.temperature is not None
    assert bytes(asked.temperature) == b"0"
    assert not asked.is_stream


def test_long_texts_are_shown_by_their_beginning_and_end():
    asked = question_text(judge_request(Rubric(), "q", "begin" + "x" * 10_000 + "end"))
    assert "begin" in asked
    assert "end" in asked
    assert len(asked) < 4_000


def test_rubric_is_named_by_its_words():
    assert Rubric().id == Rubric(RUBRIC).id
    assert Rubric("be brief").id != Rubric("be long").id


def test_words_of_an_answer_are_its_text_alone():
    content = (Text("one "), ToolUse("t1", "look", b"{}"), Text("two"))
    assert answer_text(Response("", content, "end", Usage())) == "one two"
