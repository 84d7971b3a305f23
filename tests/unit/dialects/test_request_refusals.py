"""Requests that cannot be said in another dialect are refused with a code."""

import pytest
from tests.unit.dialects.asking import ASK, ask, read, user
from tests.unit.dialects.values import MODELS

from pointsman.errors import InputError
from pointsman.providers.dialects.loss import CannotSay
from pointsman.providers.messages import Image, OutputFormat
from pointsman.providers.registry.dialects import speaker


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
