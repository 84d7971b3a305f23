"""Whatever the bytes are: one clear `InputError`, or a value; never another exception."""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.dialects.test_answers import FULL, streamed
from tests.unit.dialects.values import DIALECTS, MODELS, json_values, requests

from pointsman.errors import InputError
from pointsman.providers.dialects.foreign import without_foreign
from pointsman.providers.dialects.look import look
from pointsman.providers.dialects.spans import with_model
from pointsman.providers.dialects.tap import end_of, tap, usage_of
from pointsman.providers.dialects.whole import fold, unfold
from pointsman.providers.dialects.words_before import with_text_of_last_user
from pointsman.providers.registry.dialects import speaker

REQUESTS = {
    "chat": {
        "model": "m", "messages": [
            {"role": "system", "content": "s"},
            {"role": "user", "content": [{"type": "text", "text": "t"}, {
                "type": "image_url", "image_url": {"url": "https://a.example"}}]},
            {"role": "assistant", "content": None, "tool_calls": [
                {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "c", "content": "r"}],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}],
        "tool_choice": "auto", "response_format": {"type": "text"}, "stop": ["x"],
        "stream_options": {"include_usage": True}, "max_tokens": 3, "temperature": 1,
    },
    "responses": {
        "model": "m", "instructions": "i", "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "t"}]},
            {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "e"},
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": "r"}],
        "tools": [{"type": "function", "name": "f", "parameters": {}}],
        "text": {"format": {"type": "text"}, "verbosity": "low"}, "reasoning": {"effort": "low"},
    },
    "messages": {
        "model": "m", "max_tokens": 5, "system": [{"type": "text", "text": "s"}], "messages": [
            {"role": "user", "content": [{"type": "text", "text": "t"}, {
                "type": "image", "source": {"type": "base64", "media_type": "image/png",
                                            "data": "QQ=="}}]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "t", "signature": "pointsman:::"},
                {"type": "tool_use", "id": "c", "name": "f", "input": {}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "c", "content": [
                    {"type": "text", "text": "r"}]}]}],
        "tools": [{"name": "f", "input_schema": {}}], "tool_choice": {"type": "auto"},
        "thinking": {"type": "enabled", "budget_tokens": 1024}, "metadata": {"user_id": "u"},
        "output_config": {"format": {"type": "json_schema", "schema": {}}},
    },
}  # fmt: skip
LOWER = re.compile(r"^[^A-Z]")


def places(value, path=()):
    yield path
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, each in inner:
        yield from places(each, (*path, key))


def changed(value, path, new):
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = changed(value[path[0]], path[1:], new)
    return copy


@st.composite
def mutated(draw, value):
    for _ in range(draw(st.integers(1, 2))):
        path = draw(st.sampled_from([*places(value)]))
        value = changed(value, path, draw(json_values))
    return json.dumps(value).encode()


def everything(dialect, body):
    seen = look(dialect, body)
    assert isinstance(seen.all_text(), str)
    assert isinstance(seen.opening, bytes)
    return seen


def one_clear_error(action, *arguments):
    message = "fine"
    try:
        action(*arguments)
    except InputError as error:
        message = error.message
    assert LOWER.match(message), message
    assert "\n" not in message


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_changed_body_gives_a_value_or_one_clear_error(dialect, data):
    body = data.draw(mutated(REQUESTS[dialect]))
    one_clear_error(everything, dialect, body)
    one_clear_error(speaker(dialect).read_request, body)
    one_clear_error(with_model, body, "x")
    one_clear_error(with_text_of_last_user, body, dialect, 1)
    one_clear_error(without_foreign, dialect, body)
    one_clear_error(speaker(dialect).read_response, body)


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_body_with_changed_bytes_gives_a_value_or_one_clear_error(dialect, data):
    body = bytearray(json.dumps(REQUESTS[dialect]).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(body) - 1))
        body[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
    for action in (everything, lambda _, raw: speaker(dialect).read_request(raw)):
        one_clear_error(action, dialect, bytes(body))
    one_clear_error(with_model, bytes(body), "x")
    one_clear_error(with_text_of_last_user, bytes(body), dialect, 1)
    one_clear_error(without_foreign, dialect, bytes(body))


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_changed_stream_or_answer_gives_events_or_one_clear_error(dialect, data):
    stream = bytearray(streamed(dialect, unfold(FULL)))
    answer = bytearray(speaker(dialect).write_response(FULL, "m", 7))
    for text in (stream, answer):
        at = data.draw(st.integers(0, len(text) - 1))
        text[at : at + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=4))
    reader = speaker(dialect).stream_reader()
    one_clear_error(lambda: fold([*reader.feed(bytes(stream)), *reader.end()]))
    one_clear_error(speaker(dialect).read_response, bytes(answer))
    tapped = tap(dialect)
    tapped.feed(bytes(stream))
    usage_of(dialect, bytes(answer))
    end_of(dialect, bytes(answer))


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "the body is not valid json: input data was truncated"),
        (b"[]", "the body: expected an object, got a list"),
        (b"nope", "the body is not valid json: json is malformed: invalid character (byte 4)"),
        (b'{"model":5,"messages":[],"input":[]}',
         "`model`: expected a text or null, got a whole number"),
        (b'{"model":"\xff","messages":[],"input":[]}', "the body is not utf-8: byte 10"),
        (b'{"messages":[],"input":[],"a":1,"a":2}', "`a` stands twice in the body"),
        (b'{"messages":[],"input":[], "a" : 1 , "\\u0061":1}', "`a` stands twice in the body"),
        (b'{"messages":' + b"[" * 100_000, "the body is nested too deeply"),
        (b'{"messages":[],"input":[],"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
         "the body is nested too deeply"),
        (b'{"stream":"yes","messages":[],"input":[]}',
         "`stream`: expected true or false or null, got a text"),
    ],
)  # fmt: skip
def test_looking_at_a_bad_body_says_what_is_wrong(dialect, body, message):
    with pytest.raises(InputError) as caught:
        look(dialect, body)
    assert caught.value.message.lower() == message


def test_places_stand_in_the_message():
    with pytest.raises(InputError, match=r"`messages\[0\]\.role`: expected a text"):
        look("chat", b'{"messages":[{"role":5}]}')
    with pytest.raises(InputError, match="`messages` is missing"):
        look("messages", b'{"model":"m"}')
    with pytest.raises(InputError, match=r"`messages\[0\]\.content\[0\]\.text` is missing"):
        speaker("messages").read_request(
            b'{"messages":[{"role":"user","content":[{"type":"text"}]}]}'
        )


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(max_examples=40, deadline=None)
@given(request=requests())
def test_every_request_that_is_written_can_be_looked_at(dialect, request):
    body = speaker(dialect).write_request(request, MODELS[dialect]).body
    seen = everything(dialect, body)
    assert seen.has_tools == bool(request.tools)
    assert seen.has_system == bool(request.system)
    assert seen.wants_structured_output == (request.output is not None)
    roles = [message.role for message in request.messages[-2:]]
    # In messages the results of tools and the words after them are one message.
    is_joined = dialect == "messages" and roles == ["tool", "user"]
    assert seen.is_continuation == (roles[-1] == "tool" or is_joined)
    assert seen.max_output_tokens == request.max_output_tokens
    assert seen.user == request.user
