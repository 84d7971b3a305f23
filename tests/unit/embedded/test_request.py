import msgspec
import pytest

from pointsman.providers.embedded.request import engine_body, overflow, surely_overflows
from pointsman.providers.port import Outgoing, UpstreamError

HELLO = [{"role": "user", "content": "hello"}]


def asked(*, is_stream=False, **fields):
    body = msgspec.json.encode({"model": "smollm2-135m", "messages": HELLO, **fields})
    outgoing = Outgoing("chat", "smollm2-135m", body, is_stream)
    return msgspec.json.decode(engine_body(outgoing, max_output_tokens=1024))


def refusal(**fields):
    with pytest.raises(UpstreamError) as caught:
        asked(**fields)
    assert caught.value.error_class == "invalid_request"
    assert caught.value.status == 400
    return caught.value.message


def test_a_plain_request_gets_a_bound_on_its_answer():
    assert asked() == {
        "messages": HELLO, "max_tokens": 1024, "stream": False, "cache_prompt": True,
    }  # fmt: skip


def test_what_the_caller_asks_for_is_passed_on():
    body = asked(
        is_stream=True, max_tokens=7, temperature=0.5, top_p=0.25, stop="END", seed=3,
        presence_penalty=1, frequency_penalty=-1, stream_options={"include_usage": True},
    )  # fmt: skip
    assert body == {
        "messages": HELLO, "max_tokens": 7, "stream": True, "cache_prompt": False,
        "temperature": 0.5, "top_p": 0.25, "stop": ["END"], "seed": 3, "presence_penalty": 1.0,
        "frequency_penalty": -1.0, "stream_options": {"include_usage": True},
    }  # fmt: skip


def test_the_newer_name_for_the_bound_wins():
    assert asked(max_tokens=5, max_completion_tokens=6)["max_tokens"] == 6


def test_empty_stops_are_left_out():
    assert asked(stop=["", "a"])["stop"] == ["a"]


def test_seeds_of_any_size_are_taken_and_none_of_them_means_chance():
    assert asked(seed=2**32 - 1)["seed"] == 0
    assert asked(seed=-1)["seed"] == 2**32 - 2
    assert asked(seed=2**62)["seed"] < 2**32 - 1


def test_whoever_wants_the_same_answer_again_gets_the_same_computation():
    assert asked(temperature=0)["cache_prompt"] is False
    assert asked(temperature=0.1)["cache_prompt"] is True


def test_parts_of_text_are_joined_and_developers_speak_as_the_system():
    messages = [
        {"role": "developer", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
        {"role": "assistant", "content": None},
    ]
    assert asked(messages=messages)["messages"] == [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "ab"},
        {"role": "assistant", "content": "no"},
        {"role": "assistant", "content": ""},
    ]


def test_schemas_reach_the_engine_as_they_were_written():
    wanted = {"type": "json_schema", "json_schema": {"schema": {"type": "object", "x": [1]}}}
    assert asked(response_format=wanted)["response_format"] == wanted
    wanted = {"type": "json_object"}
    assert asked(response_format=wanted)["response_format"] == wanted


def test_tools_and_what_came_of_them_are_refused():
    assert "tools" in refusal(tools=[{"type": "function"}])
    assert "tool calls" in refusal(messages=[{"role": "tool", "content": "x", "tool_call_id": "1"}])
    assert "tool calls" in refusal(messages=[{"role": "assistant", "tool_calls": [{"id": "1"}]}])
    assert asked(tools=[])["max_tokens"] == 1024


def test_pictures_are_refused_by_name():
    part = {"type": "image_url", "image_url": {"url": "data:"}}
    assert "`image_url`" in refusal(messages=[{"role": "user", "content": [part]}])


@pytest.mark.parametrize(
    "fields",
    [
        {"n": 2}, {"logit_bias": {"1": 5}}, {"modalities": ["text", "audio"]}, {"messages": []},
        {"max_tokens": 0}, {"max_tokens": -1}, {"temperature": 3}, {"top_p": 2}, {"stop": 5},
        {"messages": [{"role": "king", "content": "x"}]}, {"response_format": {"type": "xml"}},
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_refused(fields):
    assert refusal(**fields)


def test_what_is_no_json_is_refused():
    with pytest.raises(UpstreamError, match="no chat completion"):
        engine_body(Outgoing("chat", "m", b"{", is_stream=False), max_output_tokens=1)


def test_a_prompt_too_long_is_told_with_both_numbers_and_what_to_do():
    error = overflow(3031, 2048)
    assert error.error_class == "context_overflow"
    for word in ("3031", "2048", "models.yaml", "kind: embedded", "path", "cloud model"):
        assert word in error.message
    assert "more than 2048" in overflow(None, 2048).message


def test_only_what_no_vocabulary_could_fit_is_refused_uncounted():
    assert surely_overflows(b"x" * (2048 * 256 + 1), 2048)
    assert not surely_overflows(b"x" * (2048 * 256), 2048)
