"""Vertex behind the gateway: Gemini and Claude of one project, with a service account."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from google.auth import crypt, jwt
from google.oauth2.service_account import Credentials
from tests.gateway.house import (
    Running,
    Upstream,
    breaks_off,
    model,
    running,
    upstream,
    write_home,
)

from pointsman.providers.logins.google import ServiceAccount, signed_claim
from pointsman.providers.messages import Text, Usage
from pointsman.testing.upstream_replies import (
    SendBytes,
    a_response,
    answers,
    calls,
    does,
    fails,
    grants,
    plain,
)

ANSWER = a_response(Text("hello from vertex"), usage=Usage(100, 30, 60))
GEMINI, CLAUDE = "v:gemini-2.5-flash", "v:claude-sonnet-4-5@20250929"
PATHS = ("/v1/chat/completions", "/v1/messages", "/v1/responses")
PLACE = "/v1/projects/my-project/locations/europe-west1/publishers"
TOOL = {"type": "object", "properties": {"city": {"type": "string"}}}
PIXEL = "iVBORw0KGgo="


@pytest.fixture(scope="module")
def account() -> tuple[dict[str, str], bytes]:
    """A service account as Google hands it out, and its public key."""
    key = generate_private_key(65537, 2048)
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return {
        "type": "service_account", "private_key": private.decode(), "private_key_id": "k-1",
        "client_email": "caller@my-project.iam.gserviceaccount.com",
        "token_uri": "https://oauth2.googleapis.com/token",
    }, public  # fmt: skip


Parts = tuple[Upstream, Upstream, Running]


@pytest.fixture
def parts(tmp_path: Path, account: tuple[dict[str, str], bytes]) -> Iterator[Parts]:
    with ExitStack() as stack:
        server = stack.enter_context(upstream(otherwise=answers(ANSWER)))
        google = stack.enter_context(upstream(otherwise=grants("ya29.one")))
        home = tmp_path / "home"
        home.mkdir(mode=0o700)
        (home / "account.json").write_text(json.dumps(account[0]))
        login = {"service_account": {"file": "account.json"}, "token_url": f"{google.url}/token"}
        provider = {
            "kind": "vertex", "region": "europe-west1", "project": "my-project",
            "base_url": server.url, "login": login,
        }  # fmt: skip
        models = {
            "schema_version": 1,
            "providers": {"v": provider},
            "models": {GEMINI: model(), CLAUDE: model()},
        }
        yield server, google, stack.enter_context(running(write_home(home, models=models)))


def asked(path: str, name: str, **more: Any) -> dict[str, Any]:
    if path == "/v1/responses":
        return {"model": name, "input": "hi", **more}
    limit = {"max_tokens": 500} if path == "/v1/messages" else {}
    return {"model": name, "messages": [{"role": "user", "content": "hi"}], **limit, **more}


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", [GEMINI, CLAUDE])
def test_an_answer_reaches_callers_of_each_format_and_is_charged_exactly(
    parts: Parts, name: str, path: str, is_stream: bool
) -> None:
    server, google, live = parts
    answer = live.post(path, asked(path, name, stream=is_stream))
    assert answer.status_code == 200, answer.text
    assert "hello fr" in answer.text
    (sent,) = server.requests
    if name == GEMINI:
        verb = "streamGenerateContent?alt=sse" if is_stream else "generateContent"
        assert sent.target == f"{PLACE}/google/models/gemini-2.5-flash:{verb}"
    else:
        verb = "streamRawPredict" if is_stream else "rawPredict"
        assert sent.target == f"{PLACE}/anthropic/models/claude-sonnet-4-5@20250929:{verb}"
        assert "model" not in sent.json
        assert sent.json["anthropic_version"] == "vertex-2023-10-16"
        assert sent.json.get("stream", False) is is_stream
    assert sent.header("authorization") == "Bearer ya29.one"
    assert len(google.requests) == 1
    spent = live.outcomes(1)[0]["spent"]
    told = (spent["input_tokens"], spent["output_tokens"], spent["cached_input_tokens"])
    assert (told, spent["is_estimated"]) == ((100, 30, 60), False)


def test_a_claim_is_one_that_googles_library_takes_and_would_make(
    parts: Parts, account: tuple[dict[str, str], bytes]
) -> None:
    _, google, live = parts
    assert live.chat(model=GEMINI).status_code == 200
    form = parse_qs(google.requests[0].body.decode())
    assert form["grant_type"] == ["urn:ietf:params:oauth:grant-type:jwt-bearer"]
    audience = f"{google.url}/token"
    found = jwt.decode(form["assertion"][0], certs=account[1], audience=audience)
    own = Credentials.from_service_account_info(
        {**account[0], "token_uri": audience},
        scopes=["https://www.googleapis.com/auth/cloud-platform"],
    )
    theirs = own._make_authorization_grant_assertion()
    names = ("iss", "scope", "aud")
    wanted = jwt.decode(theirs, certs=account[1], verify=False)
    assert {name: found[name] for name in names} == {
        **{name: wanted[name] for name in names}, "aud": audience,
    }  # fmt: skip
    assert jwt.decode_header(form["assertion"][0]) == jwt.decode_header(theirs)


def test_a_claim_is_signed_as_googles_signer_does(account: tuple[dict[str, str], bytes]) -> None:
    info = account[0]
    own = ServiceAccount(info["client_email"], info["private_key"], "k-1")
    claim = signed_claim(own, "https://a", "s", int(time.time()))
    assert claim is not None
    message, _, signature = claim.rpartition(".")
    signer = crypt.RSASigner.from_string(info["private_key"], "k-1")
    theirs = base64.urlsafe_b64encode(signer.sign(message.encode())).rstrip(b"=").decode()
    assert signature == theirs


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "is missing"),
        ("{}", "is no file of a service account"),
        (json.dumps({"client_email": "a", "private_key": "x"}), "holds no RSA key"),
    ],
)
def test_an_account_that_cannot_be_used_is_told(parts: Parts, text: str | None, words: str) -> None:
    server, _, live = parts
    path = live.home / "account.json"
    # The file is there when the turn is decided, and cannot be used when the call is made.
    path.write_text("x" * 20_000 if text is None else text)
    answer = live.chat(model=GEMINI)
    assert (answer.status_code, server.requests) == (503, [])
    assert words in answer.text


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", [GEMINI, CLAUDE])
def test_tools_and_images_are_carried(parts: Parts, name: str, path: str) -> None:
    server, _, live = parts
    server.then(calls(("weather", {"city": "Oslo"})))
    address = f"data:image/png;base64,{PIXEL}"
    picture: dict[str, Any] = {"type": "image_url", "image_url": {"url": address}}
    tool: dict[str, Any] = {"type": "function",
                            "function": {"name": "weather", "parameters": TOOL}}  # fmt: skip
    if path == PATHS[1]:
        source = {"type": "base64", "media_type": "image/png", "data": PIXEL}
        picture = {"type": "image", "source": source}
        tool = {"name": "weather", "input_schema": TOOL}
    if path == PATHS[2]:
        picture = {"type": "input_image", "image_url": address}
        tool = {"type": "function", "name": "weather", "parameters": TOOL}
    key = "input" if path == PATHS[2] else "messages"
    said = {key: [{"role": "user", "content": [picture]}]}
    answer = live.post(path, asked(path, name, **said, tools=[tool]))
    assert "Oslo" in answer.text
    sent = server.requests[0].body
    assert PIXEL.encode() in sent
    assert b"weather" in sent
    assert live.outcomes(1)[0]["stop_reason"] == "tool_use"


def test_what_a_caller_asks_of_anthropics_beta_passes(parts: Parts) -> None:
    server, _, live = parts
    live.post(PATHS[1], asked(PATHS[1], CLAUDE), anthropic_beta="context-1m-2025-08-07")
    assert server.requests[0].header("anthropic-beta") == "context-1m-2025-08-07"
    assert server.requests[0].header("anthropic-version") is None


@pytest.mark.parametrize("name", [GEMINI, CLAUDE])
@pytest.mark.parametrize(
    ("status", "word", "wanted"),
    [
        (401, "UNAUTHENTICATED", (502, "auth")),
        (403, "PERMISSION_DENIED", (502, "auth")),
        (429, "RESOURCE_EXHAUSTED", (429, "rate_limit")),
        (503, "UNAVAILABLE", (502, "server_error")),
    ],
)
def test_an_error_has_its_class(
    parts: Parts, name: str, status: int, word: str, wanted: tuple[int, str]
) -> None:
    server, _, live = parts
    body = {"error": {"code": status, "message": "no", "status": word}}
    server.then(*[does(SendBytes(plain(json.dumps(body).encode(), status)))] * 3)
    answer = live.chat(model=name)
    assert (answer.status_code, live.outcomes(1)[0]["error_class"]) == wanted


def test_a_token_that_is_called_back_is_fetched_anew(parts: Parts) -> None:
    server, google, live = parts
    assert live.chat(model=CLAUDE).status_code == 200
    google.then(grants("ya29.two"))
    server.then(fails(401))
    assert live.chat(model=CLAUDE).status_code == 200
    assert server.requests[-1].header("authorization") == "Bearer ya29.two"


@pytest.mark.parametrize("name", [GEMINI, CLAUDE])
@pytest.mark.parametrize("ending", ["reset", "close", "end"])
def test_a_cut_stream_is_told_as_cut_and_charged(parts: Parts, name: str, ending: str) -> None:
    server, _, live = parts
    server.then(breaks_off("one two three four five six", ending))
    answer = live.post(PATHS[0], asked(PATHS[0], name, stream=True))
    assert "one two" in answer.text
    (end,) = live.outcomes(1)
    assert end["error_class"] == "network"
