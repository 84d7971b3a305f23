"""What is seen of a long request does not depend on what is remembered of earlier ones."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pointsman.errors import InputError
from pointsman.providers.dialects.look import RequestLook, look
from pointsman.providers.dialects.parts import LONG_BODY, STEP, Memos
from pointsman.providers.port import Dialect
from pointsman.signals.fact_memo import FactMemo
from pointsman.signals.hit import Hit
from pointsman.signals.sensitivity import (
    PIECE,
    RUN_BYTES,
    Sensitivity,
    sensitivity,
    sensitivity_of_parts,
)
from pointsman.signals.tokens import count_tokens

EXAMPLES = settings(derandomize=True, max_examples=12, deadline=None, database=None)
KEY = b"k"
SECRETS = ("jane@example.org", "4111 1111 1111 1111", "my cpf", "52998224725", "plain", "é ü 😀")
FIELDS = (
    "has_images", "has_system", "has_tool_calls_in_history", "has_tools", "is_continuation",
    "is_stream", "last_user_text", "max_output_tokens", "message_count", "model", "user",
    "cache_key", "wants_structured_output", "wants_free_text",
)  # fmt: skip


def a_picture(words: str, size: int) -> dict[str, Any]:
    url = "data:image/png;base64," + "QUJD" * size
    picture = {"type": "image_url", "image_url": {"url": url}}
    return {"role": "user", "content": [{"type": "text", "text": words}, picture]}


CALLS: dict[Dialect, Callable[[str], dict[str, Any]]] = {
    "chat": lambda words: {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": words}}],
    },
    "messages": lambda words: {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "c", "name": "read", "input": {"path": words}}],
    },
    "responses": lambda words: {"type": "function_call", "name": "f", "arguments": words},
}
RESULTS: dict[Dialect, Callable[[str], dict[str, Any]]] = {
    "chat": lambda words: {"role": "tool", "tool_call_id": "c", "content": words},
    "messages": lambda words: {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "c", "content": words}],
    },
    "responses": lambda words: {"type": "function_call_output", "output": words},
}


def a_message(draw: random.Random, dialect: Dialect) -> dict[str, Any]:
    words = " ".join(draw.choices(["alpha", "beta", "gamma", *SECRETS], k=draw.randrange(1, 90)))
    kind = draw.choice(["user", "assistant", "call", "result", "system", "picture"])
    if kind == "picture":
        return a_picture(words, draw.randrange(1, 900))
    if kind == "call":
        return CALLS[dialect](words)
    if kind == "result":
        return RESULTS[dialect](words)
    return {"role": kind, "content": words}


def a_body(draw: random.Random, dialect: Dialect, filler: str) -> bytes:
    """Return a request; `filler` makes it long, in a field that routing does not read."""
    messages = [a_message(draw, dialect) for _ in range(draw.randrange(1, 12))]
    tool = {"type": "function", "name": "f", "function": {"name": "read", "description": "d"}}
    body: dict[str, Any] = {
        "model": "auto",
        "input" if dialect == "responses" else "messages": messages,
        "tools": [tool] * draw.randrange(3),
        "stream": draw.random() < 0.5,
        "max_tokens": 9,
        "x_filler": filler,
    }
    if dialect == "messages":
        body["system"] = draw.choice(["", "be brief", [{"type": "text", "text": "be brief"}]])
    if dialect == "responses":
        body["instructions"] = draw.choice([None, "be brief"])
    separators = draw.choice([(",", ":"), (", ", ": ")])
    return json.dumps(body, separators=separators, ensure_ascii=draw.random() < 0.5).encode()


def seen(found: RequestLook) -> list[Any]:
    return [getattr(found, name) for name in FIELDS] + [found.opening, found.said_before()]


def recorded(dialect: Dialect, body: bytes, memos: Memos | None) -> bytes:
    """Return all that a decision takes from a request, as bytes."""
    found = look(dialect, body, memos)
    tokens = found.tokens(count_tokens)
    memo = FactMemo() if memos is None else memos.findings
    holds: Sensitivity | None = None
    if found.parts is not None:
        holds = sensitivity_of_parts([*found.parts], KEY, memo)
    return msgspec.json.encode((seen(found), tokens, holds))


@pytest.mark.parametrize("dialect", ["chat", "messages", "responses"])
@EXAMPLES
@given(seed=st.integers(0, 2**32), most_bytes=st.sampled_from([0, 2_000, 9_000, 1_000_000]))
def test_what_is_recorded_does_not_depend_on_what_is_remembered(
    dialect: Dialect, seed: int, most_bytes: int
) -> None:
    draw = random.Random(seed)
    bodies = [a_body(draw, dialect, "x " * LONG_BODY) for _ in range(3)]
    alone = [recorded(dialect, body, None) for body in bodies]
    memos = Memos(FactMemo(most_bytes), FactMemo(most_bytes))
    for at in draw.choices(range(len(bodies)), k=7):
        assert recorded(dialect, bodies[at], memos) == alone[at]


@pytest.mark.parametrize("dialect", ["chat", "messages", "responses"])
@EXAMPLES
@given(seed=st.integers(0, 2**32))
def test_a_long_request_is_seen_as_a_short_one(dialect: Dialect, seed: int) -> None:
    short = look(dialect, a_body(random.Random(seed), dialect, ""))
    long = look(dialect, a_body(random.Random(seed), dialect, "x" * LONG_BODY), Memos())
    assert long.parts is not None
    assert seen(long) == seen(short)
    assert long.all_text() == short.all_text()
    words = short.all_text()
    assert abs(long.tokens(count_tokens) - count_tokens(words)) <= 2 * len([*long.parts])


def test_the_facts_of_one_part_are_not_taken_for_those_of_another_kind() -> None:
    memos = Memos()
    body = {"messages": [{"role": "user", "content": "x" * LONG_BODY}]}
    tools = [{"role": "system", "content": "a b c"}]
    for more in ({"tools": tools}, {"system": tools}):
        found = look("messages", json.dumps({**body, **more}).encode(), memos)
        assert found.has_tools == ("tools" in more)
        assert found.tokens(count_tokens) == found.tokens(count_tokens)
    as_entry = {"messages": [*body["messages"], *tools]}
    assert look("chat", json.dumps(as_entry).encode(), memos).has_system


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [{"role": 5}]},
        {"messages": [{"role": "user", "content": "x"}], "tools": 7},
        {"messages": 5},
        {"model": "m"},
        {"messages": [{"role": "user", "content": "x"}], "stream": "yes"},
    ],
)
def test_a_long_request_that_cannot_be_read_is_refused_as_a_short_one(body: Any) -> None:
    with pytest.raises(InputError) as short:
        look("chat", json.dumps(body).encode())
    filled = json.dumps({**body, "x_filler": "x" * LONG_BODY}).encode()
    for _ in range(2):
        with pytest.raises(InputError) as long:
            look("chat", filled, Memos())
        assert str(long.value) == str(short.value)


class Text:
    """A part of a text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.raw = text.encode()
        self.digest = self.raw

    def text(self) -> str:
        return self._text


