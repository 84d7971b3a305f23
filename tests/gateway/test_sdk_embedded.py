"""Both vendors' SDKs on the local model of the package: real tokens, no key, no network."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import anthropic
import openai
import pytest
from tests.gateway.house import Running, running, write_home

from pointsman.kernel.record import read_recorded

pytestmark = pytest.mark.slow
ASKED = [{"role": "user", "content": "What is the capital of Germany?"}]
STORY = [{"role": "user", "content": "Tell me a long story about a railway."}]


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A home without any file."""
    with running(write_home(tmp_path_factory.mktemp("embedded") / "home")) as found:
        yield found


@pytest.fixture
def of_openai(live: Running) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{live.url}/v1", api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture
def of_anthropic(live: Running) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=live.url, api_key="none", max_retries=0) as client:
        yield client


def test_openai_plain(of_openai: openai.OpenAI) -> None:
    made = of_openai.chat.completions.create(
        model="auto", messages=ASKED, max_tokens=20, temperature=0
    )
    assert "Berlin" in (made.choices[0].message.content or "")
    assert made.model == "embedded:smollm2-135m"
    assert made.usage is not None
    assert made.usage.completion_tokens > 0


def test_openai_streamed(of_openai: openai.OpenAI) -> None:
    with of_openai.chat.completions.create(
        model="local", messages=ASKED, max_tokens=20, temperature=0, stream=True
    ) as stream:
        text = "".join(each.choices[0].delta.content or "" for each in stream if each.choices)
    assert "Berlin" in text


def test_openai_responses(of_openai: openai.OpenAI) -> None:
    made = of_openai.responses.create(
        model="auto", input=ASKED[0]["content"], max_output_tokens=20, temperature=0
    )
    assert "Berlin" in made.output_text


def test_anthropic_plain_and_streamed(of_anthropic: anthropic.Anthropic) -> None:
    cold = {"temperature": 0}
    asked = {"model": "auto", "messages": ASKED, "max_tokens": 20, "extra_body": cold}
    made = of_anthropic.messages.create(**asked)
    assert "Berlin" in made.content[0].text
    assert made.usage.output_tokens > 0
    with of_anthropic.messages.stream(**asked) as stream:
        assert "Berlin" in "".join(stream.text_stream)


def test_a_caller_who_hangs_up_frees_the_model(live: Running, of_openai: openai.OpenAI) -> None:
    # Ends of calls are written a moment after their answers; a turn that was refused has none.
    decided = [read_recorded(each.payload)[1] for each in live.entries("decision.turn")]
    called = [each for each in decided if json.loads(bytes(each.outcome))["chosen_model"]]
    before = len(live.outcomes(len(called)))
    with of_openai.chat.completions.create(
        model="auto", messages=STORY, max_tokens=900, stream=True
    ) as stream:
        next(each for each in stream if each.choices and each.choices[0].delta.content)
    assert live.outcomes(before + 1)[-1]["error_class"] == "cancelled"
    made = of_openai.chat.completions.create(model="auto", messages=ASKED, max_tokens=5)
    assert made.choices[0].message.content


def test_a_prompt_past_its_context_is_refused_and_says_what_to_do(
    of_openai: openai.OpenAI, of_anthropic: anthropic.Anthropic
) -> None:
    long = [{"role": "user", "content": "one two three four five " * 2000}]
    with pytest.raises(openai.APIStatusError, match="2048") as caught:
        of_openai.chat.completions.create(model="auto", messages=long)
    assert caught.value.status_code in (400, 413, 503)
    with pytest.raises(anthropic.APIStatusError, match="2048"):
        of_anthropic.messages.create(model="auto", messages=long, max_tokens=9)


def test_what_it_cannot_do_is_said(of_openai: openai.OpenAI) -> None:
    tools = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
    with pytest.raises(openai.APIStatusError, match="cannot call tools"):
        of_openai.chat.completions.create(model="auto", messages=ASKED, tools=tools)


def test_everything_replays(live: Running, tmp_path: Path) -> None:
    report = live.post("/api/replay", {}).json()
    assert (report["diverged"], report["unable"]) == (0, 0)
