"""A service by its name, behind the gateway: one home, the callers' three formats."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.gateway.house import Running, Upstream, model, running, upstream, write_home

from pointsman.testing.upstream_replies import SendBytes, does, stream_answer

USED = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}


def chunk(**more: object) -> bytes:
    value = {"id": "c1", "object": "chat.completion.chunk", **more}
    return b"data: " + msgspec.json.encode(value) + b"\n\n"


MISTRAL = does(
    SendBytes(
        stream_answer(
            [
                chunk(choices=[{"index": 0, "delta": {"content": "hi"}, "finish_reason": None}]),
                chunk(choices=[{"index": 0, "delta": {}, "finish_reason": "stop"}], usage=USED),
                b"data: [DONE]\n\n",
            ]
        )
    )
)


@pytest.fixture
def mistral(tmp_path: Path) -> Iterator[tuple[Upstream, Running]]:
    with upstream(otherwise=MISTRAL) as server:
        home = write_home(
            tmp_path / "home",
            models={
                "schema_version": 1,
                "providers": {"eu": {"kind": "mistral", "base_url": f"{server.url}/v1"}},
                "models": {"eu:mistral-large-latest": model()},
            },
        )
        with running(home) as live:
            yield server, live


@pytest.mark.parametrize(
    ("path", "more"),
    [
        ("/v1/chat/completions", {"max_completion_tokens": 50, "seed": 3}),
        ("/v1/messages", {"max_tokens": 50}),
    ],
)
def test_mistral_gets_what_it_takes_and_its_stream_is_charged_exactly(
    mistral: tuple[Upstream, Running], path: str, more: dict[str, object]
) -> None:
    server, live = mistral
    body = {"model": "eu:mistral-large-latest", "stream": True, **more}
    answer = live.post(path, {**body, "messages": [{"role": "user", "content": "hello"}]})
    assert (answer.status_code, "hi" in answer.text) == (200, True)
    (sent,) = server.requests
    known = {"model", "stream", "messages", "max_tokens", "random_seed"}
    assert (sent.json["max_tokens"], sent.json.keys() - known) == (50, set())
    (end,) = live.outcomes(1)
    spent = end["spent"]
    assert (spent["input_tokens"], spent["output_tokens"]) == (9, 2)
    assert not spent["is_estimated"]
