"""What answers say once their form is taken away, and whether they are valid."""

from __future__ import annotations

import pytest
from msgspec import UNSET, Raw

from pointsman.calls.answer_agreement import normal_answer, read_opinion
from pointsman.providers.messages import (
    ChatMessage,
    ModelRequest,
    OutputFormat,
    Response,
    StopReason,
    Text,
    ToolSpec,
    ToolUse,
    Usage,
)

KEY = b"k" * 32
SCHEMA = Raw(b'{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}}}')
PLAIN = ModelRequest(messages=(ChatMessage("user", (Text("?"),)),))
SHAPED = ModelRequest(messages=(), output=OutputFormat("json_schema", schema=SCHEMA))
TOOLED = ModelRequest(messages=(), tools=(ToolSpec("add", "", SCHEMA),))


def said(*content: Text | ToolUse, stop: StopReason = "end") -> Response:
    return Response("r", content, stop, Usage())


@pytest.mark.parametrize(
    ("said", "normal"),
    [
        ("42", "42"),
        (" 42.\n", "42"),
        ("**1,204.00**", "1204"),
        ("$18", "18"),
        ("(B)", "b"),
        ("B.", "b"),
        ("First 2, then 3.\nThe answer is 5.", "5"),
        ("Answer: 4\nNo, wait.\nFinal answer: 5", "5"),
        ("steps\n#### 72", "72"),
        (r"so \boxed{7} or rather \boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        ('{"reasoning": "long", "answer": "72"}', "72"),
        ('```json\n{"answer": 72.0}\n```', "72"),
        ('{"b": 1, "a": [2]}', '{"a":[2],"b":1}'),
        ("Yes, it is.", "yes, it is"),
        ("3.14", "3.14"),
        ("1,2", "1,2"),
    ],
)
def test_an_answer_has_one_form(said: str, normal: str) -> None:
    assert normal_answer(said) == normal


@pytest.mark.parametrize(
    ("one", "other"), [("12", "13"), ("yes", "no"), ("1.5", "15"), ("-3", "3")]
)
def test_different_answers_stay_different(one: str, other: str) -> None:
    assert normal_answer(one) != normal_answer(other)


def test_the_fact_is_a_keyed_digest() -> None:
    one, other = (read_opinion("m", said(Text("42")), PLAIN, key) for key in (KEY, b"other"))
    assert one.answer.startswith("hmac-sha256:")
    assert one.answer != other.answer
    assert (one.kind, one.is_valid) == ("text", UNSET)


@pytest.mark.parametrize("stop", ["length", "refusal", "error"])
def test_an_answer_that_was_cut_off_is_no_opinion(stop: StopReason) -> None:
    assert read_opinion("m", said(Text("42"), stop=stop), PLAIN, KEY).kind == "failed"


def test_an_empty_answer_is_no_opinion() -> None:
    assert read_opinion("m", said(Text(" ")), PLAIN, KEY).kind == "failed"


@pytest.mark.parametrize(
    ("text", "is_valid"), [('{"n": 4}', True), ('{"n": "4"}', False), ("4", False), ("{", False)]
)
def test_structured_output_is_checked_by_its_schema(text: str, is_valid: bool) -> None:
    assert read_opinion("m", said(Text(text)), SHAPED, KEY).is_valid is is_valid


def test_a_schema_that_refers_outside_makes_nothing_valid() -> None:
    outside = OutputFormat("json_schema", schema=Raw(b'{"$ref":"file:///etc/passwd"}'))
    request = ModelRequest(messages=(), output=outside)
    assert read_opinion("m", said(Text('{"n": 1}')), request, KEY).is_valid is False


def test_tool_calls_are_equal_whatever_their_ids_and_the_order_of_keys() -> None:
    one = said(Text("I will"), ToolUse("a", "add", Raw(b'{"n":1,"m":2}')), stop="tool_use")
    other = said(ToolUse("b", "add", Raw(b'{ "m": 2, "n": 1 }')), stop="tool_use")
    wrong = said(ToolUse("c", "add", Raw(b'{"n":"1"}')), stop="tool_use")
    unknown = said(ToolUse("d", "sub", Raw(b'{"n":1}')), stop="tool_use")
    heard = [read_opinion("m", each, TOOLED, KEY) for each in (one, other, wrong, unknown)]
    assert heard[0].answer == heard[1].answer
    assert [each.is_valid for each in heard] == [True, True, False, False]
