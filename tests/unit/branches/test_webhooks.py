"""Webhooks: signed, known and taken once."""

import hashlib
import hmac
from pathlib import Path
from typing import Any

import pytest
from tests.unit.branches.watched_home import House

from pointsman.sensors.webhooks import receive_hook


@pytest.fixture
def house(tmp_path: Path) -> Any:
    made = House(tmp_path / "home")
    yield made
    made.pointsman.close()


HOOK = """
sensor:
  id: push
  type: webhook
  trigger: {secret: {env: HOOK_SECRET}, filter: "event.data.body.ref == 'main'"}
  target: {run: {shell: [sh, -c, "cat > pushed.json"]}}
"""


class TestWebhooks:
    """What an HTTP surface mounts."""

    def hook(self, house: House, body: bytes, secret: str = "s3cret", name: str = "push") -> Any:
        signature = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
        headers = {"x-hub-signature-256": signature, "authorization": "Bearer x"}
        return receive_hook(house.service, name, headers, body)

    def test_a_signed_hook_is_taken_and_its_target_runs_afterwards(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOOK_SECRET", "s3cret")
        house.sensor(HOOK)
        answer = self.hook(house, b'{"ref": "main", "n": 0.1}')
        assert (answer.status, answer.value) == (202, {"event": "push-1"})
        house.service.tick()
        assert house.heard == [], "hooks belong to the process that takes them"
        answer.work()
        assert house.said() == [("push-1", "push", "done")]
        self.hook(house, b'{"ref": "main", "n": 0.2}')
        house.service.tick(hooks=True)
        assert house.said()[1:] == [("push-2", "push", "done")]
        seen = (house.path / "pushed.json").read_text()
        assert '"n":0.2' in seen
        assert "Bearer" not in seen

    def test_the_same_hook_delivered_twice_runs_once_within_an_hour(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOOK_SECRET", "s3cret")
        house.sensor(HOOK)
        for seconds in (0, 3599, 3600):
            house.clock.advance(seconds=seconds)
            self.hook(house, b'{"ref": "main"}').work()
        assert len(house.heard) == 2

    def test_hooks_that_are_not_signed_not_known_or_not_json_are_refused(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        house.sensor(HOOK)
        assert self.hook(house, b"{}", "").status == 404, "a missing secret signs nothing"
        monkeypatch.setenv("HOOK_SECRET", "s3cret")
        assert self.hook(house, b"{}", "wrong").status == 404
        assert self.hook(house, b"{}", name="other").status == 404
        assert self.hook(house, b"{").status == 400
        assert self.hook(house, b" " * 300_000).status == 413
        assert self.hook(house, b'{"ref": "dev"}').value == {"event": None, "filtered": True}
        assert house.service.states.load("push").pending == []
