"""One value of a body is replaced, and no other byte."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.dialects.values import DIALECTS, json_values, words

from pointsman.errors import InputError
from pointsman.providers.dialects.foreign import without_foreign
from pointsman.providers.dialects.look import look
from pointsman.providers.dialects.spans import with_model
from pointsman.providers.dialects.words_before import with_text_of_last_user

space = st.sampled_from(["", " ", "\n", "\t ", "  \r\n"])


@st.composite
def written_oddly(draw, value):
    """Write JSON with spaces anywhere and escapes where they need not be."""
    if isinstance(value, dict):
        inner = [
            f"{draw(space)}{draw(written_text(key))}{draw(space)}:{draw(written_oddly(each))}"
            for key, each in value.items()
        ]
        text = "{" + ",".join(inner) + draw(space) + "}"
    elif isinstance(value, list):
        text = "[" + ",".join([draw(written_oddly(each)) for each in value]) + draw(space) + "]"
    elif isinstance(value, str):
        text = draw(written_text(value))
    else:
        text = json.dumps(value)
    return draw(space) + text + draw(space)


def written_text(text):
    escaped = '"' + "".join(f"\\u{ord(c):04x}" if ord(c) < 0x10000 else c for c in text) + '"'
    return st.sampled_from([json.dumps(text), json.dumps(text, ensure_ascii=False), escaped])


bodies = st.dictionaries(words | st.just("model"), json_values, max_size=5)


@settings(deadline=None)
@given(bodies.flatmap(lambda value: st.tuples(st.just(value), written_oddly(value))), words)
def test_only_the_model_changes(pair, model):
    value, text = pair
    body = text.encode()
    found = with_model(body, model)
    assert json.loads(found) == {**value, "model": model}
    if "model" in value:
        start = 0
        while found[: start + 1] == body[: start + 1] and start < len(body):
            start += 1
        kept = len(body) - start
        while kept and not found.endswith(body[len(body) - kept :]):
            kept -= 1
        assert json.loads(body)["model"] == value["model"]
        assert len(body) - kept - start <= len(json.dumps(value["model"])) * 6 + 12
    else:
        # What was there is all still there, on both sides of the new member.
        new = b'"model":' + json.dumps(model, ensure_ascii=False).encode()
        assert len(found) - len(body) in (len(new), len(new) + 1) or "\\" in json.dumps(model)


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (b'{"model":"a","x":{"model":"a"}}', b'{"model":"b","x":{"model":"a"}}'),
        (b'{"x":{"model":"a"},"model" : "a" }', b'{"x":{"model":"a"},"model" : "b" }'),
        (b'{"x":"\\"model\\":\\"a\\"","mod\\u0065l":null}',
         b'{"x":"\\"model\\":\\"a\\"","mod\\u0065l":"b"}'),
        (b"{}", b'{"model":"b"}'),
        (b' { "x" : 1.50 } ', b' { "model":"b","x" : 1.50 } '),
        (b'{"x": 1, "model": "a", "y": [1, 2]}', b'{"x": 1, "model": "b", "y": [1, 2]}'),
    ],
)  # fmt: skip
def test_nested_escaped_and_missing_models(body, wanted):
    assert with_model(body, "b") == wanted


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"a","model":"a"}',
        b'{"model":"a","x":1,"model":"b"}',
        b'{"model": "a", "x": {"x": 1}, "x": 1}',
        b'{"a":1,"\\u0061":1}',
        b'{\n"a":[1],\n"b":2,\n"a":[1]\n}',
    ],
)
def test_a_key_that_stands_twice_is_refused(body):
    with pytest.raises(InputError, match="stands twice"):
        with_model(body, "b")


CONVERSATIONS = {
    "chat": {"messages": [{"role": "user", "content": "@opus é \\ hi"}]},
    "responses": {"input": "@opus é \\ hi"},
    "messages": {
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "<system-reminder>x</system-reminder>"},
                    {"type": "text", "text": "@opus é \\ hi", "cache_control": {"a": 1.50}},
                ],
            }
        ]
    },
}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("indent", [None, 2])
def test_a_prefix_of_the_users_own_text_is_taken_off(dialect, indent):
    body = json.dumps({"model": "m", **CONVERSATIONS[dialect], "z": 1.50}, indent=indent).encode()
    assert look(dialect, body).last_user_text == "@opus é \\ hi"
    found = with_text_of_last_user(body, dialect, len("@opus "))
    assert look(dialect, found).last_user_text == "é \\ hi"
    assert json.loads(found) == json.loads(body.replace(b"@opus ", b""))


def test_reminders_before_the_users_own_words_stay():
    text = "<system-reminder>x</system-reminder>\n@opus go"
    body = json.dumps({"messages": [{"role": "user", "content": text}]}).encode()
    assert look("messages", body).last_user_text == "@opus go"
    found = json.loads(with_text_of_last_user(body, "messages", 6))
    assert found["messages"][0]["content"] == "<system-reminder>x</system-reminder>\ngo"


def test_without_a_last_message_of_the_user_nothing_is_changed():
    body = b'{"messages":[{"role":"user","content":"@a b"},{"role":"assistant","content":"c"}]}'
    with pytest.raises(InputError, match="not the user's"):
        with_text_of_last_user(body, "chat", 3)


def test_reasoning_of_another_vendor_is_taken_out_of_a_body_that_passes_through():
    foreign = b'{"type":"thinking","thinking":"t","signature":"pointsman:openai:rs_1:abc"}'
    own = b'{"type":"thinking","thinking":"t","signature":"abc" }'
    head = b'{"model":"m" ,"messages":[{"role":"user","content":"q"},'
    said = b'{"role":"assistant","content":[%b]}'
    tail = b'],"temperature":1.50}'
    text = b'{"type":"text", "text":"pointsman: hi"}'
    body = head + said % (foreign + b"," + own + b"," + text) + tail
    assert without_foreign("messages", body) == head + said % (own + b"," + text) + tail
    only = head + said % foreign + tail
    assert without_foreign("messages", only) == head[:-1] + tail
    same = head + said % own + tail
    assert without_foreign("messages", same) is same


def test_items_of_another_vendor_are_taken_out_of_responses():
    foreign = b'{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"pointsman:::"}'
    body = b'{"input":[{"role":"user","content":"q"},' + foreign + b'],"model":"m"}'
    assert without_foreign("responses", body) == (
        b'{"input":[{"role":"user","content":"q"}],"model":"m"}'
    )
