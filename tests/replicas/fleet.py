"""Replicas as processes of their own, clients as processes of their own, and what they left behind.

A nursery process imports the product once and forks a replica for every line it reads, so that many
can be killed in little time. Every replica has a home folder of its own: identity, keys and policy
files are copies, all else is in the database.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2 as httpx
from tests.gateway.house import ADMIN_TOKEN, eventually
from tests.servers import free_port

ROOT = Path(__file__).parents[2]
CLIENTS = 16


# In the processes of the fleet.


def say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def live(home: Path, store: str, redis: str, port: int) -> None:
    """Serve until told to stop, or killed."""
    from tests.gateway.house import PATIENT

    from pointsman.gateway import server as gateway
    from pointsman.storage.policies.settings import read_settings

    os.environ["POINTSMAN_STORE"] = store
    os.environ["POINTSMAN_REDIS"] = redis
    os.environ[gateway.ADMIN_TOKEN] = ADMIN_TOKEN
    path = home / "pointsman.yaml"
    given = read_settings(path.read_bytes() if path.exists() else b"", "pointsman.yaml").server
    import msgspec

    server = msgspec.structs.replace(given, port=port)

    with (
        gateway.bind_socket(server) as listening,
        gateway.open_gateway(home, server=server, surroundings=PATIENT) as (parts, application),
    ):
        say("serving", home.name, os.getpid(), listening.getsockname()[1])
        gateway.serve(parts, application, listening)
    say("ended", home.name)


def nursery() -> None:
    """Fork a replica for every line; whoever dies is noticed by its silence."""
    from pointsman.gateway import server  # noqa: F401 - imported once, for all
    from pointsman.gateway.serving import sharing  # noqa: F401

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    say("ready")
    for line in sys.stdin:
        home, store, redis, port = json.loads(line)
        if os.fork() == 0:
            # A killed nursery must not leave replicas behind.
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            try:
                live(Path(home), store, redis, port)
            except BaseException as error:  # noqa: BLE001 - told to whoever waits
                say("failed", Path(home).name, repr(error).replace("\n", " "))
            finally:
                os._exit(0)


# In the process that watches.


@dataclass
class Ship:
    """One replica."""

    home: Path
    pid: int = 0
    port: int = 0
    key: str = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def kill(self) -> None:
        """Kill it in mid-work."""
        os.kill(self.pid, signal.SIGKILL)
        eventually(lambda: not _is_alive(self.pid))

    @contextmanager
    def standstill(self) -> Iterator[None]:
        """Have it stand still in mid-work."""
        os.kill(self.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.pid, signal.SIGCONT)

    def stop(self) -> None:
        """Tell it to stop."""
        os.kill(self.pid, signal.SIGTERM)

    def is_alive(self) -> bool:
        return bool(self.pid) and _is_alive(self.pid)

    def wants_a_key(self) -> bool:
        """Tell whether it refuses whoever brings no key."""
        return httpx.get(f"{self.url}/v1/models", timeout=30, trust_env=False).status_code == 401

    def get(self, path: str) -> httpx.Response:
        headers = {"authorization": f"Bearer {ADMIN_TOKEN}"}
        return httpx.get(f"{self.url}{path}", headers=headers, timeout=30, trust_env=False)

    def post(self, path: str, body: object, **headers: str) -> httpx.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        named.setdefault("authorization", f"Bearer {ADMIN_TOKEN}")
        return httpx.post(
            f"{self.url}{path}", json=body, headers=named, timeout=30, trust_env=False
        )

    def delete(self, path: str) -> httpx.Response:
        headers = {"authorization": f"Bearer {ADMIN_TOKEN}"}
        return httpx.delete(f"{self.url}{path}", headers=headers, timeout=30, trust_env=False)

    def chat(self, text: str | list[Any], session: str, **more: Any) -> httpx.Response:
        messages = [{"role": "user", "content": text}] if isinstance(text, str) else text
        headers = more.pop("headers", {"authorization": f"Bearer {self.key}"})
        body = {"model": "auto", "messages": messages, "max_tokens": 50, **more}
        return self.post("/v1/chat/completions", body, x_session_id=session, **headers)


@dataclass
class Fleet:
    """Some replicas on one database."""

    store: str
    redis: str
    ships: list[Ship] = field(default_factory=list)
    _stack: ExitStack = field(default_factory=ExitStack)
    _nursery: Any = None

    def __enter__(self) -> Fleet:
        self._nursery = subprocess.Popen(
            [sys.executable, "-m", "tests.replicas.fleet"],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            start_new_session=True,
        )  # fmt: skip
        assert self._heard("ready") == []
        return self

    @property
    def ports(self) -> list[int]:
        return [each.port for each in self.ships]

    @property
    def key(self) -> str:
        return self.ships[0].key

    def __exit__(self, *_error: object) -> None:
        for ship in self.ships:
            with suppress(ProcessLookupError):
                os.kill(ship.pid, signal.SIGKILL)
        self._nursery.stdin.close()
        self._nursery.wait(30)
        self._nursery.stdout.close()

    def launch(self, folder: Path, files: dict[str, Any], many: int) -> None:
        """Make the first home, and copies of what all must share; start a replica on each."""
        first = folder / "r0"
        for number in range(many):
            home = folder / f"r{number}"
            home.mkdir(mode=0o700)
            for name, value in files.items():
                (home / f"{name}.yaml").write_text(json.dumps(value))
                (home / f"{name}.yaml").chmod(0o600)
            self.ships.append(Ship(home, port=free_port()))
            if number:
                for name in ("identity.json", "keys"):
                    _copied(first / name, home / name)
            self.start(number)
        told = self.ships[0].post("/api/keys", {"name": "test"}).json()
        for ship in self.ships:
            ship.key = told["key"]
            # Until it knows of the key it serves this machine without one, as nobody's.
            eventually(ship.wants_a_key)

    def start(self, number: int) -> Ship:
        """Start a replica, at the port it had before."""
        ship = self.ships[number]
        told = json.dumps([str(ship.home), self.store, self.redis, ship.port])
        self._nursery.stdin.write(told + "\n")
        self._nursery.stdin.flush()
        name, pid, port = self._heard("serving")
        assert name == ship.home.name
        ship.pid, ship.port = int(pid), int(port)
        return ship

    def _heard(self, wanted: str) -> list[str]:
        while True:
            word, *rest = self._nursery.stdout.readline().split() or ["nothing"]
            if word == wanted:
                return list(rest)
            assert word == "ended", (word, rest)


class Crowd:
    """Clients that ask all at once, each a process of its own."""

    def __init__(self, many: int = CLIENTS) -> None:
        command = [sys.executable, "-S", str(Path(__file__).with_name("hammer.py"))]
        self._clients = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for _ in range(many)
        ]
        for each in self._clients:
            # Harm that comes before the first request would prove nothing.
            assert each.stdout
            assert each.stdout.readline() == "ready\n"

    def __enter__(self) -> Crowd:
        return self

    def __exit__(self, *_error: object) -> None:
        for each in self._clients:
            assert each.stdin
            assert each.stdout
            each.stdin.close()
            each.wait(30)
            each.stdout.close()

    def ask(self, ports: list[int], calls: int, session: str, **more: Any) -> None:
        """Have every client ask so many times, in turn at every port."""
        for number, each in enumerate(self._clients):
            assert each.stdin
            turned = ports[number % len(ports) :] + ports[: number % len(ports)]
            told = {"ports": turned, "calls": calls, "session": session, "client": number, **more}
            each.stdin.write(json.dumps(told) + "\n")
            each.stdin.flush()

    def answers(self) -> list[dict[str, Any]]:
        """Give what all were answered."""
        found: list[dict[str, Any]] = []
        for each in self._clients:
            assert each.stdout
            found += json.loads(each.stdout.readline())
        return found


def _copied(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, copy_function=shutil.copy2)
        target.chmod(0o700)
    else:
        shutil.copy2(source, target)


def _is_alive(pid: int) -> bool:
    # The nursery waits for nobody, so that whoever is gone whole is gone from here; one whose first
    # thread has ended may still hold its port.
    return Path(f"/proc/{pid}").exists()


if __name__ == "__main__":
    nursery()
