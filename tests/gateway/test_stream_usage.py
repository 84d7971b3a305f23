"""What a streamed chat answer used is known exactly, whether or not its caller asks for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import openai
import pytest
from tests.gateway.conftest import Town
from tests.gateway.house import Running, chat_text, streamed, write_home

from pointsman.gateway.turns import forwarding
from pointsman.providers.messages import Text, Usage
from pointsman.testing import fails, says
from pointsman.testing.upstream_replies import (
    LAST_CHUNK,
    STREAM_HEAD,
    Received,
    SendBytes,
    Step,
    a_response,
    answer_events,
    chunk,
    stream_answer,
)
from pointsman.testing.upstream_wire import events

SAID = a_response(Text("one two three four"), usage=Usage(120, 34))
BODY = (
    b'{ "stream":true,"messages":[{"role":"user", "content":"h\\u00e9llo"}] ,"model": "open:big" }'
)
OPTION = b',"stream_options":{"include_usage":true}'


@pytest.fixture
def asking(town: Town, serve: Any) -> Running:
    """A gateway that asks one provider what its streams use."""
    silent = {**town.models["providers"]["house"], "stream_usage": "as_asked"}
    providers = {**town.models["providers"], "house": silent}
    write_home(town.home, models={**town.models, "providers": providers})
    return serve(town.home)


def sent(body: bytes) -> bytes:
    """What a provider gets for a body."""
    return body.replace(b'"open:big"', b'"big"')


def in_bits(request: Received) -> Sequence[Step]:
    """Answer in pieces that end anywhere."""
    whole = b"".join(answer_events(request, SAID))
    bits = [whole[at : at + 7] for at in range(0, len(whole), 7)]
    return [
        SendBytes(STREAM_HEAD),
        *(SendBytes(chunk(each)) for each in bits),
        SendBytes(LAST_CHUNK),
    ]


def at_once(request: Received) -> Sequence[Step]:
    return [SendBytes(stream_answer([b"".join(answer_events(request, SAID))]))]


def silent(_request: Received) -> Sequence[Step]:
    """Answer as a provider does that does not know the option."""
    return [SendBytes(stream_answer(events("chat", SAID, "big", has_usage=False)))]


def spent(live: Running) -> dict[str, Any]:
    (end,) = live.outcomes(1)
    found: dict[str, Any] = end["spent"]
    return found


@pytest.mark.parametrize("reply", [in_bits, at_once])
def test_a_caller_who_did_not_ask_is_charged_exactly_and_sees_no_chunk_of_it(
    town: Town, asking: Running, reply: Any
) -> None:
    town.openai.then(reply)
    told = asking.post("/v1/chat/completions", BODY)
    wanted = events("chat", SAID, "big", has_usage=True)
    assert told.content == b"".join([each for each in wanted if b'"choices":[]' not in each])
    assert len(wanted) == told.content.count(b"data:") + 1
    assert town.openai.requests[0].body == sent(BODY).removesuffix(b"}") + OPTION + b"}"
    charged = spent(asking)
    assert (charged["input_tokens"], charged["output_tokens"]) == (120, 34)
    assert charged["cost_microusd"] == 154
    assert not charged["is_estimated"]


def test_a_caller_who_asked_gets_every_byte(town: Town, asking: Running) -> None:
    body = BODY.removesuffix(b"}") + b',"stream_options":{"include_usage": true}}'
    town.openai.then(in_bits)
    told = asking.post("/v1/chat/completions", body)
    assert town.openai.requests[0].body == sent(body)
    assert told.content == b"".join(events("chat", SAID, "big", has_usage=True))
    assert streamed(told)[-1]["usage"]["completion_tokens"] == 34
    assert not spent(asking)["is_estimated"]


def test_options_of_the_caller_are_kept(town: Town, asking: Running) -> None:
    asking.chat(model="open:big", stream=True, stream_options={"include_obfuscation": False})
    options = town.openai.requests[0].json["stream_options"]
    assert options == {"include_usage": True, "include_obfuscation": False}
    assert not spent(asking)["is_estimated"]


def test_openais_own_client_finds_a_choice_in_every_chunk(town: Town, asking: Running) -> None:
    town.openai.then(at_once)
    with (
        openai.OpenAI(base_url=f"{asking.url}/v1", api_key="any", max_retries=0) as client,
        client.chat.completions.create(
            model="open:big", messages=[{"role": "user", "content": "hi"}], stream=True
        ) as stream,
    ):
        chunks = list(stream)
    assert "".join(each.choices[0].delta.content or "" for each in chunks) == "one two three four"
    assert not any(each.usage for each in chunks)
    assert not spent(asking)["is_estimated"]


def test_a_provider_that_does_not_know_the_option_is_charged_by_estimate(
    town: Town, asking: Running
) -> None:
    town.openai.then(silent)
    told = asking.post("/v1/chat/completions", BODY)
    assert told.content == b"".join(events("chat", SAID, "big", has_usage=False))
    assert spent(asking)["is_estimated"]


def test_each_provider_is_asked_by_its_own_setting_after_a_fallback_too(
    town: Town, asking: Running
) -> None:
    rule = {"name": "code", "when": {"message_matches": "code"}, "use": "house:llama"}
    routing = {"schema_version": 1, "global_default": "open:small", "rules": [rule]}
    write_home(town.home, routing=routing)
    asking.parts.pointsman.reload()
    town.local.then(*[fails(500)] * 3)
    town.openai.then(says("here"))
    told = asking.chat("code", stream=True)
    assert told.headers["x-pointsman-fallback-from"] == "house:llama"
    assert "stream_options" not in town.local.texts()
    assert "stream_options" in town.openai.texts()
    assert chat_text(streamed(told)) == "here"
    assert [each["spent"] and each["spent"]["is_estimated"] for each in asking.outcomes(2)] == [
        None,
        False,
    ]


@pytest.mark.parametrize("is_asking", [False, True])
def test_whole_answers_and_other_formats_are_asked_nothing(
    town: Town, asking: Running, monkeypatch: pytest.MonkeyPatch, is_asking: bool
) -> None:
    # Whatever would be done for a stream that is asked would fail here.
    monkeypatch.setattr(forwarding, "asking_usage", None)
    monkeypatch.setattr(forwarding, "UnaskedUsage", None)
    model = "open:big" if is_asking else "house:llama"
    assert asking.chat(model=model).status_code == 200
    body = {"model": model, "input": "hi", "stream": True}
    assert asking.post("/v1/responses", body).status_code == 200
    assert "stream_options" not in town.openai.texts() + town.local.texts()


def test_with_as_asked_nothing_is_asked(
    town: Town, serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    towards = {**town.models["providers"]["open"], "stream_usage": "as_asked"}
    providers = {**town.models["providers"], "open": towards}
    write_home(town.home, models={**town.models, "providers": providers})
    live = serve(town.home)
    monkeypatch.setattr(forwarding, "asking_usage", None)
    monkeypatch.setattr(forwarding, "UnaskedUsage", None)
    monkeypatch.setattr(forwarding, "EditedStream", None)
    town.openai.then(in_bits)
    told = live.post("/v1/chat/completions", BODY)
    assert town.openai.requests[0].body == sent(BODY)
    assert told.content == b"".join(events("chat", SAID, "big", has_usage=False))
    assert spent(live)["is_estimated"]
