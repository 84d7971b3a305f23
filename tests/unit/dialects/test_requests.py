"""Requests: written and read back, translated, and taken by the types of the vendors' SDKs."""

import json

import msgspec
import pytest
from hypothesis import given, settings
from msgspec import Raw
from msgspec.structs import replace
from tests.unit.dialects import sdk
from tests.unit.dialects.values import DIALECTS, MODELS, requests

from pointsman.errors import InputError
from pointsman.providers.dialects.loss import CannotSay
from pointsman.providers.dialects.speaker import speaker
from pointsman.providers.messages import (
    Image,
    Message,
    OutputFormat,
    RedactedThinking,
    Request,
    Text,
    Thinking,
    Tool,
    ToolChoice,
    ToolResult,
    ToolUse,
)

ASK = {"role": "user", "content": "q"}
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}


def read(dialect, **fields):
    key = "input" if dialect == "responses" else "messages"
    return speaker(dialect).read_request(json.dumps({"model": "m", key: [ASK], **fields}).encode())


def written(dialect, request, model=None):
    found = speaker(dialect).write_request(request, model or MODELS[dialect])
    sdk.check_request(dialect, found.body)
    return json.loads(found.body), {each.what for each in found.lost}


def user(*blocks):
    return Message("user", tuple(Text(b) if isinstance(b, str) else b for b in blocks))


def ask(*messages, **fields):
    return Request(messages=messages or (user("q"),), **fields)


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
    request = ask(user("q"), Message("system", (Text("s"),)), user("r"))
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
        Message("tool", (ToolResult("c1", (Text("one"),)),)),
        Message("tool", (ToolResult("c2", (Text("two"),), is_error=True),)),
    ]
    request = ask(user("q"), Message("assistant", calls), *results, user("and?"))
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
        Message("assistant", (ToolUse("c1", "f", Raw(b"{}")),)),
        Message("tool", (result,)),
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
        Message("assistant", (ToolUse(odd, "f", Raw(b"{}")), ToolUse(long, "f", Raw(b"{}")))),
        Message("tool", (ToolResult(odd, (Text("a"),)),)),
        Message("tool", (ToolResult(long, (Text("a"),)),)),
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


# Reasoning.


@pytest.mark.parametrize(
    ("effort", "budget"),
    [("minimal", 1024), ("low", 2048), ("medium", 8192), ("high", 16384), ("max", 24000)],
)
def test_an_effort_is_a_budget_for_older_claudes_and_an_effort_for_newer(effort, budget):
    found = read("chat", reasoning_effort=effort)
    body, _ = written("messages", found, "claude-sonnet-4-5")
    assert body["thinking"] == {"type": "enabled", "budget_tokens": budget}
    assert body["max_tokens"] > budget
    body, _ = written("messages", found, "claude-opus-4-8")
    assert body["thinking"] == {"type": "adaptive"}
    assert body["output_config"] == {"effort": "low" if effort == "minimal" else effort}


@pytest.mark.parametrize(
    ("thinking", "effort"),
    [
        ({"type": "enabled", "budget_tokens": 1024}, "low"),
        ({"type": "enabled", "budget_tokens": 8192}, "medium"),
        ({"type": "enabled", "budget_tokens": 31999}, "high"),
        ({"type": "adaptive"}, "high"),
    ],
)
def test_thinking_of_anthropic_is_an_effort_for_models_of_openai_that_reason(thinking, effort):
    found = read("messages", max_tokens=40000, thinking=thinking)
    assert written("chat", found, "gpt-5.1")[0]["reasoning_effort"] == effort
    assert written("responses", found, "gpt-5.1")[0]["reasoning"] == {"effort": effort}
    body, lost = written("chat", found, "gpt-4o")
    assert "reasoning_effort" not in body
    assert lost == {"thinking_effort"}


def test_no_thinking_is_said_where_it_can_be():
    found = read("messages", max_tokens=9, thinking={"type": "disabled"})
    assert written("messages", found)[0]["thinking"] == {"type": "disabled"}
    assert written("chat", found, "gpt-5.1")[0]["reasoning_effort"] == "none"
    assert written("chat", found, "o3")[1] == {"thinking_off"}
    assert written("chat", found, "gpt-4o")[1] == set()


