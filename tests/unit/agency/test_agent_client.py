"""Agents called for real: functions in a process of their own, addresses, and what may not be."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import msgspec
import pytest
from tests.processes import is_soon_gone
from tests.unit.agency.fleet import FLEET, Fleet, opened

from pointsman.agents.file.run_section import GivenRun, RunHttp, RunModel
from pointsman.jobs.agent_client import AgentClient
from pointsman.jobs.log import OUTPUT, STARTED
from pointsman.storage.policies.settings import WorkflowSettings

AGENTS = """
import os, time

def hang(work):
    time.sleep(600)

def answer(work):
    print("not part of the answer")
    job = os.environ["POINTSMAN_JOB"], os.environ["POINTSMAN_ATTEMPT"]
    return {"text": f"{work['query']} {' '.join(job)}", "confidence": 0.9}

def break_off(work):
    raise KeyError("nothing there")

def mark_and_hang(work):
    with open(f"begun-{work['attempt']}", "x") as begun:
        print(os.getpid(), file=begun, flush=True)
    if not os.path.exists("go"):
        time.sleep(600)
    return {"text": "second time", "confidence": 0.9}
"""
MORTAL = """
import sys
from pathlib import Path
from pointsman.app import Pointsman
from pointsman.jobs.request import JobRequest

with Pointsman(Path(sys.argv[1])) as pointsman:
    pointsman.jobs.run(JobRequest("what is it", job_id="job-1", job_seed="seed-1"))
"""


def run_of(**names: dict[str, object]) -> dict[str, object]:
    return {**FLEET, "run": {f"agent:{letter}": each for letter, each in names.items()}}


@contextmanager
def fleet_of(folder: Path, **names: dict[str, object]) -> Iterator[Fleet]:
    folder.mkdir(parents=True, mode=0o700)
    (folder / "pointsman.yaml").write_text("workflow: {python: [crew]}\n")
    (folder / "crew.py").write_text(AGENTS)
    with opened(folder, run_of(**names)) as fleet:
        yield fleet


@contextmanager
def served(
    answer: bytes, status: int = 200, wait_s: float = 0
) -> Iterator[tuple[str, list[bytes]]]:
    """Serve one answer, and note what was asked."""
    asked: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.rfile.read(int(self.headers["content-length"])))
            done.wait(wait_s)
            self.send_response(status)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_given: object) -> None:
            pass

    done = threading.Event()
    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/agent", asked
    finally:
        done.set()
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.req(41, 43, 60)
def test_r_t8_an_agent_that_hangs_is_ended_and_another_answers(folder: Path) -> None:
    hangs = {"python": "crew:hang", "timeout_ms": 300}
    answers = {"python": "crew:answer", "timeout_ms": 60_000}
    with fleet_of(folder, a=hangs, b=answers) as fleet:
        started = time.monotonic()
        result = fleet.run("what is it")
        assert time.monotonic() - started < 60
        log = result.log
        assert [(x.agent_id, x.status) for x in log.iteration_trace] == [
            ("agent:a", "timeout"),
            ("agent:b", "done"),
        ]
        assert log.iteration_trace[0].reason == "took longer than 0.3 seconds"
        assert result.text == "what is it job-1 2"
        assert fleet.jobs.replay("job-1").is_identical


def test_a_function_that_raises_is_an_exception_and_is_told_in_short(folder: Path) -> None:
    with fleet_of(folder, a={"python": "crew:break_off"}) as fleet:
        first = fleet.run().log.iteration_trace[0]
        assert first.status == "exception"
        assert first.reason == "ended with 1: KeyError: 'nothing there'"


def test_only_listed_modules_and_hosts_are_called(folder: Path) -> None:
    away = {"http": {"url": "http://agents.example/x"}}
    with fleet_of(folder, a={"python": "os:getcwd"}, b=away) as fleet:
        log = fleet.run().log
        assert [each.status for each in log.iteration_trace[:2]] == ["unreachable", "unreachable"]
        assert log.iteration_trace[0].reason == "the module `os` is not listed in pointsman.yaml"
        assert log.iteration_trace[1].reason == (
            "the host `agents.example` is not listed in pointsman.yaml"
        )


def test_an_address_is_posted_the_work_and_nothing_in_it_is_a_template(folder: Path) -> None:
    answer = b'{"text": "from afar", "confidence": 0.75}'
    with ExitStack() as stack:
        url, asked = stack.enter_context(served(answer))
        there: dict[str, object] = {"http": {"url": url, "headers": {"x-key": "1"}}}
        fleet = stack.enter_context(fleet_of(folder, a=there))
        result = fleet.run("{{ 1 + 1 }} ${work}")
        assert result.text == "from afar"
        work = msgspec.json.decode(asked[0])
        assert (work["query"], work["agent"]) == ("{{ 1 + 1 }} ${work}", "agent:a")
        assert fleet.jobs.replay("job-1").is_identical


@pytest.mark.parametrize(
    ("answer", "status", "reason"),
    [
        (b"", 500, "the answer was 500"),
        (b"not json", 200, "the answer:1:1"),
        (b'"' + b"x" * 300_000 + b'"', 200, "input.invalid"),
    ],
)
def test_an_address_that_answers_badly_has_failed(
    tmp_path: Path, answer: bytes, status: int, reason: str
) -> None:
    calling = AgentClient(tmp_path, WorkflowSettings)
    with served(answer, status) as (url, _asked):
        called = calling.call("agent:a", GivenRun(http=RunHttp(url)), {"query": "x"})
    assert called.status == "exception"
    assert called.reason.startswith(reason)


def test_an_address_that_does_not_answer_is_late(tmp_path: Path) -> None:
    calling = AgentClient(tmp_path, WorkflowSettings)
    with served(b"{}", wait_s=30) as (url, _asked):
        run = GivenRun(http=RunHttp(url), timeout_ms=200)
        assert calling.call("agent:a", run, {"query": "x"}).status == "timeout"
    refused = calling.call("agent:a", GivenRun(http=RunHttp("http://127.0.0.1:1/")), {})
    assert refused.status == "exception"


def test_without_models_a_model_agent_is_out_of_reach(tmp_path: Path) -> None:
    calling = AgentClient(tmp_path, WorkflowSettings)
    assert calling.call("agent:a", GivenRun(model=RunModel()), {}).status == "unreachable"


def _written(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def test_a_job_killed_in_the_middle_of_a_call_is_gone_on_with(folder: Path) -> None:
    slow: dict[str, object] = {"python": "crew:mark_and_hang", "timeout_ms": 120_000}
    with fleet_of(folder, a=slow):
        pass
    process = subprocess.Popen([sys.executable, "-c", MORTAL, str(folder)])
    try:
        deadline = time.monotonic() + 120
        while not _written(folder / "begun-1"):
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.02)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert is_soon_gone(int((folder / "begun-1").read_text()))
    (folder / "begun-1").unlink()
    (folder / "go").touch()
    with opened(folder, run_of(a=slow)) as fleet:
        fleet.ids._count = 500
        assert len(fleet.entries(STARTED)) == 1
        assert fleet.entries(OUTPUT) == []
        assert len(fleet.entries("decision.agent")) == 1
        result = fleet.jobs.resume("job-1")
        assert (result.log.status, result.text) == ("done", "second time")
        assert len(fleet.entries("decision.agent")) == 1
        assert fleet.jobs.replay("job-1").is_identical
        assert fleet.pointsman.verify().fault is None
