"""The gateways that are measured: how each is installed, configured, started and stopped.

Each peer has an environment of its own and its stock settings, one worker, one model behind it.
What cannot be installed or run is told with its reason.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gateway_load import HERE, ROOT, TICKS, NotPossible, Target, waited_until_ready

KEY = "sk-bench-7d1c0a94e2b84f6fa35b9cf0d6617e28"
CHAT = "/v1/chat/completions"
STOP_S = 15
PINS = HERE / "gateway"
TENSORZERO_READY_S = 30


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def tree(pid: int) -> list[int]:
    """A process and all that it started."""
    found = [pid]
    for each in found:
        for task in Path(f"/proc/{each}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found += [int(child) for child in task.read_text().split()]
    return found


class Running:
    """One system, started and ready."""

    def __init__(self, pid: int, target: Target, ready_s: float, folder: Path) -> None:
        self.pid = pid
        self.target = target
        self.ready_s = ready_s
        self.folder = folder

    def cpu_s(self) -> float:
        """The CPU seconds that it and its children have used."""
        total = 0
        for pid in tree(self.pid):
            with contextlib.suppress(OSError):
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                total += int(fields[11]) + int(fields[12])
        return total / TICKS

    def rss_mib(self) -> float:
        """The resident memory of it and its children."""
        total = 0
        for pid in tree(self.pid):
            with contextlib.suppress(OSError):
                for line in Path(f"/proc/{pid}/status").read_text().splitlines():
                    if line.startswith("VmRSS"):
                        total += int(line.split()[1])
        return total / 1024


class System:
    """A gateway as the bench knows it."""

    name = ""
    path = CHAT
    health = "/health"
    health_status = 200
    model = "bench"
    headers: tuple[str, ...] = (f"authorization: Bearer {KEY}",)

    def prepare(self) -> str:
        """Install its packages; return the version, or raise why that fails."""
        raise NotImplementedError

    def command(self, folder: Path, port: int, upstream: int) -> list[str]:
        """Write its configuration and give the command that starts it."""
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        return {}

    def port_of(self, folder: Path, asked: int) -> int:  # noqa: ARG002 - for those that choose
        """Return the port it listens on."""
        return asked

    def check_promises(self, running: Running, served: int) -> dict[str, object]:  # noqa: ARG002 - ours
        """Check its promises, once it has stopped."""
        return {}

    def sent_headers(self, upstream: int) -> tuple[str, ...]:  # noqa: ARG002 - some need it
        return self.headers

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """Make it a new folder, for as long as it is looked at."""
        found = Path(tempfile.mkdtemp(prefix=f"run-{self.name.lower()}-", dir=scratch()))
        try:
            yield found
        finally:
            shutil.rmtree(found, ignore_errors=True)

    @contextmanager
    def running(self, upstream: int, folder: Path) -> Iterator[Running]:
        """Start it, wait until it is ready, and stop it by its pid."""
        port = free_port()
        command = self.command(folder, port, upstream)
        log = (folder / "log.txt").open("wb")
        started = time.perf_counter()
        process = subprocess.Popen(
            command,
            stdout=log,
            stderr=log,
            cwd=folder,
            env=os.environ | {"BENCH_KEY": KEY} | self.environment(),
            start_new_session=True,
        )
        try:
            port = self.port_of(folder, port)
            health = f"http://127.0.0.1:{port}{self.health}"
            ready_s = waited_until_ready(health, process, started, self.health_status)
            target = Target(port, self.path, self.model, self.sent_headers(upstream))
            yield Running(process.pid, target, ready_s, folder)
        finally:
            stop(process)
            log.close()


def scratch() -> Path:
    found = ROOT / "build" / "bench-gateway"
    found.mkdir(parents=True, exist_ok=True)
    return found


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ask it to end; processes of its tree that stay for a while are killed, by pid."""
    pids = tree(process.pid)
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for pid in pids[1:]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


