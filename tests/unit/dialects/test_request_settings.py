"""Settings of a request between dialects: reasoning, limits, sampling and hints."""

import pytest
from msgspec import Raw
from msgspec.structs import replace
from tests.unit.dialects.asking import ask, read, user, written

from pointsman.providers.messages import (
    ChatMessage,
    RedactedThinking,
    Text,
    Thinking,
    ToolChoice,
    ToolResult,
    ToolSpec,
    ToolUse,
)
from pointsman.providers.registry.dialects import speaker


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
    result = ChatMessage("tool", (ToolResult("c", (Text("r"),)),))
    step = ask(user("q"), ChatMessage("assistant", (call,)), result, thinking_effort="high")
    assert written("messages", step)[1] == {"thinking_with_tool"}
    assert written("messages", step, "claude-opus-4-8")[1] == set()
    own = ChatMessage("assistant", (Thinking("t", "s", "anthropic"), call))
    assert written("messages", replace(step, messages=(user("q"), own, result)))[1] == set()
    tool = ToolSpec("f", "", Raw(b'{"type":"object"}'))
    forced = ask(tools=(tool,), tool_choice=ToolChoice("any"), thinking_effort="high")
    assert written("messages", forced)[1] == {"thinking_with_tool"}


def test_reasoning_goes_back_only_to_the_vendor_that_wrote_it():
    own = Thinking("t", "sig", "anthropic")
    other = Thinking("t", "enc", "openai", "rs_1")
    unsigned = Thinking("t")
    request = ask(
        user("q"),
        ChatMessage("assistant", (own, other, unsigned, RedactedThinking("x"), Text("a"))),
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
