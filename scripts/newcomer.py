"""Walk a newcomer's path on an empty machine, command by command, with the time of each.

Clone, `make run`, a first routed answer, why, the dashboard, the demo: in a fresh clone of what is
committed, with a home of its own. Installing takes most of it, and needs the registry of packages.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

ROOT = Path(__file__).resolve().parents[1]
READY_S = 600
EVERY_S = 0.2


class StepFailed(Exception):
    """A step did not do what a newcomer is promised."""


def run(command: list[str], folder: Path) -> str:
    """Run a command as a newcomer types it; return what it prints."""
    environment = {key: value for key, value in os.environ.items() if key != "VIRTUAL_ENV"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise StepFailed(f"`{' '.join(command)}` ended with {done.returncode}:\n{done.stderr}")
    return done.stdout


def expect(text: str, wanted: str) -> None:
    """Fail where what was promised is not in the text."""
    if wanted not in text:
        raise StepFailed(f"`{wanted}` is not in:\n{text[:2000]}")


def wait_until_ready(address: str, server: subprocess.Popen[bytes]) -> None:
    """Wait until the gateway answers."""
    end = time.monotonic() + READY_S
    while time.monotonic() < end:
        if server.poll() is not None:
            raise StepFailed(f"`make run` ended with {server.returncode}")
        try:
            with urlopen(f"{address}/health", timeout=5) as answer:
                if answer.status == 200:
                    return
        except (URLError, OSError):
            time.sleep(EVERY_S)
    raise StepFailed(f"no gateway at {address} after {READY_S} s")


def free_port() -> int:
    """Return a port that nothing uses."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def first_answer(address: str) -> None:
    """Ask the gateway, as the `curl` line of `make run` does."""
    body = {"model": "auto", "messages": [{"role": "user", "content": "Say hello"}]}
    request = Request(
        f"{address}/v1/chat/completions",
        json.dumps(body).encode(),
        {"content-type": "application/json"},
    )
    with urlopen(request, timeout=120) as answer:
        if not json.load(answer)["choices"][0]["message"]["content"]:
            raise StepFailed("the first answer is empty")


def dashboard(address: str) -> None:
    """Open the page and what it shows first."""
    with urlopen(f"{address}/", timeout=30) as page:
        expect(page.read().decode(), "<title>")
    with urlopen(f"{address}/api/overview", timeout=30) as answer:
        if json.load(answer)["turns_today"] < 1:
            raise StepFailed("the dashboard does not show the first turn")


def walk(folder: Path) -> None:
    """Walk the path; print each step with its time."""
    began = time.monotonic()

    def step(title: str, work: Callable[[], object]) -> None:
        start = time.monotonic()
        work()
        print(f"{time.monotonic() - start:7.1f} s  {title}", flush=True)

    clone = folder / "pointsman"
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    command = str(clone / ".venv-run" / "bin" / "pointsman")
    home = str(clone / "build" / "demo-home")
    step("git clone", lambda: run(["git", "clone", "-q", str(ROOT), str(clone)], folder))
    # Its own session: `make` and the gateway below it end together.
    server = subprocess.Popen(
        ["make", "run", f"PORT={port}"],
        cwd=clone,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        step("make run, until the gateway answers", lambda: wait_until_ready(address, server))
        step("a first routed answer", lambda: first_answer(address))
        step(
            "pointsman why",
            lambda: expect(run([command, "why", "--home", home], clone), "Chose: embedded:"),
        )
        step("the dashboard, with that turn", lambda: dashboard(address))
    finally:
        os.killpg(server.pid, signal.SIGINT)
        server.wait(60)
    step(
        "pointsman demo",
        lambda: expect(
            run([command, "demo", "--home", str(folder / "day")], clone),
            "came out identical, byte for byte",
        ),
    )
    print(f"{time.monotonic() - began:7.1f} s  in all")


def main() -> None:
    """Walk in a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            walk(Path(folder))
        except StepFailed as failure:
            sys.exit(f"failed: {failure}")


if __name__ == "__main__":
    main()