def test_a_budget_leaves_room_for_the_answer_or_is_lost():
    body, _ = written("messages", ask(thinking_tokens=9000, max_output_tokens=5000))
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 4999}
    body, lost = written("messages", ask(thinking_tokens=9000, max_output_tokens=1000))
    assert "thinking" not in body
    assert lost == {"thinking_budget"}


def test_claude_is_not_asked_to_think_where_it_would_refuse_to():
    call = ToolUse("c", "f", Raw(b"{}"))
    result = Message("tool", (ToolResult("c", (Text("r"),)),))
    step = ask(user("q"), Message("assistant", (call,)), result, thinking_effort="high")
    assert written("messages", step)[1] == {"thinking_with_tool"}
    assert written("messages", step, "claude-opus-4-8")[1] == set()
    own = Message("assistant", (Thinking("t", "s", "anthropic"), call))
    assert written("messages", replace(step, messages=(user("q"), own, result)))[1] == set()
    tool = Tool("f", "", Raw(b'{"type":"object"}'))
    forced = ask(tools=(tool,), tool_choice=ToolChoice("any"), thinking_effort="high")
    assert written("messages", forced)[1] == {"thinking_with_tool"}


def test_reasoning_goes_back_only_to_the_vendor_that_wrote_it():
    own = Thinking("t", "sig", "anthropic")
    other = Thinking("t", "enc", "openai", "rs_1")
    unsigned = Thinking("t")
    request = ask(
        user("q"), Message("assistant", (own, other, unsigned, RedactedThinking("x"), Text("a")))
    )
    body, lost = written("messages", request)
    assert [each["type"] for each in body["messages"][1]["content"]] == [
        "thinking", "redacted_thinking", "text",
    ]  # fmt: skip
    assert lost == {"thinking"}
    body, lost = written("responses", request)
    assert body["input"][1] == {
        "type": "reasoning", "id": "rs_1", "encrypted_content": "enc",
        "summary": [{"type": "summary_text", "text": "t"}],
    }  # fmt: skip
    assert len(body["input"]) == 3
    assert lost == {"thinking"}
    body, lost = written("chat", request)
    assert body["messages"][1] == {"role": "assistant", "content": "a"}
    assert lost == {"thinking"}


# Limits, sampling and hints.


def test_anthropic_always_gets_max_tokens():
    assert written("messages", ask())[0]["max_tokens"] == 32000
    assert written("messages", ask(), "claude-3-5-haiku-latest")[0]["max_tokens"] == 4096
    assert written("messages", ask(), "qwen3")[0]["max_tokens"] == 4096
    assert written("messages", ask(max_output_tokens=7))[0]["max_tokens"] == 7


def test_models_of_openai_get_max_completion_tokens_and_other_servers_max_tokens():
    request = ask(max_output_tokens=7)
    assert written("chat", request, "gpt-5")[0]["max_completion_tokens"] == 7
    assert written("chat", request, "llama-3.3-70b")[0]["max_tokens"] == 7
    assert written("chat", request, "openai/gpt-oss-20b")[0]["max_tokens"] == 7


@pytest.mark.parametrize(
    ("model", "kept", "lost"),
    [
        ("claude-sonnet-4-5-20250929", {"temperature"}, {"top_p"}),
        ("claude-3-5-haiku-latest", {"temperature"}, {"top_p"}),
        ("claude-opus-4-20250514", {"temperature"}, {"top_p"}),
        ("claude-opus-4-6", {"temperature"}, {"top_p"}),
        ("claude-opus-4-7", set(), {"temperature", "top_p"}),
        ("claude-fable-5", set(), {"temperature", "top_p"}),
        ("qwen3", {"temperature", "top_p"}, set()),
    ],
)
def test_sampling_is_written_only_for_models_behind_messages_that_take_it(model, kept, lost):
    body, found = written("messages", ask(temperature=Raw(b"0.5"), top_p=Raw(b"0.9")), model)
    assert {"temperature", "top_p"} & set(body) == kept
    assert found == lost