def found_in(*texts: str, memo: Any = None) -> Sensitivity:
    return sensitivity_of_parts([Text(each) for each in texts], KEY, memo or FactMemo())


def test_what_stands_in_two_messages_is_found_where_they_meet() -> None:
    before, after = "word " * RUN_BYTES + "my cpf", "52998224725 " + "word " * RUN_BYTES
    memo: Any = FactMemo()
    for _ in range(2):
        found = found_in(before, after, memo=memo)
        assert found.kinds == ("pii.br_cpf",)
        (one,) = found.findings
        assert f"{before}\n{after}"[one.start : one.end] == "52998224725"
    assert not found_in(before).total
    assert not found_in(after).total


@EXAMPLES
@given(seed=st.integers(0, 2**32))
def test_a_text_in_parts_holds_what_the_whole_text_holds(seed: int) -> None:
    draw = random.Random(seed)

    def part() -> str:
        words = draw.choices(["so", "then", "it is"], k=draw.randrange(1, 3_000))
        for _ in range(draw.randrange(3)):
            words.insert(draw.randrange(len(words)), draw.choice(SECRETS))
        return " ".join(words)

    texts = [part() for _ in range(draw.randrange(1, 6))]
    assert found_in(*texts) == sensitivity("\n".join(texts), KEY)


def test_a_finding_between_two_pieces_of_one_text_is_found_once() -> None:
    text = (
        ("word " * PIECE)[: PIECE - 20] + "my cpf 52998224725 jane@example.org " + "word " * PIECE
    )
    assert found_in(text) == sensitivity(text, KEY)
    assert found_in(text).total == 2


def test_a_detector_that_fails_on_a_part_is_a_fact_and_is_not_remembered() -> None:
    memo: Any = FactMemo()
    texts = [Text("a" * RUN_BYTES), Text("jane@example.org")]

    def broken(text: str) -> list[Hit]:
        if "jane" in text:
            raise ValueError(text)
        return []

    assert sensitivity_of_parts(texts, KEY, memo, broken).has_failed
    assert sensitivity_of_parts(texts, KEY, memo).kinds == ("pii.email",)


def test_the_same_bytes_say_in_each_dialect_what_they_say_there() -> None:
    memos = Memos()
    messages = [{"role": "user", "content": "x" * LONG_BODY}, {"role": "tool", "content": "y"}]
    body = json.dumps({"messages": messages}).encode()
    assert look("chat", body, memos).is_continuation
    assert not look("messages", body, memos).is_continuation


def test_findings_are_told_under_the_key_that_was_given() -> None:
    memo: Any = FactMemo()
    parts = [Text("jane@example.org")]
    one, other = (sensitivity_of_parts(parts, key, memo).findings[0] for key in (b"k", b"l"))
    assert one.digest != other.digest


def test_a_long_part_is_counted_in_pieces() -> None:
    counted: list[int] = []
    body = {"messages": [{"role": "user", "content": "x" * (2 * STEP + 5)}]}
    found = look("chat", json.dumps(body).encode())
    found.tokens(lambda text: counted.append(len(text)) or len(text))
    assert counted == [STEP, STEP, 5]
    assert found.tokens(lambda _text: 0) == 2 * STEP + 5


def test_a_memo_drops_the_facts_used_least_lately() -> None:
    class Fact(msgspec.Struct):
        size: int

    memo: FactMemo[Fact] = FactMemo(40)
    for name in (b"1", b"2"):
        memo.keep(name, Fact(10))
    memo.keep(b"3", Fact(10))
    assert memo.find(b"1") == Fact(10)  # taken over into the younger generation
    memo.keep(b"4", Fact(10))
    assert [memo.find(name) is not None for name in (b"1", b"2", b"3", b"4")] == [
        True, False, True, True,
    ]  # fmt: skip
    memo.keep(b"5", Fact(21))
    assert memo.find(b"5") is None
