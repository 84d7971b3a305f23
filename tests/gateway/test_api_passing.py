"""Embeddings and completions: passed through to the model that is named, decided and recorded."""

from __future__ import annotations

from collections.abc import Iterator

import openai
import pytest
from tests.gateway.house import (
    Running,
    Upstream,
    model,
    provider,
    running,
    upstream,
    write_home,
)
from tests.gateway.town import ADMIN, anything

from pointsman.testing.upstream_replies import fails


@pytest.fixture
def street(tmp_path) -> Iterator[tuple[Running, Upstream]]:
    with upstream(otherwise=anything) as open_, upstream() as claude:
        models = {
            "schema_version": 1,
            "providers": {
                "open": provider("openai", open_.url),
                "claude": provider("anthropic", claude.url),
            },
            "models": {
                "open:embed": model(aliases=["embed"]),
                "open:words": model(),
                "claude:opus": model(),
            },
        }
        routing = {"schema_version": 1, "global_default": "open:words"}
        home = write_home(tmp_path / "home", models=models, routing=routing)
        with running(home) as live:
            yield live, open_


def test_the_openai_sdk_embeds_and_completes(street: tuple[Running, Upstream]) -> None:
    live, upstream_ = street
    client = openai.OpenAI(base_url=f"{live.url}/v1", api_key="none", max_retries=0)
    found = client.embeddings.create(model="embed", input=["one", "two"], encoding_format="float")
    assert found.data[0].embedding == [0.25, -0.5]
    said = client.completions.create(model="open:words", prompt="hello", max_tokens=5)
    assert said.choices[0].text == " there"
    pieces = [*client.completions.create(model="open:words", prompt="hello", stream=True)]
    assert [each.choices[0].text for each in pieces] == [" there"]
    assert [each.json["model"] for each in upstream_.requests] == ["embed", "words", "words"]
    assert [each.path for each in upstream_.requests] == [
        "/v1/embeddings",
        "/v1/completions",
        "/v1/completions",
    ]
    ends = live.outcomes(3)
    assert [each["spent"]["input_tokens"] for each in ends] == [5, 5, 5]
    assert live.kinds().count("decision.turn") == 3
    client.close()


def test_bytes_pass_unchanged_but_for_the_models_name(street: tuple[Running, Upstream]) -> None:
    live, upstream_ = street
    body = b'{"model": "embed", "input": "@llama one",  "dimensions": 3.0, "more": {"b":1}}'
    answer = live.post("/v1/embeddings", body)
    assert answer.status_code == 200
    assert upstream_.requests[0].body == body.replace(b'"model": "embed"', b'"model": "embed"')
    assert answer.headers["x-pointsman-policy"] == "manual_sticky"
    assert answer.headers["x-pointsman-model"] == "open:embed"


@pytest.mark.parametrize(
    ("path", "body", "status", "told"),
    [
        ("/v1/embeddings", {"model": "auto", "input": "x"}, 400, "must be named"),
        ("/v1/embeddings", {"model": "nobody", "input": "x"}, 404, "not known"),
        ("/v1/embeddings", {"model": "embed"}, 400, "`input` is missing"),
        ("/v1/embeddings", {"input": "x"}, 400, "model"),
        ("/v1/completions", {"model": "claude:opus", "prompt": "x"}, 400, "has no `completions`"),
        ("/v1/embeddings", {"model": "embedded:smollm2-135m", "input": "x"}, 400, "has no"),
    ],
)
def test_what_cannot_be_passed_on_is_refused(
    street: tuple[Running, Upstream], path: str, body: object, status: int, told: str
) -> None:
    live, upstream_ = street
    answer = live.post(path, body)
    assert answer.status_code == status
    assert told in answer.json()["error"]["message"]
    assert upstream_.requests == []


def test_every_veto_applies_and_nobody_takes_over(street: tuple[Running, Upstream]) -> None:
    live, upstream_ = street
    body = {"model": "embed", "input": "x"}
    private = live.post("/v1/embeddings", body, x_pointsman_privacy="local")
    assert private.status_code == 403
    given = {"name": "k", "scopes": ["models"], "allowed_models": ["open:words"]}
    key = live.post("/api/keys", given, **ADMIN).json()["key"]
    denied = live.post("/v1/embeddings", body, authorization=f"Bearer {key}")
    assert denied.status_code == 403
    live.post("/api/budgets", {"name": "none", "limit_usd": 0}, **ADMIN)
    dear = {**body, "input": "another text, for the first one must stay"}
    assert live.post("/v1/embeddings", dear, **ADMIN).status_code == 402
    assert upstream_.requests == []
    assert live.kinds().count("decision.turn") == 3


def test_a_provider_that_fails_is_told_in_openais_shape(street: tuple[Running, Upstream]) -> None:
    live, upstream_ = street
    upstream_.then(*[fails(500)] * 3)
    answer = live.post("/v1/embeddings", {"model": "embed", "input": "x"})
    assert answer.status_code == 502
    assert answer.json()["error"]["type"] == "server_error"
    assert live.outcomes(1)[0]["error_class"] == "server_error"
