"""Secrets in every slot that takes one: none is found in anything the gateway writes or says."""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import httpx2 as httpx
import pytest
from tests.gateway.house import Upstream, eventually, model, provider, upstream, write_home

from pointsman.testing import FAULTS, fails, says

SLOTS = ("env", "env-two", "file", "header", "query", "admin", "caller", "basic", "key", "cookie")
CANARIES = {name: f"canary-{hashlib.sha256(name.encode()).hexdigest()[:32]}" for name in SLOTS}
SLICE = 12


def shapes(secret: str) -> Iterator[bytes]:
    """Give a secret as it could be written: plain, reversed, in hex, base64 and an address."""
    plain = secret.encode()
    yield from (plain, plain[::-1], plain.hex().encode(), quote(secret).encode())
    yield base64.b64encode(plain).rstrip(b"=")[:-2]
    tail = secret[-SLICE:].encode()
    yield from (tail, tail[::-1])


def found_in(data: bytes, secrets: dict[str, str]) -> list[str]:
    return [name for name, secret in secrets.items() if any(s in data for s in shapes(secret))]


class Served:
    """A gateway in a process of its own, with everything it says."""

    def __init__(self, home: Path, log: Path) -> None:
        self._log = log.open("wb")
        environment = {
            **os.environ,
            "POINTSMAN_ADMIN_TOKEN": CANARIES["admin"],
            "CANARY_KEY": CANARIES["env"],
            "CANARY_KEY_TWO": CANARIES["env-two"],
        }
        self.process = subprocess.Popen(
            [str(Path(sys.executable).with_name("pointsman")), "serve", "--port", "0",
             "--home", str(home)],
            stdout=self._log, stderr=subprocess.STDOUT, env=environment,
        )  # fmt: skip
        self.url = eventually(lambda: self._address(log), seconds=20)

    def _address(self, log: Path) -> str:
        assert self.process.poll() is None, log.read_text()
        words = log.read_text().split()
        return next((each for each in words if each.startswith("http://127.0.0.1:")), "")

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(20)
        self._log.close()


def write_canaries(home: Path, openai: Upstream, anthropic: Upstream) -> None:
    write_home(home)
    key_file = home / "provider.key"
    key_file.write_text(CANARIES["file"])
    key_file.chmod(0o600)
    keys = [{"env": "CANARY_KEY"}, {"env": "CANARY_KEY_TWO"}]
    write_home(
        home,
        models={
            "schema_version": 1,
            "providers": {
                "open": provider(
                    "openai",
                    openai.url,
                    api_key=keys,
                    headers={"x-extra": CANARIES["header"]},
                    query={"code": CANARIES["query"]},
                ),
                "claude": provider("anthropic", anthropic.url, api_key={"file": "provider.key"}),
                "down": provider("openai", "http://127.0.0.1:9", api_key=keys[0]),
            },
            "models": {"open:m": model(), "claude:m": model(), "down:m": model()},
        },
        routing={"schema_version": 1, "global_default": "open:m"},
    )


def asked(client: httpx.Client, token: str) -> Iterator[httpx.Response]:
    """Ask for everything that works and everything that does not."""
    body = {"model": "open:m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
    given = [
        {"authorization": f"Bearer {CANARIES['caller']}"},
        {"authorization": f"Basic {CANARIES['basic']}"},
        {"x-api-key": CANARIES["key"]},
        {"authorization": f"Bearer {token}", "cookie": f"session={CANARIES['cookie']}"},
    ]
    for headers in given:
        for path in ("/v1/chat/completions", "/v1/messages", "/v1/responses"):
            for name in ("open:m", "claude:m", "down:m", "nobody:m"):
                for is_stream in (False, True):
                    asked_for = {**body, "model": name, "input": "hi", "stream": is_stream}
                    yield client.post(path, json=asked_for, headers=headers)
        yield client.post("/v1/chat/completions", content=b"{", headers=headers)
        for path in ("/api/turns", "/metrics", "/api/cost", "/api/keys", "/api/providers",
                     "/health/readiness", "/v1/models", "/api/policies/models.yaml"):  # fmt: skip
            yield client.get(path, headers=headers)
    admin = {"authorization": f"Bearer {CANARIES['admin']}"}
    for path in ("/api/keys", "/metrics", "/api/turns?limit=1000"):
        yield client.get(path, headers=admin)


FAULTY = ["unauthorized", "forbidden", "error_object", "html", "reset_mid_body", "redirect",
          "malformed_json", "two_lengths", "rate_limit"]  # fmt: skip


def echoes(request):
    """A provider that answers a bad key by showing it."""
    shown = f"{request.header('authorization')} {request.header('x-api-key')}"
    return fails(401, "authentication_error", f"incorrect API key provided: {shown}")(request)


@pytest.mark.slow
def test_no_secret_is_in_anything_that_is_written_or_said(tmp_path: Path) -> None:
    home, log = tmp_path / "home", tmp_path / "log"
    with upstream() as openai, upstream() as anthropic:
        write_canaries(home, openai, anthropic)
        served = Served(home, log)
        said = bytearray()
        try:
            admin = {"authorization": f"Bearer {CANARIES['admin']}"}
            with httpx.Client(base_url=served.url, trust_env=False, timeout=60) as client:
                made = client.post("/api/keys", json={"name": "ci"}, headers=admin).json()
                for side in (openai, anthropic):
                    side.then(says("fine"), echoes, echoes, says("fine"), echoes, echoes)
                    side.then(*(FAULTS[name].reply for name in FAULTY))
                for told in asked(client, made["key"]):
                    said += str(told.status_code).encode() + str(told.headers).encode()
                    said += told.content
        finally:
            served.stop()
    secrets = {**CANARIES, "virtual": made["key"].rpartition("_")[2]}
    assert openai.requests
    assert CANARIES["env"] in str(openai.requests), "the slots were in use"
    assert CANARIES["file"] in str(anthropic.requests)
    assert found_in(bytes(said), secrets) == []
    assert found_in(log.read_bytes(), secrets) == []
    assert CANARIES["header"] in str(openai.requests)
    assert CANARIES["query"] in str(openai.requests)
    given = {home / "provider.key", home / "models.yaml", *home.glob("last-good/*")}
    for path in home.rglob("*"):
        if path.is_file() and path not in given:
            assert found_in(path.read_bytes(), secrets) == [], path
