"""Several workers on one port: supervised, drained, counted together, and killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from tests.gateway.conftest import Town
from tests.gateway.crew import PROGRAM, Crew, crew, number_of
from tests.gateway.house import (
    Running,
    chat_text,
    eventually,
    running,
    stalls,
    streamed,
    write_home,
)
from tests.gateway.test_keys_over_http import made
from tests.gateway.test_turn_lock import ASK, LOOP, asked
from tests.gateway.town import ADMIN
from tests.processes import is_soon_gone

from pointsman.app import Pointsman
from pointsman.gateway import server as gateway
from pointsman.providers.messages import Text
from pointsman.testing import calls
from pointsman.testing.upstream_replies import (
    LAST_CHUNK,
    STREAM_HEAD,
    Pause,
    Received,
    SendBytes,
    Step,
    a_response,
    answer_events,
    chunk,
)


def total(live: Running, name: str, **labels: str) -> int:
    """Return a counter as the metrics tell it, summed over the labels that are not named."""
    found = 0
    for line in live.get("/metrics", **ADMIN).text.splitlines():
        if line.startswith(name) and all(f'{k}="{v}"' in line for k, v in labels.items()):
            found += int(line.rpartition(" ")[2])
    return found


def test_counts_are_those_of_all_workers_and_never_go_back(town: Town) -> None:
    with crew(town.home) as found:
        one, two = found.at(1), found.at(2)
        for turn in range(1, 7):
            (one, two)[turn % 2].chat("hello")
            for live in (one, two):
                assert total(live, "pointsman_decisions_total") >= turn - 1
            assert total((one, two)[turn % 2], "pointsman_decisions_total") == turn
        eventually(
            lambda: (
                total(one, "pointsman_tokens_total")
                == total(two, "pointsman_tokens_total")
                == 6 * 19
            )
        )
        assert 'pointsman_request_seconds_count{model="open:big"} 6' in one.get("/metrics").text
        left = found.at(3 - found.kill_worker())
        assert total(left, "pointsman_decisions_total") == 6
        assert total(left, "pointsman_requests_in_flight") == 0


def test_a_login_at_one_worker_is_one_at_all_and_outlives_a_killed_one(town: Town) -> None:
    with crew(town.home) as found:
        one, two = found.at(1), found.at(2)
        made(one)
        told = one.post("/api/login", {"token": one.admin}, origin=one.url)
        assert told.status_code == 200, told.text
        page = {"x-pointsman-page": told.json()["page"], "origin": one.url}
        cookie = told.headers["set-cookie"].partition(";")[0]
        own = {**page, "cookie": cookie}
        assert two.get("/api/me", **own).json()["is_logged_in"]
        assert not two.get("/api/me", cookie=cookie).json()["is_logged_in"]
        number = found.kill_worker()
        other = found.at(number)
        assert other.get("/api/me", **own).json()["is_logged_in"]
        assert other.post("/api/logout", {}, **own).status_code == 200
        assert not found.at(3 - number).get("/api/me", **own).json()["is_logged_in"]


@pytest.mark.req(112)
def test_a_worker_that_is_killed_takes_no_turn_money_or_entry_along(town: Town) -> None:
    with crew(town.home) as found:
        one = found.at(1)
        keyed = made(one, budgets=[{"limit_usd": "0.01", "per": "day"}], limits={"concurrent": 1})
        own = {**keyed, "x-session-id": "s-1"}
        town.openai.then(calls(("weather", {})))
        first = asked(one, [ASK], headers=own)
        town.openai.then(stalls("half an answer"))
        with stalled_stream(found, keyed):
            busy = [found.at(number).chat("hello", headers=keyed) for number in (1, 2)]
            assert [each.status_code for each in busy] == [429, 429]
            for pid in found.workers():
                os.kill(pid, signal.SIGKILL)
            eventually(lambda: len(found.deaths()) == 2)
        told = asked(found.at(1), LOOP, headers=own)
        assert told.headers["x-pointsman-turn"] == first.headers["x-pointsman-turn"]
        assert told.headers["x-pointsman-policy"] == "turn_lock"
        (row,) = [
            each
            for each in found.at(2).get("/api/budgets", **ADMIN).json()["budgets"]
            if each["key_id"]
        ]
        assert (
            float(row["left_usd"])
            == 0.01 - sum(each["spent"]["cost_microusd"] for each in one.outcomes(2)) / 1e6
        )
    with Pointsman(town.home, writer="check") as pointsman:
        assert pointsman.verify().faults == ()


@contextmanager
def stalled_stream(found: Crew, headers: dict[str, str]) -> Iterator[None]:
    """Hold a stream open that never ends by itself."""
    body = {"model": "auto", "stream": True, "messages": [{"role": "user", "content": "go"}]}
    with (
        suppress(httpx.HTTPError),
        httpx.Client(base_url=found.url, timeout=30, trust_env=False) as client,
        client.stream("POST", "/v1/chat/completions", json=body, headers=headers) as answer,
    ):
        lines = answer.iter_lines()
        next(lines)
        yield
        lines.close()


def waits(pause_s: float) -> Any:
    """Stream an answer with a pause in its middle."""

    def reply(request: Received) -> list[Step]:
        pieces = [
            SendBytes(chunk(each)) for each in answer_events(request, a_response(Text("whole")))
        ]
        half = len(pieces) // 2
        return [
            SendBytes(STREAM_HEAD),
            *pieces[:half],
            Pause(pause_s),
            *pieces[half:],
            SendBytes(LAST_CHUNK),
        ]

    return reply


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_told_to_stop_the_workers_end_their_streams_and_the_port_is_free(
    town: Town, number: signal.Signals
) -> None:
    town.openai.then(waits(0.4))
    with crew(town.home) as found:
        live, told = found.at(1), []
        thread = threading.Thread(target=lambda: told.append(live.chat("hello", stream=True)))
        thread.start()
        eventually(lambda: town.openai.requests)
        pids = found.workers()
        found.process.send_signal(number)
        assert found.process.wait(30) == 0
        thread.join(30)
        assert chat_text(streamed(told[0])) == "whole"
        assert all(is_soon_gone(pid) for pid in pids)
        with socket.create_server(("127.0.0.1", live.port)):
            pass
        assert {each["event"] for each in found.log()} <= {"request", "api"}
        assert live.outcomes(1)[0]["error_class"] == ""


def test_told_twice_nobody_waits_any_longer(town: Town) -> None:
    write_home(town.home, pointsman={"server": {"drain_s": 600, "grace_s": 1}})
    with crew(town.home) as found:
        live = found.at(1)
        found.process.terminate()
        eventually(lambda: live.get("/health/readiness").json()["status"] == "draining")
        found.process.terminate()
        assert found.process.wait(30) == 0


def test_workers_whose_supervisor_is_killed_end_too(town: Town) -> None:
    with crew(town.home) as found:
        pids = found.workers()
        assert len(pids) == 2
        found.process.kill()
        assert all(is_soon_gone(pid, seconds=30) for pid in pids)


def test_a_worker_is_begun_again_again_and_again_and_the_log_says_so(town: Town) -> None:
    with crew(town.home) as found:
        numbers = [found.kill_worker() for _ in range(3)]
        assert [each["worker"] for each in found.deaths()] == numbers
        assert sorted(map(number_of, (found.at(1), found.at(2)))) == [1, 2]
        assert found.at(1).chat("hello").status_code == 200
        assert {each["level"] for each in found.deaths()} == {"warning"}


def test_what_keeps_a_worker_from_beginning_ends_the_run_with_its_error(town: Town) -> None:
    (town.home / "live.db").mkdir()
    command = [sys.executable, "-c", PROGRAM, "--home", str(town.home), "serve"]
    done = subprocess.run(
        [*command, "--port", "0", "--workers", "2"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode not in {0, -signal.SIGTERM}
    assert "error: " in done.stderr
    assert "listening" not in done.stdout


def test_the_announced_address_is_that_of_the_port(town: Town) -> None:
    with crew(town.home) as found:
        assert (town.home / "serving" / "address").read_text() == found.url
        assert found.told["home"] == str(town.home)


def test_one_worker_serves_while_no_key_exists_else_one_for_each_two_cores(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway, "usable_cores", lambda: 9)
    assert gateway.usual_workers(town.home) == 1
    with running(town.home) as live:
        made(live)
    assert gateway.usual_workers(town.home) == 4
    monkeypatch.setattr(gateway, "usable_cores", lambda: 1)
    assert gateway.usual_workers(town.home) == 1


@pytest.mark.parametrize(
    ("quota", "cores"), [("max 100000", 6), ("250000 100000", 2), ("50000 100000", 1), ("", 6)]
)
def test_a_containers_quota_bounds_the_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quota: str, cores: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: range(6), raising=False)
    (tmp_path / "cpu.max").write_text(quota)
    assert gateway.usable_cores(tmp_path / "cpu.max") == cores


def test_connections_spread_over_the_workers(town: Town) -> None:
    with crew(town.home) as found, ExitStack() as stack:
        numbers = []
        for _ in range(40):
            client = stack.enter_context(httpx.Client(base_url=found.url, trust_env=False))
            numbers.append(client.get("/health").json()["worker"])
        assert min(numbers.count(1), numbers.count(2)) >= 2
