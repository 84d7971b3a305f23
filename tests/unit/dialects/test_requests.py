"""Requests: written and read back, translated, and taken by the types of the vendors' SDKs."""

import json

import msgspec
import pytest
from hypothesis import given, settings
from msgspec import Raw
from msgspec.structs import replace
from tests.unit.dialects import sdk
from tests.unit.dialects.asking import ASK, ask, read, user, written
from tests.unit.dialects.values import DIALECTS, MODELS, requests

from pointsman.providers.dialects.loss import CannotSay
from pointsman.providers.messages import ChatMessage, Image, Text, ToolResult, ToolSpec, ToolUse
from pointsman.providers.registry.dialects import speaker

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}


def comparable(request):
    """Leave out what is lost on purpose, and what only one dialect needs to be told."""
    output = request.output and replace(request.output, name="", description="", is_strict=None)
    return replace(request, output=output, unsaid=(), wants_usage=True)


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(max_examples=60, deadline=None)
@given(request=requests())
def test_a_request_written_and_read_is_the_same_request(dialect, request):
    found = speaker(dialect).write_request(request, MODELS[dialect])
    assert comparable(speaker(dialect).read_request(found.body)) == comparable(request)
    assert {each.what for each in found.lost} <= {"output_name"}


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(max_examples=40, deadline=None)
@given(request=requests())
def test_the_types_of_the_vendor_take_every_request(dialect, request):
    sdk.check_request(dialect, speaker(dialect).write_request(request, MODELS[dialect]).body)


@settings(max_examples=60, deadline=None)
@given(request=requests())
def test_a_request_that_goes_round_all_dialects_comes_back_the_same(request):
    found = request
    for dialect in (*DIALECTS, "chat"):
        speaks = speaker(dialect)
        found = speaks.read_request(speaks.write_request(found, MODELS[dialect]).body)
    assert comparable(found) == comparable(request)


# System prompts.


def test_system_and_developer_messages_in_front_are_the_system_prompt():
    found = speaker("chat").read_request(
        json.dumps(
            {
                "messages": [
                    {"role": "system", "content": "a"},
                    {"role": "developer", "content": [{"type": "text", "text": "b"}]},
                    ASK,
                ]
            }
        ).encode()
    )
    assert found.system == (Text("a"), Text("b"))
    body, _ = written("messages", found)
    assert body["system"] == [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    body, _ = written("chat", found)
    assert [each["role"] for each in body["messages"]] == ["system", "user"]
    body, _ = written("responses", found)
    assert "instructions" not in body
    assert body["input"][0]["role"] == "system"


def test_a_later_system_message_stays_where_new_models_take_it_and_is_moved_for_old_ones():
    request = ask(user("q"), ChatMessage("system", (Text("s"),)), user("r"))
    body, lost = written("messages", request, "claude-opus-4-8")
    assert [each["role"] for each in body["messages"]] == ["user", "system", "user"]
    assert not lost
    body, lost = written("messages", request, "claude-sonnet-4-5")
    assert body["system"] == "s"
    assert [each["role"] for each in body["messages"]] == ["user", "user"]
    assert lost == {"system_place"}


# Images.


def test_images_by_bytes_and_by_address_keep_their_content():
    found = read(
        "chat",
        messages=[
            {
                "role": "user",
                "content": [
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}},
                    {"type": "image_url", "image_url": {"url": "https://a.example/b"}},
                ],
            }
        ],
    )
    assert found.messages[0].content == (
        Image("base64", "QUJD", "image/png"),
        Image("url", "https://a.example/b"),
    )
    body, _ = written("messages", found)
    assert [each["source"] for each in body["messages"][0]["content"]] == [
        {"type": "base64", "media_type": "image/png", "data": "QUJD"},
        {"type": "url", "url": "https://a.example/b"},
    ]


def test_the_detail_of_an_image_is_lost_and_listed():
    part = {"type": "image_url", "image_url": {"url": "https://a.example/b", "detail": "high"}}
    found = read("chat", messages=[{"role": "user", "content": [part]}])
    assert written("messages", found)[1] == {"image_detail"}


# Tools.


def test_results_of_tools_make_one_message_for_anthropic_and_one_each_for_openai():
    calls = tuple(ToolUse(f"c{n}", "f", Raw(b"{}")) for n in (1, 2))
    results = [
        ChatMessage("tool", (ToolResult("c1", (Text("one"),)),)),
        ChatMessage("tool", (ToolResult("c2", (Text("two"),), is_error=True),)),
    ]
    request = ask(user("q"), ChatMessage("assistant", calls), *results, user("and?"))
    body, lost = written("messages", request)
    assert not lost
    assert body["messages"][2] == {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "c1", "content": "one"},
            {"type": "tool_result", "tool_use_id": "c2", "content": "two", "is_error": True},
            {"type": "text", "text": "and?"},
        ],
    }
    again = speaker("messages").read_request(json.dumps(body).encode())
    assert [each.role for each in again.messages] == ["user", "assistant", "tool", "tool", "user"]
    body, lost = written("chat", again)
    assert lost == {"tool_error"}
    assert [each["role"] for each in body["messages"]] == [
        "user", "assistant", "tool", "tool", "user",
    ]  # fmt: skip


