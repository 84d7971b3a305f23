"""`api_key: {from: caller}`: each caller's own login goes to its provider, and nowhere else."""

import json
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from tests.gateway.conftest import Town
from tests.gateway.house import Running, model, provider, running, upstream, write_home
from tests.gateway.test_admin_is_not_root import put
from tests.gateway.test_keys_over_http import made
from tests.gateway.test_other_endpoints import FORM, GOOD, anything

from pointsman.errors import DocumentError
from pointsman.testing import fails, says
from pointsman.turns.registry.models import read_models

LOGIN = "oauth-canary-7f3a91"
CALL = {"model": "auto", "max_tokens": 9, "messages": [{"role": "user", "content": "hello"}]}
CALLERS = {"from": "caller"}


def home_with(path: Path, claude: str, open_url: str = "", **more: Any) -> Path:
    providers = {"claude": provider("anthropic", claude, api_key=CALLERS)}
    models = {"claude:opus": model(aliases=["opus"])}
    if open_url:
        providers["open"] = provider("openai", open_url)
        models["open:big"] = model()
    return write_home(
        path,
        models={"schema_version": 1, "providers": providers, "models": models},
        routing={"schema_version": 1, "global_default": ["claude:opus", *list(models)[1:]], **more},
    )


def ask(live: Running, path: str = "/v1/messages", **headers: str) -> httpx.Response:
    return live.client.post(path, json=CALL, headers=headers)


def sent(request: Any) -> dict[str, str]:
    return {name.lower(): value for name, value in dict(request.headers).items()}


def test_a_callers_login_reaches_its_provider_as_it_came(tmp_path: Path) -> None:
    with upstream(otherwise=says("hi")) as side, running(home_with(tmp_path, side.url)) as live:
        assert ask(live, authorization=f"Bearer {LOGIN}").status_code == 200
        assert ask(live, **{"x-api-key": LOGIN}).status_code == 200
        first, second = (sent(each) for each in side.requests)
        assert first["authorization"] == f"Bearer {LOGIN}"
        assert "x-api-key" not in first
        assert second["x-api-key"] == LOGIN
        assert "authorization" not in second
        streamed = live.client.post(
            "/v1/messages",
            json={**CALL, "stream": True},
            headers={"authorization": f"Bearer {LOGIN}2"},
        )
        assert streamed.status_code == 200
        assert sent(side.requests[2])["authorization"] == f"Bearer {LOGIN}2"
    for file in tmp_path.rglob("*"):
        assert not file.is_file() or LOGIN.encode() not in file.read_bytes(), file


def test_a_call_without_a_login_is_401_and_no_outage(tmp_path: Path) -> None:
    with upstream(otherwise=says("hi")) as side, running(home_with(tmp_path, side.url)) as live:
        for _ in range(4):
            refused = ask(live)
            assert refused.status_code == 401
            assert "x-pointsman-key" in refused.text
        assert ask(live, **{"x-api-key": LOGIN}).status_code == 200
        assert len(side.requests) == 1


def test_a_login_that_is_refused_is_told_and_no_outage(tmp_path: Path) -> None:
    for status, kind in ((401, "authentication_error"), (429, "rate_limit_error")):
        with upstream(otherwise=fails(status, kind)) as side:
            home = home_with(tmp_path / str(status), side.url)
            with running(home) as live:
                for _ in range(3):
                    assert ask(live, **{"x-api-key": LOGIN}).status_code == status
                assert "unavailable" not in live.get("/api/providers").text


def test_a_login_goes_to_no_provider_of_another_format(tmp_path: Path) -> None:
    with upstream(otherwise=says("hi")) as claude, upstream(otherwise=says("hi")) as other:
        home = home_with(tmp_path, claude.url, other.url)
        with running(home) as live:
            # The caller speaks OpenAI's format: what it carries is no login of Anthropic's.
            got = ask(live, "/v1/chat/completions", authorization=f"Bearer {LOGIN}")
            assert got.status_code == 200
            assert got.headers["x-pointsman-model"] == "open:big"
    assert not claude.requests
    assert LOGIN not in str([sent(each) for each in other.requests])


def test_a_key_of_this_gateway_is_never_passed_on(tmp_path: Path) -> None:
    with upstream(otherwise=says("hi")) as side, running(home_with(tmp_path, side.url)) as live:
        key = made(live)["authorization"].removeprefix("Bearer ")
        assert ask(live, authorization=f"Bearer {LOGIN}").status_code == 401
        assert ask(live, authorization=f"Bearer {key}").status_code == 401
        both = {"x-pointsman-key": key, "authorization": f"Bearer {LOGIN}"}
        assert ask(live, **both).status_code == 200
        assert ask(live, **{"x-pointsman-key": key, "x-api-key": key}).status_code == 401
        assert [sent(each)["authorization"] for each in side.requests] == [f"Bearer {LOGIN}"]
        assert "x-pointsman-key" not in sent(side.requests[0])


@pytest.mark.parametrize(
    ("providers", "problem"),
    [
        ({"a": {"kind": "anthropic", "api_key": [CALLERS]}}, "stands alone"),
        ({"a": {"kind": "anthropic", "api_key": {"from": "caller", "env": "X"}}}, "neither"),
        ({"a": {"kind": "gemini", "api_key": CALLERS}}, "takes no login"),
        (
            {
                "a": {"kind": "openai", "api_key": CALLERS},
                "b": {"kind": "groq", "api_key": CALLERS},
            },
            "it is `a`'s",
        ),
    ],
)
def test_files_that_would_send_a_login_astray_are_refused(
    providers: dict[str, Any], problem: str
) -> None:
    text = json.dumps({"schema_version": 1, "providers": providers}).encode()
    with pytest.raises(DocumentError, match=problem):
        read_models(text, "models.yaml")


def test_a_policy_set_over_http_may_not_ask_for_callers_logins(town: Town) -> None:
    with running(town.home) as live:
        told = put(live, town, {"from": "caller"})
        assert told.status_code == 400
        assert "callers' own logins" in told.text


def test_a_form_keeps_its_type_beside_a_callers_login(tmp_path: Path) -> None:
    with upstream(otherwise=anything) as side:
        home = write_home(
            tmp_path,
            models={
                "schema_version": 1,
                "providers": {"open": provider("openai", side.url, api_key=CALLERS)},
                "models": {"open:whisper": model(aliases=["whisper"])},
            },
            routing={"schema_version": 1, "global_default": "open:whisper"},
        )
        with running(home) as live:
            told = live.post(
                "/v1/audio/transcriptions", GOOD, **FORM, authorization=f"Bearer {LOGIN}"
            )
            assert told.status_code == 200
        (request,) = side.requests
        assert sent(request)["content-type"] == FORM["content_type"]
        assert sent(request)["authorization"] == f"Bearer {LOGIN}"
