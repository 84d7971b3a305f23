"""Detectors of an operator's own: their answers are facts, and a failure keeps the turn here."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.gateway.conftest import Town
from tests.gateway.house import keeps, running, write_home

from pointsman import Pointsman
from pointsman.errors import DocumentError
from pointsman.recording.own_detectors import OwnDetectors
from pointsman.storage.policies.detector_settings import DetectorSettings
from pointsman.storage.policies.settings import read_settings


class Service:
    """An HTTP service that finds the word Alba, or answers what a test says."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.status, self.body = 200, b""
        self.waits = threading.Event()
        self.waits.set()
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                size = int(self.headers["content-length"])
                text = json.loads(self.rfile.read(size))["text"]
                service.asked.append(text)
                service.waits.wait(10)
                at = text.find("Alba")
                found = [{"kind": "codename", "start": at, "end": at + 4}] if at >= 0 else []
                body = service.body or json.dumps({"findings": found}).encode()
                self.send_response(service.status)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_words: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/detect"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.waits.set()
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def service() -> Iterator[Service]:
    made = Service()
    yield made
    made.close()


def asks(service: Service, **more: Any) -> DetectorSettings:
    return DetectorSettings(name="house", url=service.url, **more)


def home_of(town: Town, service: Service) -> None:
    write_home(
        town.home,
        placement=keeps("own.codename"),
        routing={"schema_version": 1, "global_default": ["open:big"]},
        pointsman={"privacy": {"detectors": [{"name": "house", "url": service.url}]}},
    )


def test_what_a_service_finds_keeps_a_turn_here_and_is_a_fact(town: Town, service: Service) -> None:
    home_of(town, service)
    with running(town.home) as live:
        told = live.chat("what is next in Alba?")
        assert (told.status_code, told.headers["x-pointsman-model"]) == (200, "house:llama")
        assert live.chat("what is next in spring?", session="other").status_code == 200
    assert len(town.openai.requests) == 1
    assert "Alba" not in town.openai.texts()
    with Pointsman(town.home, writer="reader") as reader:
        assert reader.replay_all().is_clean, "replay asks no detector"
        assert len(service.asked) == 2


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (500, b"{}"),
        (302, b"{}"),
        (200, b"nonsense"),
        (200, b'{"findings": [{"kind": "x", "start": 5, "end": 5000}]}'),
        (200, b'{"findings": [{"kind": "Not A Kind", "start": 0, "end": 1}]}'),
        (200, b'{"found": []}'),
    ],
)
def test_an_answer_that_cannot_be_used_keeps_the_turn_here(
    town: Town, service: Service, status: int, body: bytes
) -> None:
    home_of(town, service)
    service.status, service.body = status, body
    with running(town.home) as live:
        assert live.chat("hello").headers["x-pointsman-model"] == "house:llama"
        service.status, service.body = 200, b""
        assert live.chat("hello", session="new").headers["x-pointsman-model"] == "open:big"
    assert len(town.openai.requests) == 1


def test_other_turns_go_on_while_a_service_takes_its_time(town: Town, service: Service) -> None:
    home_of(town, service)
    with running(town.home) as live:
        service.waits.clear()
        asked = threading.Thread(target=live.chat, args=("slow one",))
        asked.start()
        while not service.asked:
            assert live.get("/health").status_code == 200
        assert live.get("/health").status_code == 200
        service.waits.set()
        asked.join()


def test_a_python_function_is_asked_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    made = ModuleType("acme_detector")
    made.find = lambda text: [{"kind": "shout", "start": 0, "end": len(text)}]  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "acme_detector", made)
    own = OwnDetectors([DetectorSettings(name="acme", python="acme_detector:find", version="2")])
    assert own.names == "acme/2"
    ((name, hit),) = own.find("HELLO").hits
    assert (name, hit.kind, hit.start, hit.end) == ("acme", "shout", 0, 5)
    made.find = lambda _text: 1 / 0  # type: ignore[attr-defined]
    assert own.find("OTHER").has_failed
    assert not own.find("HELLO").has_failed, "an answer is remembered"
    gone = OwnDetectors([DetectorSettings(name="gone", python="no_such_module:find")])
    assert gone.find("x").has_failed
    for each in (own, gone):
        each.close()


def test_a_detector_past_its_time_has_failed_and_is_asked_anew(service: Service) -> None:
    own = OwnDetectors([asks(service, timeout_ms=50)])
    service.waits.clear()
    assert own.find("Alba").has_failed
    service.waits.set()
    # What was told of a failure is told once; the text is then asked about again.
    assert own.find("Alba").has_failed
    own.close()
    patient = OwnDetectors([asks(service)])
    assert [hit.kind for _, hit in patient.find("Alba").hits] == ["codename"]
    patient.close()


@pytest.mark.parametrize(
    "written",
    [
        "{name: a}",
        "{name: a, url: 'http://h/x', python: 'm:f'}",
        "{name: A B, url: 'http://h/x'}",
        "{name: a, url: 'ftp://h/x'}",
        "{name: a, url: 'http://u:p@h/x'}",
        "{name: a, python: 'm'}",
        "{name: a, python: 'm:f'}, {name: a, python: 'm:g'}",
    ],
)
def test_a_detector_that_cannot_be_asked_is_refused_at_its_place(written: str) -> None:
    with pytest.raises(DocumentError, match=r"pointsman\.yaml:1"):
        read_settings(f"privacy: {{detectors: [{written}]}}".encode(), "pointsman.yaml")


def test_the_library_asks_them_too(tmp_path: Path, service: Service) -> None:
    home = write_home(
        tmp_path / "home",
        placement=keeps("own"),
        pointsman={"privacy": {"detectors": [{"name": "house", "url": service.url}]}},
    )
    with Pointsman(home) as pointsman:
        shown = pointsman.route(pointsman.facts("Alba is a secret"))
        assert shown.placed is not None
        assert shown.placed.rule_id == "SENSITIVE_LOCAL"