def test_an_image_from_a_tool_follows_in_a_message_of_the_user_where_chat_has_no_place_for_it():
    result = ToolResult("c1", (Image("base64", "QUJD", "image/png"),))
    request = ask(
        user("q"),
        ChatMessage("assistant", (ToolUse("c1", "f", Raw(b"{}")),)),
        ChatMessage("tool", (result,)),
    )
    body, lost = written("chat", request)
    assert lost == {"tool_image_place"}
    assert [each["role"] for each in body["messages"]] == ["user", "assistant", "tool", "user"]
    assert body["messages"][3]["content"][0]["type"] == "image_url"
    body, lost = written("responses", request)
    assert not lost
    assert body["input"][2]["output"][0]["type"] == "input_image"


@pytest.mark.parametrize(
    ("chat", "anthropic"),
    [
        ({"tool_choice": "auto"}, {"type": "auto"}),
        ({"tool_choice": "required"}, {"type": "any"}),
        ({"tool_choice": "none"}, {"type": "none"}),
        (
            {"tool_choice": {"type": "function", "function": {"name": "f"}}},
            {"type": "tool", "name": "f"},
        ),
        ({"parallel_tool_calls": False}, {"type": "auto", "disable_parallel_tool_use": True}),
        (
            {"tool_choice": "required", "parallel_tool_calls": True},
            {"type": "any", "disable_parallel_tool_use": False},
        ),
    ],
)
def test_the_choice_of_tools_is_translated_both_ways(chat, anthropic):
    offered = [{"type": "function", "function": {"name": "f", "parameters": SCHEMA}}]
    found = read("chat", tools=offered, **chat)
    body, _ = written("messages", found)
    assert body["tool_choice"] == anthropic
    back, _ = written("chat", speaker("messages").read_request(json.dumps(body).encode()))
    assert {key: back.get(key) for key in chat} == chat
    assert written("responses", found)[0]["tools"] == [
        {"type": "function", "name": "f", "parameters": SCHEMA, "strict": False}
    ]


def test_ids_of_calls_fit_the_vendor_and_still_belong_together():
    odd = "functions.look:0"
    long = "x" * 70
    request = ask(
        user("q"),
        ChatMessage("assistant", (ToolUse(odd, "f", Raw(b"{}")), ToolUse(long, "f", Raw(b"{}")))),
        ChatMessage("tool", (ToolResult(odd, (Text("a"),)),)),
        ChatMessage("tool", (ToolResult(long, (Text("a"),)),)),
    )
    body, _ = written("messages", request)
    assert body["messages"][1]["content"][0]["id"] == "functions_look_0"
    assert body["messages"][2]["content"][0]["tool_use_id"] == "functions_look_0"
    body, _ = written("chat", request)
    short = body["messages"][1]["tool_calls"][1]["id"]
    assert len(short) <= 40
    assert body["messages"][3]["tool_call_id"] == short


# Structured output.


def test_a_schema_for_the_answer_is_translated_and_json_without_a_schema_refused():
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA, "strict": True}}
    found = read("chat", response_format=form)
    body, lost = written("messages", found)
    assert body["output_config"] == {"format": {"type": "json_schema", "schema": SCHEMA}}
    assert lost == {"output_name"}
    body, _ = written("responses", found)
    assert body["text"]["format"] == {
        "type": "json_schema", "name": "n", "schema": SCHEMA, "strict": True,
    }  # fmt: skip
    with pytest.raises(CannotSay) as caught:
        written("messages", read("chat", response_format={"type": "json_object"}))
    assert caught.value.refusal == "no_json_mode_support"


def test_the_bytes_of_arguments_and_schemas_stay_as_they_were_written():
    given_ = b'{ "b":1.50,  "a" : "\\u00e9" }'
    tool = ToolSpec("f", "", Raw(b'{"type" : "object"}'), True)
    request = ask(
        user("q"),
        ChatMessage("assistant", (ToolUse("c", "f", Raw(given_)),)),
        user("r"),
        tools=(tool,),
    )
    for dialect in DIALECTS:
        found = speaker(dialect).write_request(request, MODELS[dialect]).body
        assert b'{"type" : "object"}' in found
        assert speaker(dialect).read_request(found).messages[1].content[0].input == Raw(given_)
    assert msgspec.json.decode(given_)