class Pointsman(System):
    """Ours: default settings, each decision durable before its answer, texts kept."""

    name = "Pointsman"
    model = "up:bench"
    program = ROOT / ".venv" / "bin" / "pointsman"

    def prepare(self) -> str:
        from pointsman.version import VERSION  # noqa: PLC0415 - peers do without

        return VERSION

    def command(self, folder: Path, port: int, upstream: int) -> list[str]:
        home = folder / "home"
        home.mkdir()
        (home / "models.yaml").write_text(
            "schema_version: 1\n"
            "providers:\n"
            f'  up: {{kind: openai, base_url: "http://127.0.0.1:{upstream}/v1",'
            " api_key: {env: BENCH_KEY}}\n"
            "models:\n"
            "  up:bench:\n"
            "    location: cloud\n"
            "    price: {input: 0.15, output: 0.60}\n"
            "    capabilities: {max_context_tokens: 1000000, max_output_tokens: 32768}\n"
        )
        return [str(self.program), "serve", "--home", str(home), "--port", str(port)]

    def check_promises(self, running: Running, served: int) -> dict[str, object]:
        """Every answer's decision must be in the ledger, and the ledger intact."""
        return self.check_ledger(running, served, "decision.turn")

    def check_ledger(self, running: Running, served: int, kind: str) -> dict[str, object]:
        """Raise unless the ledger is intact and holds an entry of a kind for every answer."""
        home = running.folder / "home"
        database = sqlite3.connect(f"file:{home / 'ledger.db'}?mode=ro", uri=True)
        with contextlib.closing(database):
            (entries,) = database.execute(
                "SELECT count(*) FROM entries WHERE kind = ?", (kind,)
            ).fetchone()
        told = subprocess.run(
            [str(self.program), "verify", "--home", str(home), "--json"],
            env=os.environ | self.environment(),
            stdout=subprocess.PIPE,
            check=False,
        )
        found = json.loads(told.stdout)
        if entries < served or not found["is_intact"]:
            raise RuntimeError(f"{served} answers, {entries} entries of {kind}, {found['faults']}")
        return {"answers": served, "decisions": entries, "is_intact": True}


class PythonPeer(System):
    """A peer from the Python package index, in a virtual environment of its own."""

    package = ""

    @property
    def python(self) -> Path:
        return self.program("python")

    def program(self, name: str) -> Path:
        return ROOT / f".venv-bench-{self.package}" / "bin" / name

    def prepare(self) -> str:
        """Install exactly the pinned packages, once; the only step that needs a network."""
        pins = PINS / f"requirements-{self.package}.txt"
        mark = self.python.parent.parent / ".complete"
        if not mark.exists() or mark.stat().st_mtime < pins.stat().st_mtime:
            run_or_say([sys.executable, "-m", "venv", str(mark.parent)])
            pip = [str(self.python), "-m", "pip", "--disable-pip-version-check", "--quiet"]
            run_or_say([*pip, "install", "--no-deps", "-r", str(pins)])
            mark.touch()
        wanted = f"{self.package}=="
        lines = pins.read_text().splitlines()
        return next(line for line in lines if line.startswith(wanted)).removeprefix(wanted)


class LiteLlm(PythonPeer):
    """LiteLLM's proxy: one worker, a model list of one."""

    name = "LiteLLM"
    package = "litellm"
    health = "/health/liveliness"

    def command(self, folder: Path, port: int, upstream: int) -> list[str]:
        (folder / "config.yaml").write_text(
            "model_list:\n"
            "  - model_name: bench\n"
            "    litellm_params:\n"
            "      model: openai/bench\n"
            f"      api_base: http://127.0.0.1:{upstream}/v1\n"
            "      api_key: os.environ/BENCH_KEY\n"
        )
        program = [str(self.program("litellm")), "--config", str(folder / "config.yaml")]
        return [*program, "--host", "127.0.0.1", "--port", str(port), "--num_workers", "1"]

    def environment(self) -> dict[str, str]:
        # It does not start without a key; the other one keeps it from asking the internet for
        # prices while it starts.
        return {"LITELLM_MASTER_KEY": KEY, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}


class Portkey(System):
    """Portkey's gateway on Node; the upstream is named by headers, as its documents say.

    Its server library is held at 1.14.1: with a newer one every stream ends in status 500
    (Portkey-AI/gateway, issue 1389).
    """

    name = "Portkey"
    health = "/"
    root = ROOT / "build" / "bench-portkey"

    def prepare(self) -> str:
        if shutil.which("node") is None or shutil.which("npm") is None:
            raise NotPossible("no node or npm on this machine")
        package = self.root / "node_modules" / "@portkey-ai" / "gateway"
        lock = self.root / "package-lock.json"
        pinned = PINS / "portkey" / "package-lock.json"
        if not package.exists() or lock.read_bytes() != pinned.read_bytes():
            self.root.mkdir(parents=True, exist_ok=True)
            for name in ("package.json", "package-lock.json"):
                shutil.copy(PINS / "portkey" / name, self.root / name)
            npm = ["npm", "ci", "--prefix", str(self.root), "--no-audit", "--no-fund"]
            run_or_say([*npm, "--ignore-scripts"])
        return json.loads((package / "package.json").read_text())["version"]

    def command(self, folder: Path, port: int, upstream: int) -> list[str]:  # noqa: ARG002 - by header
        program = self.root / "node_modules" / "@portkey-ai" / "gateway" / "build"
        return ["node", str(program / "start-server.js"), f"--port={port}", "--headless"]

    def environment(self) -> dict[str, str]:
        return {"TRUSTED_CUSTOM_HOSTS": "127.0.0.1,localhost", "NODE_ENV": "production"}

    def sent_headers(self, upstream: int) -> tuple[str, ...]:
        host = f"x-portkey-custom-host: http://127.0.0.1:{upstream}/v1"
        return (*self.headers, "x-portkey-provider: openai", host)


