"""A gateway with several workers, started as users start it, and one connection to each of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2 as httpx
from tests.gateway.house import ADMIN_TOKEN, Running, eventually

from pointsman.gateway.server import ADMIN_TOKEN as TOKEN_NAME

PROGRAM = "from pointsman.cli.main import main; main()"
MOST_TRIES = 500


class Crew:
    """A supervisor with its workers."""

    def __init__(self, home: Path, stack: ExitStack, *words: str) -> None:
        self.home = home
        self._stack = stack
        os.environ.setdefault(TOKEN_NAME, ADMIN_TOKEN)
        self._log = home.with_name(f"{home.name}.log")
        command = [sys.executable, "-c", PROGRAM, "--home", str(home), "--json", "serve", *words]
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        stack.callback(self._end)
        self.told = self._read_greeting()
        self.url = self.told.get("address", "")

    def _read_greeting(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        lines: list[bytes] = []
        for line in self.process.stdout:
            lines.append(line)
            if line == b"}\n":
                break
        return json.loads(b"".join(lines)) if lines else {}

    def _end(self) -> None:
        assert self.process.stdout is not None
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()

    def at(self, number: int) -> Running:
        """Return one worker, by a connection that it accepted."""
        live = Running(self.home, None, None, int(self.url.rpartition(":")[2]))
        live.client.close()
        for _ in range(MOST_TRIES):
            live.client = self._connected(live.url)
            if number_of(live) == number:
                self._stack.callback(live.client.close)
                return live
            live.client.close()
        raise AssertionError(f"worker {number} accepts no connection")

    @staticmethod
    def _connected(url: str) -> httpx.Client:
        limits = httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=600)
        return httpx.Client(base_url=url, timeout=30, trust_env=False, limits=limits)

    def workers(self) -> list[int]:
        """Return the processes of the workers."""
        pid = self.process.pid
        return [*map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]

    def log(self) -> list[dict[str, Any]]:
        """Return the lines of the log."""
        return [json.loads(line) for line in self._log.read_bytes().splitlines()]

    def kill_worker(self) -> int:
        """Kill a worker, wait until another has its place, and return its number."""
        before, (pid, *_) = len(self.deaths()), self.workers()
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: len(self.deaths()) > before)
        (told,) = (each for each in self.deaths() if each["process"] == pid)
        assert told["ended"] == "killed by SIGKILL"
        self.at(told["worker"])
        return int(told["worker"])

    def deaths(self) -> list[dict[str, Any]]:
        """Return what the log tells of workers that ended."""
        with suppress(json.JSONDecodeError):
            return [each for each in self.log() if each["event"] == "worker_ended"]
        return []


def number_of(live: Running) -> int:
    """Return the number of the worker that a connection leads to."""
    return int(live.get("/health").json()["worker"])


@contextmanager
def crew(home: Path, *words: str) -> Iterator[Crew]:
    """Serve a home with two workers."""
    with ExitStack() as stack:
        yield Crew(home, stack, "--port", "0", "--workers", "2", *words)
