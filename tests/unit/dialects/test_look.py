"""What routing sees of a request."""

import json

import pytest

from pointsman.providers.dialects.look import look

IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}}


def see(dialect, **fields):
    return look(dialect, json.dumps(fields).encode())


def test_a_chat_request_is_seen():
    seen = see(
        "chat", model="auto", stream=True, user="u", prompt_cache_key="k", max_tokens=7,
        messages=[{"role": "developer", "content": "s"}, {"role": "user", "content": "hi"}],
        tools=[{"type": "function", "function": {"name": "f"}}],
        response_format={"type": "json_object"},
    )  # fmt: skip
    assert (seen.model, seen.is_stream, seen.user, seen.cache_key) == ("auto", True, "u", "k")
    assert seen.last_user_text == "hi"
    assert seen.max_output_tokens == 7
    assert seen.message_count == 2
    assert seen.has_tools
    assert seen.has_system
    assert seen.wants_structured_output
    assert not seen.is_continuation
    assert not seen.has_images
    assert not seen.has_tool_calls_in_history
    assert seen.all_text() == "f\ns\nhi"


@pytest.mark.parametrize(
    ("dialect", "conversation"),
    [
        ("chat", {"messages": [
            {"role": "user", "content": "q"},
            {"role": "assistant", "tool_calls": [
                {"id": "c", "function": {"name": "f", "arguments": '{"a":"arg"}'}}]},
            {"role": "tool", "tool_call_id": "c", "content": "result"}]}),
        ("responses", {"input": [
            {"role": "user", "content": "q"},
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "arg"},
            {"type": "function_call_output", "call_id": "c", "output": "result"}]}),
        ("messages", {"messages": [
            {"role": "user", "content": "q"},
            {"role": "assistant", "content": [
                {"type": "tool_use", "id": "c", "name": "f", "input": {"a": "arg"}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "c", "content": "result"},
                {"type": "text", "text": "<system-reminder>todo</system-reminder>"}]}]}),
    ],
)  # fmt: skip
def test_a_result_of_a_tool_goes_on_in_the_same_turn(dialect, conversation):
    seen = see(dialect, **conversation)
    assert seen.is_continuation
    assert seen.has_tool_calls_in_history
    assert seen.last_user_text == ""
    assert "result" in seen.all_text()
    assert "arg" in seen.all_text()


def test_system_messages_at_the_end_do_not_hide_what_the_user_said():
    said = [{"role": "user", "content": "q"}, {"role": "system", "content": "s"}]
    assert see("chat", messages=said).last_user_text == "q"


@pytest.mark.parametrize(
    ("dialect", "conversation"),
    [
        ("chat", {"messages": [{"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}]}]}),
        ("responses", {"input": [{"role": "user", "content": [
            {"type": "input_image", "image_url": "data:image/png;base64,QUJD"}]}]}),
        ("messages", {"messages": [{"role": "user", "content": [IMAGE]}]}),
        ("messages", {"messages": [{"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "c", "content": [IMAGE]}]}]}),
    ],
)  # fmt: skip
def test_images_are_seen_wherever_they_stand_and_are_no_text(dialect, conversation):
    seen = see(dialect, **conversation)
    assert seen.has_images
    assert "QUJD" not in seen.all_text()
    assert len(seen.all_text()) < 10


def test_the_word_image_is_no_image_and_an_escape_hides_none():
    assert not see("chat", messages=[{"role": "user", "content": "an image"}]).has_images
    body = json.dumps({"messages": [{"role": "user", "content": [IMAGE]}]})
    assert look("messages", body.replace("image", "\\u0069mage").encode()).has_images


def test_every_text_of_documents_and_unknown_blocks_is_seen():
    parts = [
        {"type": "document", "source": {"type": "text", "data": "in a document"}},
        {"type": "hologram", "deep": [{"words": "in a hologram"}]},
    ]
    seen = see("messages", messages=[{"role": "user", "content": parts}], system="sys")
    assert seen.all_text() == "sys\nin a document\nin a hologram"


def test_the_opening_stays_the_same_while_the_conversation_grows():
    first = {"role": "user", "content": [
        {"type": "text", "text": "<system-reminder>1</system-reminder>"},
        {"type": "text", "text": "q", "cache_control": {"type": "ephemeral"}}]}  # fmt: skip
    later = {"role": "user", "content": [{"type": "text", "text": "q"}]}
    tools = [{"name": "f", "input_schema": {}, "description": "d"}]
    one = see(
        "messages", messages=[first], tools=tools,
        system=[{"type": "text", "text": "x-anthropic-billing-header: 1"},
                {"type": "text", "text": "s"}],
    )  # fmt: skip
    two = see(
        "messages", messages=[later, {"role": "assistant", "content": "a"}, first], tools=tools,
        system=[{"type": "text", "text": "x-anthropic-billing-header: 2"},
                {"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}],
    )  # fmt: skip
    assert one.opening == two.opening
    assert see("messages", messages=[later], system="other").opening != one.opening


def test_the_user_of_anthropic_stands_in_its_metadata():
    assert see("messages", messages=[], metadata={"user_id": "u"}).user == "u"


def test_structured_output_is_seen_in_each_dialect():
    form = {"type": "json_schema", "schema": {}}
    assert see("messages", messages=[], output_config={"format": form}).wants_structured_output
    assert see("messages", messages=[], output_format=form).wants_structured_output
    assert see("responses", input="q", text={"format": form}).wants_structured_output
    assert not see(
        "responses", input="q", text={"format": {"type": "text"}}
    ).wants_structured_output
