"""Webhooks, served by an HTTP surface at `POST /hooks/{name}`. Independent of any framework.

A hook is answered once its event is on disk; its targets run when `work` is called after that.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from pointsman.errors import DocumentError, InputError
from pointsman.expressions.values import Value
from pointsman.kernel.document import DocumentLimits
from pointsman.kernel.json_text import read_json
from pointsman.sensors.event import Observation
from pointsman.sensors.sensors import SensorService
from pointsman.storage.policies.sensor_file import Sensor

SIGNATURE = "x-hub-signature-256"
MOST_BODY = 256 * 1024

_LIMITS = DocumentLimits(bytes=MOST_BODY, depth=40, nodes=20_000)
_SHOWN = ("content-type", "user-agent", "x-github-event", "x-gitlab-event", "x-event-type")
"""Headers that decisions may look at; others may hold secrets."""


class HookAnswer(Struct, frozen=True):
    """A status, a JSON value, and the work left once it was sent."""

    status: int
    value: dict[str, object]
    work: Callable[[], object] | None = None


def receive_hook(
    service: SensorService, name: str, headers: Mapping[str, str], body: bytes
) -> HookAnswer:
    """Receive one hook. A caller that cannot sign learns only that there is no such hook."""
    found = [each for each in service.files.current().sensors if each.id == name]
    sensor = next((each for each in found if each.type == "webhook"), None)
    if sensor is None or not sensor.enabled or not _is_signed(sensor, service.home, headers, body):
        return HookAnswer(404, {"error": "there is no such hook, or its signature is missing"})
    if len(body) > MOST_BODY:
        return HookAnswer(413, {"error": f"the body is larger than {MOST_BODY} bytes"})
    try:
        event = service.offer(sensor, Observation("webhook", _data(headers, body)))
    except DocumentError as error:
        return HookAnswer(400, {"error": error.message})
    except InputError as error:
        return HookAnswer(409, {"error": error.message})
    if event is None:
        return HookAnswer(200, {"event": None, "filtered": True})
    return HookAnswer(202, {"event": event.name}, lambda: service.work(sensor))


def _data(headers: Mapping[str, str], body: bytes) -> dict[str, Value]:
    shown: dict[str, Value] = {name: headers[name] for name in _SHOWN if name in headers}
    value = read_json(body, "the body", _LIMITS).value if body else None
    return {"method": "POST", "headers": shown, "body": value}


def _is_signed(sensor: Sensor, home: Path, headers: Mapping[str, str], body: bytes) -> bool:
    """Tell whether the sensor's secret signed the body; one without a secret accepts nothing."""
    secret = _secret(sensor, home)
    if not secret:
        return False
    wanted = "sha256=" + hmac.new(secret, body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(wanted.encode(), headers.get(SIGNATURE, "").encode())


def _secret(sensor: Sensor, home: Path) -> bytes:
    ref = sensor.trigger.secret
    if ref is None:
        return b""
    if ref.env:
        return os.environ.get(ref.env, "").encode()
    try:
        return (home / Path(ref.file).expanduser()).read_bytes().strip()
    except OSError:
        return b""
