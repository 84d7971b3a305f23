"""The two C programs that gateways are measured with: the fake upstream and the load generator."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

HERE = Path(__file__).parent
ROOT = HERE.parent
SOURCES = HERE / "gateway"
BUILD = ROOT / "build" / "bench-gateway"
TEXT = "Say in a few words what request ######## is about."
"""Each `########` becomes a request's own number: nothing can be answered from memory."""

GIVE_UP_S = 60.0
TICKS = os.sysconf("SC_CLK_TCK")

Mode = Literal["plain", "stream", "acked"]
"""Whole answers, streams, or streams whose every piece is acknowledged at once."""


class NotPossible(Exception):
    """A part of the bench cannot be run here; says why."""


def compile_program(name: str) -> Path:
    """Compile a program unless it is there already and newer than its source."""
    source, target = SOURCES / f"{name}.c", BUILD / name
    if target.exists() and target.stat().st_mtime >= source.stat().st_mtime:
        return target
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise NotPossible("no C compiler: install gcc; the load must cost less than what it loads")
    BUILD.mkdir(parents=True, exist_ok=True)
    warnings = ["-Wall", "-Wextra", "-Werror"]
    subprocess.run(
        [compiler, "-O3", "-std=gnu11", *warnings, "-o", str(target), str(source)], check=True
    )
    return target


@contextmanager
def fake_upstream() -> Iterator[int]:
    """Run the upstream; gives its port."""
    program = compile_program("fake_upstream")
    process = subprocess.Popen([str(program), "0"], stdout=subprocess.PIPE)
    try:
        if process.stdout is None:
            raise NotPossible("the fake upstream says nothing")
        yield int(process.stdout.readline())
    finally:
        process.terminate()
        process.wait()


def body_file(model: str, *, is_stream: bool) -> Path:
    """Write the request that is sent, with its model's name as this system knows it."""
    asked: dict[str, Any] = {"model": model, "messages": [{"role": "user", "content": TEXT}]}
    if is_stream:
        asked["stream"] = True
    name = "".join(each if each.isalnum() else "-" for each in model)
    BUILD.mkdir(parents=True, exist_ok=True)
    target = BUILD / f"body-{name}-{'stream' if is_stream else 'plain'}.json"
    target.write_text(json.dumps(asked, separators=(",", ":")))
    return target


class Target:
    """Where load goes: a port, a path, the model's name there, and headers it wants."""

    def __init__(self, port: int, path: str, model: str, headers: tuple[str, ...] = ()) -> None:
        self.port = port
        self.path = path
        self.model = model
        self.headers = headers

    def start_load(
        self, body: Path, connections: int, mode: Mode, warm_up_s: float, seconds: float
    ) -> subprocess.Popen[bytes]:
        """Start loading it with what a file holds."""
        command = [str(compile_program("load")), str(self.port), self.path, str(body)]
        command += [str(connections), str(warm_up_s), str(seconds), mode, *self.headers]
        return subprocess.Popen(command, stdout=subprocess.PIPE)

    def run_load(
        self, connections: int, mode: Mode, *, warm_up_s: float, seconds: float
    ) -> dict[str, Any]:
        """Load it, and give what the load generator saw."""
        body = body_file(self.model, is_stream=mode != "plain")
        return load_result(self.start_load(body, connections, mode, warm_up_s, seconds))


def load_result(load: subprocess.Popen[bytes]) -> dict[str, Any]:
    """Wait for a load generator to end, and give what it saw."""
    told, _ = load.communicate(timeout=10 * GIVE_UP_S)
    if load.returncode:
        raise NotPossible(f"the load generator ended with {load.returncode}")
    return json.loads(told)


def count_answers(port: int) -> int:
    """How many answers the upstream has given."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/count", timeout=5) as answer:
        found = json.load(answer)
    return found["plain"] + found["stream"]


def waited_until_ready(
    url: str, process: subprocess.Popen[bytes], started: float, wanted: int = 200
) -> float:
    """Ask until the answer has the wanted status; gives the seconds since the start."""
    while time.perf_counter() - started < GIVE_UP_S:
        if process.poll() is not None:
            raise NotPossible(f"it ended with {process.returncode} before it was ready")
        try:
            if status_of(url) == wanted:
                return time.perf_counter() - started
        except OSError:
            time.sleep(0.005)
    raise NotPossible(f"not ready after {GIVE_UP_S:.0f} s")


def status_of(url: str) -> int:
    """Return the status of an answer, whatever it is."""
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def machine_busy_s() -> float:
    """The CPU seconds that anybody used since the start."""
    fields = Path("/proc/stat").read_text().split("\n")[0].split()[1:]
    return sum(int(fields[place]) for place in (0, 1, 2, 5, 6, 7)) / TICKS
