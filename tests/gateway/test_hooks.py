"""Webhooks over a real port: taken, decided, and run in the gateway's process."""

from __future__ import annotations

import hashlib
import hmac
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2 as httpx
import pytest
from tests.gateway.house import Running, eventually, running, write_home

SENSOR = """
sensor:
  id: push
  type: webhook
  trigger: {secret: {env: HOOK_SECRET}, filter: "event.data.body.ref == 'main'"}
  target: {run: {shell: [sh, -c, "cat > pushed.json"]}}
"""
DEADLINE_S = 20


def _home(path: Path) -> Path:
    home = write_home(path / "home", pointsman={"workflow": {"commands": ["sh"]}})
    (home / "sensors").mkdir()
    (home / "sensors" / "push.yaml").write_text(SENSOR)
    (home / "workflows").mkdir()
    return home


def _post(
    gateway: Running, body: bytes, secret: str = "s3cret", name: str = "push"
) -> httpx.Response:
    signature = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return gateway.client.post(
        f"/hooks/{name}", content=body, headers={"x-hub-signature-256": signature}
    )


def _appears(folder: Path) -> str:
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        found = [path for path in folder.rglob("pushed.json") if path.stat().st_size]
        if found:
            return found[0].read_text()
        time.sleep(0.02)
    pytest.fail("the target did not run")


def test_a_signed_hook_is_taken_and_its_target_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_SECRET", "s3cret")
    home = _home(tmp_path)
    with running(home) as gateway:
        answer = _post(gateway, b'{"ref": "main"}')
        assert (answer.status_code, answer.json()) == (202, {"event": "push-1"})
        assert '"ref":"main"' in _appears(home)
        assert _post(gateway, b'{"ref": "dev"}').json() == {"event": None, "filtered": True}


def test_hooks_at_two_gateways_run_once_each_under_numbers_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_SECRET", "s3cret")
    home = _home(tmp_path)
    ran = tmp_path / "ran"
    text = SENSOR.replace("cat > pushed.json", f"cat >> {ran}; echo >> {ran}")
    (home / "sensors" / "push.yaml").write_text(text)
    with running(home) as one, running(home) as two, ThreadPoolExecutor(4) as senders:
        bodies = [b'{"ref": "main", "number": %d}' % number for number in range(8)]
        sent = [senders.submit(_post, (one, two)[at % 2], body) for at, body in enumerate(bodies)]
        events = sorted(each.result().json()["event"] for each in sent)
        assert events == [f"push-{number}" for number in range(1, 9)]
        eventually(lambda: ran.exists() and ran.read_text().count("main") >= 8)
    assert ran.read_text().count('"ref":"main"') == 8


def test_hooks_that_are_not_signed_or_not_known_are_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_SECRET", "s3cret")
    with running(_home(tmp_path)) as gateway:
        for refused in (_post(gateway, b"{}", "wrong"), _post(gateway, b"{}", name="other")):
            assert refused.status_code == 404
            assert refused.json()["error_code"] == "input.not_found"
        assert _post(gateway, b"{").status_code == 400