def test_sampling_is_lost_for_models_of_openai_that_reason():
    request = ask(temperature=Raw(b"0.5"))
    assert written("chat", request, "o3-mini")[1] == {"temperature"}
    assert written("responses", request, "gpt-5")[1] == {"temperature"}
    assert written("chat", request, "gpt-5-chat-latest")[1] == set()


def test_a_temperature_above_1_counts_as_1_for_anthropic():
    body, lost = written("messages", ask(temperature=Raw(b"1.7")))
    assert body["temperature"] == 1
    assert lost == {"temperature_range"}


def test_hints_are_kept_where_they_can_be_said_and_listed_where_not():
    found = read(
        "chat", seed=0, logit_bias={"5": 1}, logprobs=True, metadata={"a": "b"}, store=True,
        frequency_penalty=0.0, verbosity="low", prompt_cache_key="k", safety_identifier="s",
        n=1, user="u",
    )  # fmt: skip
    body, lost = written("chat", found)
    assert lost == {"logprobs", "store"}
    assert body["seed"] == 0
    assert "frequency_penalty" not in body
    body, lost = written("responses", found)
    assert lost == {"seed", "logit_bias", "logprobs", "store"}
    assert body["text"] == {"verbosity": "low"}
    assert body["store"] is False
    body, lost = written("messages", found)
    assert lost == {
        "seed", "logit_bias", "logprobs", "store", "metadata", "verbosity", "prompt_cache_key",
        "safety_identifier",
    }  # fmt: skip
    assert body["metadata"] == {"user_id": "u"}


def test_top_k_of_anthropic_and_its_marks_are_listed():
    found = read(
        "messages", max_tokens=9, top_k=5, service_tier="auto", speed="fast", zzz=1,
        system=[{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}],
        metadata={"user_id": "u"},
    )  # fmt: skip
    body, lost = written("chat", found)
    assert lost == {"top_k", "service_tier", "speed", "unknown_field", "cache_control"}
    assert body["user"] == "u"
    assert written("messages", found)[0]["top_k"] == 5


def test_an_unknown_field_is_listed_by_its_name():
    lost = speaker("messages").write_request(read("chat", zzz=1), "claude-sonnet-4-5").lost
    assert [each.why for each in lost] == ["a field this version does not know: `zzz`"]


def test_usage_is_always_asked_for_and_told_only_when_wanted():
    found = read("chat", stream=True)
    assert not found.wants_usage
    assert written("chat", found)[0]["stream_options"] == {"include_usage": True}
    assert read("chat", stream=True, stream_options={"include_usage": True}).wants_usage
    assert read("responses", stream=True).wants_usage


# Refusals.


def message(*parts):
    return {"messages": [{"role": "user", "content": [*parts]}]}


def item(**fields):
    return {"input": [fields]}


