"""An answer that came by fallback says so in its own text, if it is to, and breaks no client."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import anthropic
import openai
import pytest
from tests.gateway.conftest import Town
from tests.gateway.house import Running, Upstream, eventually, write_home

from pointsman.gateway.turns import forwarding
from pointsman.providers.messages import Text, Thinking
from pointsman.testing import answers, calls, fails, says
from pointsman.testing.upstream_replies import a_response

PATHS = {
    "chat": "/v1/chat/completions",
    "messages": "/v1/messages",
    "responses": "/v1/responses",
}
DOWN = [fails(500)] * 3
"""One call with its two retries."""
MODELS = {"open": "open:small", "claude": "claude:opus"}
ASKED = [{"role": "user", "content": "write code"}]
Told = tuple[str, str]
"""The words of an answer, and the model that failed."""


def notice(failed: str, answering: str) -> str:
    return f"[pointsman: {failed} failed (server_error); {answering} answers]\n\n"


class Village:
    """A gateway where one model fails and another answers."""

    def __init__(self, town: Town, live: Running) -> None:
        self.town = town
        self.live = live

    def upstream(self, name: str) -> Upstream:
        return self.town.openai if name == "open" else self.town.anthropic

    def set_points(self, answering: str) -> Told:
        """Let one of two models fail; give its name, and what is then said of it."""
        failing = "claude" if answering == "open" else "open"
        first, second = MODELS[failing], MODELS[answering]
        rule = {"name": "code", "when": {"estimated_input_tokens_gt": 0}, "use": first}
        routing = {"schema_version": 1, "global_default": second, "rules": [rule]}
        write_home(self.town.home, routing=routing)
        self.live.parts.pointsman.reload()
        self.upstream(failing).then(*DOWN)
        return first, notice(first, second)


@pytest.fixture
def village(town: Town, serve: Any) -> Village:
    write_home(town.home, pointsman={"fallback": {"mode": "on", "notice": "in_band"}})
    return Village(town, serve(town.home))


def body(dialect: str, is_stream: bool, **more: Any) -> dict[str, Any]:
    said: dict[str, Any] = (
        {"input": "write code"} if dialect == "responses" else {"messages": ASKED}
    )
    most = {"max_tokens": 50} if dialect == "messages" else {}
    return {"model": "auto", "stream": is_stream, **said, **most, **more}


@pytest.mark.parametrize("dialect", PATHS)
@pytest.mark.parametrize("is_stream", [False, True])
def test_in_the_same_format_every_other_byte_is_the_providers(
    village: Village, dialect: str, is_stream: bool
) -> None:
    name = "claude" if dialect == "messages" else "open"
    reply = answers(a_response(Thinking("hm", "c2lnbmVk", "anthropic"), Text("some words of mine")))
    failed, words = village.set_points(name)
    village.upstream(name).then(reply, reply)
    told = village.live.post(PATHS[dialect], body(dialect, is_stream))
    assert told.headers["x-pointsman-fallback-from"] == failed
    plain = village.live.post(PATHS[dialect], {**body(dialect, is_stream), "model": MODELS[name]})
    assert "x-pointsman-fallback-from" not in plain.headers
    written = json.dumps(words)[1:-1].encode()
    assert written in told.content
    assert told.content.replace(written, b"") == plain.content
    _, noticed, own = [each["spent"] for each in village.live.outcomes(3)]
    assert {**noticed, "at": own["at"]} == own
    assert village.live.kinds().count("decision.turn.fallback") == 1


def chat_words(live: Running, is_stream: bool) -> Told:
    with openai.OpenAI(base_url=f"{live.url}/v1", api_key="any", max_retries=0) as client:
        made = client.chat.completions
        if not is_stream:
            told = made.with_raw_response.create(model="auto", messages=ASKED)
            found = told.parse().choices[0].message.content
            return found, told.headers["x-pointsman-fallback-from"]
        with made.stream(model="auto", messages=ASKED) as stream:
            deltas = [each.delta for each in stream if each.type == "content.delta"]
            whole = stream.get_final_completion().choices[0].message
            headers = stream._response.headers
        assert "".join(deltas) == whole.content
        assert whole.role == "assistant"
        return whole.content or "", headers["x-pointsman-fallback-from"]


def responses_words(live: Running, is_stream: bool) -> Told:
    with openai.OpenAI(base_url=f"{live.url}/v1", api_key="any", max_retries=0) as client:
        if not is_stream:
            told = client.responses.with_raw_response.create(model="auto", input="write code")
            return told.parse().output_text, told.headers["x-pointsman-fallback-from"]
        with client.responses.stream(model="auto", input="write code") as stream:
            deltas = [each.delta for each in stream if each.type == "response.output_text.delta"]
            whole = stream.get_final_response().output_text
            headers = stream._response.headers
        assert "".join(deltas) == whole
        return whole, headers["x-pointsman-fallback-from"]


def messages_words(live: Running, is_stream: bool) -> Told:
    asked: dict[str, Any] = {"model": "auto", "max_tokens": 50, "messages": ASKED}
    with anthropic.Anthropic(base_url=live.url, api_key="any", max_retries=0) as client:
        if not is_stream:
            told = client.messages.with_raw_response.create(**asked)
            (block,) = told.parse().content
            return block.text, told.headers["x-pointsman-fallback-from"]
        with client.messages.stream(**asked) as stream:
            deltas = [*stream.text_stream]
            (block,) = stream.get_final_message().content
            headers = stream.response.headers
        assert "".join(deltas) == block.text
        return block.text, headers["x-pointsman-fallback-from"]


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("answering", MODELS)
@pytest.mark.parametrize("words_of", [chat_words, responses_words, messages_words])
def test_every_vendors_client_reads_the_notice_and_the_answer(
    village: Village, words_of: Callable[[Running, bool], Told], answering: str, is_stream: bool
) -> None:
    failed, words = village.set_points(answering)
    village.upstream(answering).then(says("the answer itself"))
    assert words_of(village.live, is_stream) == (f"{words}the answer itself", failed)


@pytest.mark.parametrize("dialect", PATHS)
@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("answering", MODELS)
def test_an_answer_that_only_calls_a_tool_says_it_in_a_header_alone(
    village: Village, dialect: str, is_stream: bool, answering: str
) -> None:
    failed, _ = village.set_points(answering)
    village.upstream(answering).then(calls(("look", {"at": "code"})))
    told = village.live.post(PATHS[dialect], body(dialect, is_stream))
    assert told.headers["x-pointsman-fallback-from"] == failed
    assert b"[pointsman" not in told.content
    assert b"look" in told.content


SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
FORM = {"type": "json_schema", "name": "f", "schema": SCHEMA}


@pytest.mark.parametrize(
    ("dialect", "more"),
    [
        ("chat", {"response_format": {
            "type": "json_schema", "json_schema": {"name": "f", "schema": SCHEMA}}}),
        ("responses", {"text": {"format": FORM}}),
        ("messages", {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}),
        ("chat", {"logprobs": True}),
        ("messages", {"messages": [*ASKED, {"role": "assistant", "content": "{"}]}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("is_stream", [False, True])
def test_what_a_program_reads_is_left_alone(
    village: Village, dialect: str, more: dict[str, Any], is_stream: bool
) -> None:
    name = "claude" if dialect == "messages" else "open"
    failed, _ = village.set_points(name)
    village.upstream(name).then(says('{"a":"b"}'))
    told = village.live.post(PATHS[dialect], {**body(dialect, is_stream), **more})
    assert told.headers["x-pointsman-fallback-from"] == failed
    assert b"[pointsman" not in told.content


def test_all_that_failed_are_named(town: Town, serve: Any) -> None:
    write_home(
        town.home,
        pointsman={"fallback": {"notice": "in_band"}},
        routing={
            "schema_version": 1,
            "global_default": "house:llama",
            "rules": [
                {"name": "a", "when": {"message_matches": "code"}, "use": "claude:opus"},
                {"name": "b", "when": {"message_matches": "cod"}, "use": "open:small"},
            ],
        },
    )
    town.anthropic.then(*DOWN)
    town.openai.then(fails(401, "authentication_error"))
    town.local.then(says("home"))
    said = serve(town.home).chat("write code").json()["choices"][0]["message"]["content"]
    assert said == (
        "[pointsman: claude:opus failed (server_error), open:small failed (auth);"
        " house:llama answers]\n\nhome"
    )


def test_a_judge_reads_only_what_the_model_said(town: Town, serve: Any) -> None:
    write_home(
        town.home,
        pointsman={
            "fallback": {"notice": "in_band"},
            "judge": {"model": "house:llama", "share": 1},
        },
    )
    village = Village(town, serve(town.home))
    village.set_points("open")
    town.openai.then(says("the answer itself"))
    assert "[pointsman" in village.live.chat("write code").text
    eventually(lambda: town.local.requests or None)
    assert "the answer itself" in town.local.texts()
    assert "[pointsman" not in town.local.texts()


@pytest.mark.parametrize("is_stream", [False, True])
def test_in_a_header_alone_is_the_default(
    town: Town, live: Running, monkeypatch: pytest.MonkeyPatch, is_stream: bool
) -> None:
    # Whatever would be put before an answer would fail here.
    monkeypatch.setattr(forwarding, "with_words_before", None)
    monkeypatch.setattr(forwarding, "WordsBefore", None)
    failed, _ = Village(town, live).set_points("open")
    town.openai.then(says("words"))
    told = live.chat("write code", stream=is_stream)
    assert told.headers["x-pointsman-fallback-from"] == failed
    assert "[pointsman" not in told.text


@pytest.mark.parametrize("is_stream", [False, True])
def test_an_answer_of_the_first_model_says_nothing(village: Village, is_stream: bool) -> None:
    told = village.live.chat("hello", stream=is_stream)
    assert told.status_code == 200
    assert "[pointsman" not in told.text
