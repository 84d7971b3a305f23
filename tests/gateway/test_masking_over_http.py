"""Values leave under placeholders, and the caller's answer holds them again."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.gateway.conftest import Town
from tests.gateway.house import Running, chat_text, eventually, keeps, streamed, write_home
from tests.gateway.shadows import routing as shadow_routing

from pointsman.app import Pointsman
from pointsman.cli.main import main
from pointsman.errors import MissingSnapshot
from pointsman.kernel.content import Sealed
from pointsman.kernel.record import read_recorded
from pointsman.placement.facts import FACTS_FORM, Masking, PlacementFacts
from pointsman.storage.home import open_home
from pointsman.storage.stores.entries import ContentReader, LedgerReader
from pointsman.testing import calls, fails, says
from pointsman.testing.upstream_replies import Received, Step

MAIL = "ann.lee@example.com"
SECRET = "AKIAIOSFODNN7EXAMPLQ"
WORD = re.compile(r"EMAIL_[A-Z2-7]{10}")
Serve = Callable[[Path], Running]


def masks(*kinds: str, stays: Sequence[str] = ("secret",)) -> dict[str, object]:
    return keeps(*stays, mask=list(kinds))


def echoes(request: Received) -> Sequence[Step]:
    """Answer with the placeholder that stands in the request."""
    return says(f"I wrote to {WORD.findall(request.body.decode())[-1]}, as you asked")(request)


def uses_tool(request: Received) -> Sequence[Step]:
    """Ask for a tool with the placeholder that stands in the request."""
    word = WORD.findall(request.body.decode())[-1]
    return calls(("send", {"to": [word], "note": f"for {word}"}))(request)


def placements(live: Running) -> list[PlacementFacts]:
    """Give the facts of all recorded placements."""
    with closing(LedgerReader(open_home(live.home).database)) as reader:
        found = [*reader.of_kind("decision.placement")]
        return [FACTS_FORM.decode(reader.attachments(each)[0]) for each in found]


@pytest.fixture
def masked(town: Town) -> Town:
    """Personal data leaves masked, secrets stay."""
    write_home(town.home, placement=masks("pii"))
    return town


CHAT = {"messages": [{"role": "user", "content": f"write to {MAIL}"}]}
MESSAGES = {**CHAT, "max_tokens": 100}
RESPONSES = {"input": f"write to {MAIL}"}
WAYS = {
    "chat": ("/v1/chat/completions", CHAT),
    "messages": ("/v1/messages", MESSAGES),
    "responses": ("/v1/responses", RESPONSES),
}


@pytest.mark.parametrize("model", ["open:big", "claude:opus"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("is_stream", [False, True])
def test_an_answer_holds_the_values_and_the_request_does_not(
    masked: Town, serve: Serve, way: str, model: str, is_stream: bool
) -> None:
    masked.openai.then(echoes)
    masked.anthropic.then(echoes)
    live = serve(masked.home)
    path, body = WAYS[way]
    told = live.post(path, {**body, "model": model, "stream": is_stream})
    assert told.status_code == 200
    assert told.headers["x-pointsman-model"] == model
    assert f"I wrote to {MAIL}, as you asked" in _said(way, told, is_stream=is_stream)
    assert not WORD.search(told.text)
    assert MAIL not in masked.openai.texts() + masked.anthropic.texts()
    assert WORD.search(masked.openai.texts() + masked.anthropic.texts())


def _said(way: str, told: Any, *, is_stream: bool) -> str:
    if not is_stream:
        return str(told.text)
    events = streamed(told)
    if way == "chat":
        return chat_text(events)
    if way == "messages":
        return "".join(each.get("delta", {}).get("text", "") for each in events)
    texts = [each for each in events if each["type"] == "response.output_text.delta"]
    return "".join(each["delta"] for each in texts)


@pytest.mark.parametrize("is_stream", [False, True])
def test_a_tool_is_called_with_the_values_and_its_result_is_masked(
    masked: Town, serve: Serve, is_stream: bool
) -> None:
    masked.openai.then(uses_tool, echoes)
    live = serve(masked.home)
    body = {**CHAT, "model": "open:big", "stream": is_stream}
    told = live.post("/v1/chat/completions", body)
    call = _call(told, is_stream=is_stream)
    assert json.loads(call["function"]["arguments"]) == {"to": [MAIL], "note": f"for {MAIL}"}
    history = [
        *CHAT["messages"],
        {"role": "assistant", "tool_calls": [{**call, "type": "function"}]},
        {"role": "tool", "tool_call_id": call["id"], "content": f"sent to {MAIL}"},
    ]
    again = live.post("/v1/chat/completions", {"model": "open:big", "messages": history})
    assert again.headers["x-pointsman-policy"] == "turn_lock"
    assert MAIL in again.text
    assert MAIL not in masked.openai.texts()
    # One value, one placeholder, in all requests of the session.
    assert len(set(WORD.findall(masked.openai.texts()))) == 1


def _call(told: Any, *, is_stream: bool) -> dict[str, Any]:
    if not is_stream:
        found: dict[str, Any] = told.json()["choices"][0]["message"]["tool_calls"][0]
        return found
    call: dict[str, Any] = {"id": "", "function": {"name": "", "arguments": ""}}
    for event in streamed(told):
        for choice in event.get("choices", []):
            for part in choice["delta"].get("tool_calls", []):
                call["id"] += part.get("id") or ""
                call["function"]["name"] += part["function"].get("name") or ""
                call["function"]["arguments"] += part["function"].get("arguments") or ""
    return call


def test_the_record_says_how_much_was_masked_and_never_what(masked: Town, serve: Serve) -> None:
    masked.openai.then(echoes)
    live = serve(masked.home)
    told = live.chat(f"write to {MAIL} and bob@example.com")
    (facts,) = placements(live)
    assert isinstance(facts.masking, Masking)
    assert [(each.kind, each.count) for each in facts.masking.kinds] == [("pii.email", 2)]
    assert all(MAIL.encode() not in each.payload for each in live.entries())
    turn = told.headers["x-pointsman-turn"]
    done = CliRunner().invoke(main, ["why", turn, "--home", str(live.home)])
    assert "Masked: 2 pii.email, where it leaves" in " ".join(done.output.split())
    home = open_home(live.home)
    with closing(ContentReader(home.content, home.content_key())) as reader:
        kept = reader.text(_sealed(facts))
        assert sorted(json.loads(kept).values()) == [MAIL, "bob@example.com"]
    body = {"what": "turn", "value": turn}
    assert live.post("/api/erase", body, authorization=f"Bearer {live.admin}").status_code == 200
    with (
        closing(ContentReader(home.content, home.content_key())) as reader,
        pytest.raises(MissingSnapshot),
    ):
        reader.text(_sealed(facts))


def _sealed(facts: PlacementFacts) -> Sealed:
    assert isinstance(facts.masking, Masking)
    assert isinstance(facts.masking.values, Sealed)
    return facts.masking.values


def test_a_local_model_is_asked_in_plain_words(masked: Town, serve: Serve) -> None:
    masked.local.then(says("done"))
    live = serve(masked.home)
    assert live.chat(f"write to {MAIL}", model="house:llama").status_code == 200
    assert MAIL in masked.local.texts()


def test_a_fallback_to_the_cloud_is_masked_as_well(masked: Town, serve: Serve) -> None:
    write_home(
        masked.home,
        routing={"schema_version": 1, "global_default": ["house:llama", "claude:opus"]},
    )
    masked.local.then(fails(500), fails(500), fails(500))
    masked.anthropic.then(echoes)
    live = serve(masked.home)
    told = live.chat(f"write to {MAIL}")
    assert told.headers["x-pointsman-model"] == "claude:opus"
    assert MAIL in told.text
    assert MAIL not in masked.anthropic.texts()


IMAGE = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
STAYING: dict[str, list[dict[str, Any]]] = {
    "a kind that stays": [{"role": "user", "content": f"{MAIL} has the key {SECRET}"}],
    "a picture": [{"role": "user", "content": [{"type": "text", "text": MAIL}, IMAGE]}],
    "a name": [{"role": "user", "name": MAIL, "content": "hello"}],
}


@pytest.mark.parametrize("why", STAYING)
def test_what_cannot_be_masked_stays(masked: Town, serve: Serve, why: str) -> None:
    write_home(
        masked.home, routing={"schema_version": 1, "global_default": ["open:big", "house:llama"]}
    )
    masked.local.then(says("here"))
    live = serve(masked.home)
    told = live.post("/v1/chat/completions", {"model": "auto", "messages": STAYING[why]})
    assert told.headers["x-pointsman-model"] == "house:llama"
    assert not masked.openai.requests


def test_a_long_request_is_looked_through_once_more(masked: Town, serve: Serve) -> None:
    masked.openai.then(echoes)
    live = serve(masked.home)
    filler = [{"role": "user", "content": f"line {n} " + "of much talk " * 40} for n in range(60)]
    history = [*CHAT["messages"], *filler, {"role": "user", "content": f"and again {MAIL}"}]
    told = live.post("/v1/chat/completions", {"model": "open:big", "messages": history})
    assert told.status_code == 200
    assert MAIL in told.text
    assert MAIL not in masked.openai.texts()
    (facts,) = placements(live)
    assert isinstance(facts.masking, Masking)
    assert [(each.kind, each.count) for each in facts.masking.kinds] == [("pii.email", 2)]


def test_an_embedding_is_never_masked_and_stays(masked: Town, serve: Serve) -> None:
    live = serve(masked.home)
    told = live.post("/v1/embeddings", {"model": "open:big", "input": f"write to {MAIL}"})
    assert told.status_code == 403
    assert not masked.openai.requests


def test_a_shadow_run_and_its_judge_see_placeholders(town: Town, serve: Serve) -> None:
    write_home(
        town.home,
        placement=masks("pii"),
        routing=shadow_routing(),
        pointsman={"judge": {"model": "claude:opus", "share": 1}},
    )
    town.openai.then(echoes)
    town.anthropic.then(echoes, says("3"), says("3"))
    live = serve(town.home)
    assert MAIL in live.chat(f"write to {MAIL}").text
    eventually(lambda: len(town.anthropic.requests) >= 2)
    assert MAIL not in town.anthropic.texts()
    assert WORD.search(town.anthropic.texts())


def test_the_next_turn_of_a_masked_session_is_free(masked: Town, serve: Serve) -> None:
    masked.openai.then(echoes, says("fine"))
    live = serve(masked.home)
    named = {"x-session-id": "s-1"}
    live.chat(f"write to {MAIL}", headers=named)
    told = live.chat("and now?", headers=named)
    assert told.headers["x-pointsman-model"] == "open:big"
    assert not live.entries("event.placement.tainted")


def test_masked_decisions_replay(masked: Town, serve: Serve) -> None:
    masked.openai.then(echoes)
    live = serve(masked.home)
    live.chat(f"write to {MAIL}")
    live.outcomes(1)
    with Pointsman(live.home, writer="reader") as pointsman:
        assert pointsman.replay_all().diverged == 0
    assert all(read_recorded(each.payload) for each in live.entries("decision."))