@pytest.mark.parametrize(
    ("dialect", "fields", "refusal"),
    [
        ("chat", {"n": 2}, "no_multiple_choices_support"),
        ("chat", {"audio": {"voice": "a"}}, "no_audio_support"),
        ("chat", {"modalities": ["text", "audio"]}, "no_audio_support"),
        ("chat", message({"type": "input_audio", "input_audio": {}}), "no_audio_support"),
        ("chat", message({"type": "file", "file": {}}), "no_file_support"),
        ("chat", message({"type": "hologram"}), "no_content_support"),
        ("chat", message({"type": "image_url", "image_url": {"url": "data:x,y"}}),
         "no_image_url_support"),
        ("chat", {"functions": [{"name": "f"}]}, "no_legacy_functions_support"),
        ("chat", {"web_search_options": {}}, "no_server_tool_support"),
        ("chat", {"tools": [{"type": "custom", "custom": {"name": "f"}}]},
         "no_custom_tool_support"),
        ("chat", {"tool_choice": {"type": "allowed_tools"}}, "no_allowed_tools_support"),
        ("responses", {"previous_response_id": "r"}, "no_stateful_responses_support"),
        ("responses", {"conversation": "c"}, "no_stateful_responses_support"),
        ("responses", {"background": True}, "no_stateful_responses_support"),
        ("responses", {"prompt": {"id": "p"}}, "no_stateful_responses_support"),
        ("responses", item(type="item_reference", id="x"), "no_stateful_responses_support"),
        ("responses", item(type="web_search_call", id="x"), "no_server_tool_support"),
        ("responses", item(type="custom_tool_call", id="x"), "no_custom_tool_support"),
        ("responses", item(role="user", content=[{"type": "input_file"}]), "no_file_support"),
        ("responses", item(role="user", content=[{"type": "input_image", "file_id": "f"}]),
         "no_file_support"),
        ("responses", {"tools": [{"type": "web_search"}]}, "no_server_tool_support"),
        ("responses", {"tools": [{"type": "custom", "name": "f"}]}, "no_custom_tool_support"),
        ("responses", {"tool_choice": {"type": "allowed_tools"}}, "no_allowed_tools_support"),
        ("messages", {"tools": [{"type": "web_search_20250305", "name": "w"}]},
         "no_server_tool_support"),
        ("messages", {"mcp_servers": [{"url": "u"}]}, "no_server_tool_support"),
        ("messages", message({"type": "document", "source": {"type": "text"}}), "no_file_support"),
        ("messages", message({"type": "image", "source": {"type": "file", "file_id": "f"}}),
         "no_file_support"),
        ("messages", message({"type": "server_tool_use", "id": "s"}), "no_server_tool_support"),
        ("messages", message({"type": "web_search_tool_result"}), "no_server_tool_support"),
        ("messages", {"container": "c"}, "no_stateful_responses_support"),
    ],
)  # fmt: skip
def test_content_that_cannot_be_translated_is_refused_with_its_code(dialect, fields, refusal):
    with pytest.raises(CannotSay) as caught:
        read(dialect, **fields)
    assert caught.value.refusal == refusal
    assert caught.value.http_status == 400


@pytest.mark.parametrize(
    ("dialect", "request_", "refusal"),
    [
        ("responses", ask(stop=("x",)), "no_stop_sequence_support"),
        ("messages", ask(user(Image("url", "http://a.example"))), "no_image_url_support"),
        ("messages", ask(user(Image("base64", "QUJD", "image/bmp"))), "no_image_type_support"),
        ("messages", ask(output=OutputFormat("json_object")), "no_json_mode_support"),
    ],
)
def test_what_a_target_cannot_say_is_refused_with_its_code(dialect, request_, refusal):
    with pytest.raises(CannotSay) as caught:
        speaker(dialect).write_request(request_, MODELS[dialect])
    assert caught.value.refusal == refusal


def test_a_request_without_any_words_is_refused_for_anthropic():
    with pytest.raises(InputError, match="no message has any content"):
        speaker("messages").write_request(ask(user()), "claude-sonnet-4-5")


def test_the_arguments_of_a_call_must_be_an_object():
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "[1]"}}
    with pytest.raises(InputError, match=r"`messages\[1\]\.tool_calls\[0\]\.function\.arguments`"):
        read("chat", messages=[ASK, {"role": "assistant", "tool_calls": [call]}])


def test_the_bytes_of_arguments_and_schemas_stay_as_they_were_written():
    given_ = b'{ "b":1.50,  "a" : "\\u00e9" }'
    tool = Tool("f", "", Raw(b'{"type" : "object"}'), True)
    request = ask(
        user("q"), Message("assistant", (ToolUse("c", "f", Raw(given_)),)), user("r"), tools=(tool,)
    )
    for dialect in DIALECTS:
        found = speaker(dialect).write_request(request, MODELS[dialect]).body
        assert b'{"type" : "object"}' in found
        assert speaker(dialect).read_request(found).messages[1].content[0].input == Raw(given_)
    assert msgspec.json.decode(given_)