TENSORZERO = """
import sys, threading
from pathlib import Path
from tensorzero import _start_http_gateway
started = _start_http_gateway(
    config_file=sys.argv[1], clickhouse_url=None, postgres_url=None, valkey_url=None,
    async_setup=False,
)
Path(sys.argv[2]).write_text(started.base_url)
threading.Event().wait()
"""


class TensorZero(PythonPeer):
    """TensorZero's gateway as its Python package embeds it: its HTTP server, no database."""

    name = "TensorZero"
    package = "tensorzero"
    path = "/openai/v1/chat/completions"
    health_status = 404  # the embedded server has no health check; that it answers must do
    model = "tensorzero::model_name::bench"

    def command(self, folder: Path, port: int, upstream: int) -> list[str]:  # noqa: ARG002 - chooses
        (folder / "tensorzero.toml").write_text(
            # Without it every request that holds a picture fails.
            '[object_storage]\ntype = "disabled"\n'
            "[models.bench]\n"
            'routing = ["up"]\n'
            "[models.bench.providers.up]\n"
            'type = "openai"\n'
            'model_name = "bench"\n'
            f'api_base = "http://127.0.0.1:{upstream}/v1/"\n'
            'api_key_location = "env::BENCH_KEY"\n'
        )
        (folder / "serve.py").write_text(TENSORZERO)
        told = [str(folder / "tensorzero.toml"), str(folder / "address")]
        return [str(self.python), str(folder / "serve.py"), *told]

    def port_of(self, folder: Path, asked: int) -> int:  # noqa: ARG002 - it chooses
        until = time.perf_counter() + TENSORZERO_READY_S
        while time.perf_counter() < until:
            with contextlib.suppress(OSError, ValueError):
                address = (folder / "address").read_text()
                return int(address.removesuffix("/openai/v1").rstrip("/").rpartition(":")[2])
            time.sleep(0.005)
        raise NotPossible("the embedded gateway did not start: " + last_words(folder))


class VllmRouter(PythonPeer):
    """vllm-router with one worker behind it; balances, knows no models or prices."""

    name = "vllm-router"
    package = "vllm-router"

    def command(self, folder: Path, port: int, upstream: int) -> list[str]:  # noqa: ARG002 - same shape
        program = [str(self.program("vllm-router")), "--host", "127.0.0.1", "--port", str(port)]
        worker = ["--worker-urls", f"http://127.0.0.1:{upstream}"]
        return [*program, *worker, "--prometheus-port", str(free_port())]


class SglangRouter(PythonPeer):
    """sglang-router with one worker behind it; balances, knows no models or prices."""

    name = "sglang-router"
    package = "sglang-router"

    def command(self, folder: Path, port: int, upstream: int) -> list[str]:  # noqa: ARG002 - same shape
        program = [str(self.program("sglang-router")), "launch"]
        where = ["--host", "127.0.0.1", "--port", str(port)]
        worker = ["--worker-urls", f"http://127.0.0.1:{upstream}"]
        return [*program, *where, *worker, "--prometheus-port", str(free_port())]


def run_or_say(command: list[str]) -> None:
    """Run a step of an installation; when it fails, say the last thing it said."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        said = done.stdout.decode(errors="replace").strip().splitlines()
        raise NotPossible(f"cannot be installed: {said[-1][:300] if said else done.returncode}")


def last_words(folder: Path) -> str:
    said = (folder / "log.txt").read_text(errors="replace").strip().splitlines()
    return said[-1][:300] if said else "it said nothing"


PEERS: tuple[System, ...] = (LiteLlm(), Portkey(), TensorZero(), VllmRouter(), SglangRouter())
