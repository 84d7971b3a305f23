"""Gemini's format: requests out, answers in."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import Raw

from pointsman.errors import InputError
from pointsman.providers.dialects import gemini
from pointsman.providers.dialects.loss import CannotSay, CannotSayCode
from pointsman.providers.dialects.tap import tap
from pointsman.providers.dialects.whole import fold
from pointsman.providers.messages import (
    ChatMessage,
    Hint,
    Image,
    ModelRequest,
    OutputFormat,
    Response,
    Text,
    Thinking,
    ToolChoice,
    ToolResult,
    ToolSpec,
    ToolUse,
    Usage,
)
from pointsman.providers.streaming import AnswerBroken
from pointsman.testing.upstream_wire import events, whole

HI = ChatMessage("user", (Text("hi"),))
TOOL = ToolSpec("f", "", Raw(b'{"type":"object"}'), is_strict=True)


def written(request, model="gemini-2.5-pro"):
    found = gemini.write_request(request, model)
    return msgspec.json.decode(found.body), [each.what for each in found.lost]


def call(own_id, *before):
    return (*before, ToolUse(own_id, f"tool_{own_id}", Raw(b'{"a":1}')))


@pytest.mark.parametrize(
    ("model", "more", "config", "lost"),
    [
        ("gemini-2.5-pro", {"thinking_tokens": 99_999},
         {"thinkingBudget": 24_576, "includeThoughts": True}, []),
        ("gemini-2.5-flash", {"thinking_effort": "none"}, {"thinkingBudget": 0}, []),
        ("gemini-2.5-pro", {"thinking_effort": "none"}, None, ["thinking_off"]),
        ("gemini-3-pro", {"thinking_effort": "medium"},
         {"thinkingLevel": "high", "includeThoughts": True}, []),
        ("gemini-3-pro", {"thinking_effort": "minimal"},
         {"thinkingLevel": "low", "includeThoughts": True}, []),
        ("gemini-3-pro", {"thinking_effort": "none"}, None, ["thinking_off"]),
        ("gemini-2.0-flash", {"thinking_effort": "high"}, None, ["thinking_effort"]),
        ("gemini-2.0-flash", {"thinking_effort": "none"}, None, []),
    ],
)  # fmt: skip
def test_how_much_to_think_is_a_budget_for_2_5_and_a_level_since_3(model, more, config, lost):
    body, found = written(ModelRequest((HI,), **more), model)
    assert (body.get("generationConfig", {}).get("thinkingConfig"), found) == (config, lost)


def test_of_calls_side_by_side_the_first_is_signed_by_its_own_signature_or_as_one_of_others():
    own = Thinking("", "SIG", "gemini", "call")
    foreign = Thinking("hm", "S", "anthropic")
    for before, signature, lost in (
        (own, "SIG", []),
        (foreign, "skip_thought_signature_validator", ["thinking"]),
    ):
        told = ChatMessage("assistant", (*call("a", before), *call("b")))
        body, found = written(ModelRequest((HI, told)))
        parts = body["contents"][1]["parts"]
        assert [each.get("thoughtSignature") for each in parts] == [signature, None]
        assert found == lost


def test_results_of_one_step_make_one_message_by_the_names_of_their_calls():
    results = (
        ChatMessage("tool", (ToolResult("a", (Text("no"),), is_error=True),)),
        ChatMessage("tool", (ToolResult("b", (Text("x"), Image("base64", "AA==", "image/png"))),)),
    )
    said = ChatMessage("assistant", (*call("a"), *call("b")))
    body, lost = written(ModelRequest((HI, said, *results, HI)))
    assert [each["role"] for each in body["contents"]] == ["user", "model", "user"]
    failed, done, image, text = body["contents"][2]["parts"]
    assert failed == {"functionResponse": {"name": "tool_a", "response": {"error": "no"}}}
    assert done["functionResponse"] == {"name": "tool_b", "response": {"output": "x"}}
    assert (image["inlineData"]["mimeType"], text) == ("image/png", {"text": "hi"})
    assert lost == ["tool_image_place"]


@pytest.mark.parametrize(
    ("choice", "config", "lost"),
    [
        (ToolChoice("auto"), {"mode": "AUTO"}, []),
        (ToolChoice("any", is_parallel=False), {"mode": "ANY"}, ["tool_parallel"]),
        (ToolChoice("none"), {"mode": "NONE"}, []),
        (ToolChoice("tool", "f"), {"mode": "ANY", "allowedFunctionNames": ["f"]}, []),
    ],
)
def test_the_choice_of_tools_is_translated(choice, config, lost):
    body, found = written(ModelRequest((HI,), tools=(TOOL,), tool_choice=choice))
    assert body["toolConfig"] == {"functionCallingConfig": config}
    assert found == ["tool_options", *lost]


def test_what_gemini_has_no_place_for_is_listed():
    system = ChatMessage("system", (Text("later"),))
    output = OutputFormat("json_schema", "name", Raw(b"{}"))
    request = ModelRequest(
        (HI, system),
        system=(Text("first"),),
        user="u",
        output=output,
        hints=(Hint("top_k", Raw(b"3")), Hint("logit_bias", Raw(b'{"1":2}'))),
    )
    body, lost = written(request)
    assert body["systemInstruction"] == {"parts": [{"text": "first"}, {"text": "later"}]}
    assert body["generationConfig"]["topK"] == 3
    assert lost == ["system_place", "user", "logit_bias", "output_name"]


@pytest.mark.parametrize(
    ("url", "refusal"),
    [
        ("http://a.example/x.png", CannotSayCode.IMAGE_URL),
        ("https://a.example/x", CannotSayCode.IMAGE_TYPE),
        ("https://a.example/x.pdf", CannotSayCode.IMAGE_TYPE),
    ],
)
def test_an_image_by_an_address_needs_a_type(url, refusal):
    image = ChatMessage("user", (Image("url", url),))
    with pytest.raises(CannotSay) as caught:
        written(ModelRequest((image,)))
    assert caught.value.refusal == refusal


def test_an_image_by_its_address_is_carried_with_the_type_its_ending_tells():
    url = "https://a.example/x.jpg?size=3"
    body, _ = written(ModelRequest((ChatMessage("user", (Image("url", url),)),)))
    file = {"mimeType": "image/jpeg", "fileUri": url}
    assert body["contents"][0]["parts"] == [{"fileData": file}]


ANSWER = Response(
    "r1",
    (Thinking("hm"), Text("hello wörld"), *call("a"), *call("b")),
    "tool_use",
    Usage(10, 20, 5, 0, 8),
)
SIGNED = ("signed a", "signed b")


def check(found):
    assert (found.stop_reason, found.usage) == ("tool_use", ANSWER.usage)
    thinking, text, *pairs = found.content
    assert (thinking, text) == (Thinking("hm"), Text("hello wörld"))
    assert [each.signature for each in pairs[::2]] == [*SIGNED]
    assert {each.vendor for each in pairs[::2]} == {"gemini"}
    assert [each.name for each in pairs[1::2]] == ["tool_a", "tool_b"]
    assert len({each.id for each in pairs[1::2]}) == 2


def test_a_whole_answer_is_read():
    check(gemini.read_response(msgspec.json.encode(whole("gemini", ANSWER, "m"))))


@pytest.mark.parametrize("size", [1, 2, 7, 64, 100_000])
def test_a_stream_cut_anywhere_folds_into_the_whole_answer(size):
    stream = b"".join(events("gemini", ANSWER, "m", has_usage=True))
    reader, seen, found = gemini.stream_reader(), tap("gemini"), []
    for at in range(0, len(stream), size):
        found += reader.feed(stream[at : at + size])
        seen.feed(stream[at : at + size])
    seen.end()
    check(fold([*found, *reader.end()]))
    assert (seen.stop_reason, seen.usage, seen.has_content) == ("tool_use", ANSWER.usage, True)
    assert not seen.is_broken


def test_a_stream_that_ends_early_or_with_an_error_is_told_as_broken():
    pieces = events("gemini", ANSWER, "m", has_usage=True)
    reader = gemini.stream_reader()
    reader.feed(b"".join(pieces[:-1]))
    assert [each.code for each in reader.end()] == ["incomplete_stream"]
    reader = gemini.stream_reader()
    told = b'data: {"error":{"code":503,"message":"later","status":"UNAVAILABLE"}}\n\n'
    assert reader.feed(pieces[0] + told)[-1] == AnswerBroken("UNAVAILABLE", "later")
    assert reader.end() == []


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("STOP", "end"), ("MAX_TOKENS", "length"), ("SAFETY", "refusal"),
        ("PROHIBITED_CONTENT", "refusal"), ("MALFORMED_FUNCTION_CALL", "error"), ("NEW", "error"),
    ],
)  # fmt: skip
def test_the_reasons_to_stop(word, reason):
    content = {"parts": [{"text": "x"}]}
    body = {"candidates": [{"content": content, "finishReason": word}], "responseId": "r"}
    data = msgspec.json.encode(body)
    seen = tap("gemini")
    seen.feed(b"data: " + data + b"\n\n")
    assert gemini.read_response(data).stop_reason == reason == seen.stop_reason


def test_an_answer_without_a_candidate_or_a_reason_cannot_be_read():
    with pytest.raises(InputError):
        gemini.read_response(b'{"responseId":"r"}')


@pytest.mark.parametrize(
    "part", [{"inlineData": {"data": "AA=="}}, {"executableCode": {"code": "1"}}]
)
def test_parts_that_no_format_carries_are_refused(part):
    body = {"candidates": [{"content": {"parts": [part]}, "finishReason": "STOP"}]}
    with pytest.raises(CannotSay):
        gemini.read_response(msgspec.json.encode(body))
