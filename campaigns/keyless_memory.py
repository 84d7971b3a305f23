"""Large bodies without a key: `python -m campaigns.keyless_memory [connections] [megabytes]`.

A process of its own opens that many connections to a gateway that needs a key, says that a body of
so many megabytes follows on each, and sends it whatever it is told; then the same for routes that
take no key, in chunks, and for heads that never end. Writes `evidence/keyless_memory.json` with the
gateway's memory; fails when it grew by more than 100 MiB, or when a good call beside failed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx2 as httpx
import psutil
from campaigns.evidence import write

MOST_GROWTH_MIB = 100.0
AT_ONCE = 2000
MOST_S = 60
"""Longest flood of one kind: the rest of it is not sent."""
PIECE = 256 * 1024
TOKEN = "pa_the-admin-token-of-this-campaign"
HOST = b"host: 127.0.0.1\r\n"
CALL = b"POST /v1/chat/completions HTTP/1.1\r\n" + HOST
LOGIN = b"POST /api/login HTTP/1.1\r\n" + HOST
CHUNKS = b"transfer-encoding: chunked\r\n\r\n"


def bodies(size: int) -> dict[str, tuple[bytes, bytes]]:
    """Return, for each way to flood, what is sent first and what is sent again and again."""
    length = b"content-length: %d\r\n\r\n" % size
    chunk = b"%x\r\n%b\r\n" % (PIECE, bytes(PIECE))
    return {
        "a call with a length": (CALL + length, bytes(PIECE)),
        "a call with an unknown key": (CALL + b"x-api-key: pk_x\r\n" + length, bytes(PIECE)),
        "a call in chunks": (CALL + CHUNKS, chunk),
        "a login with a length": (LOGIN + length, bytes(PIECE)),
        "a login in chunks": (LOGIN + CHUNKS, chunk),
        "a login in tiny chunks": (LOGIN + CHUNKS, b"1\r\na\r\n" * (PIECE // 6)),
        "a head without an end": (CALL + b"x-a: ", b"b" * 60_000),
    }


async def flood(port: int, connections: int, first: bytes, again: bytes, size: int) -> None:
    """Send on all connections at once, each until it is closed or has sent so much."""
    sent = 0

    async def client() -> None:
        nonlocal sent
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(first)
                for _ in range(0, size, len(again)):
                    writer.write(again)
                    sent += len(again)
                    await writer.drain()
            finally:
                writer.close()

    begun = time.monotonic()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(MOST_S):
            await asyncio.gather(*(client() for _ in range(connections)))
    print(sent, round(time.monotonic() - begun, 1), flush=True)


class Watch:
    """The highest memory of a process, and good calls beside."""

    def __init__(self, process: psutil.Process, call: Callable[[], bool]) -> None:
        self._process = process
        self._call = call
        self._ended = threading.Event()
        self.most = self.good = self.bad = 0

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        threads = [threading.Thread(target=each) for each in (self._look, self._ask)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._ended.set()
            for thread in threads:
                thread.join()

    def _look(self) -> None:
        while not self._ended.wait(0.02):
            self.most = max(self.most, self._process.memory_info().rss)

    def _ask(self) -> None:
        while not self._ended.wait(0.2):
            if self._call():
                self.good += 1
            else:
                self.bad += 1


@contextlib.contextmanager
def gateway(folder: str) -> Iterator[tuple[int, psutil.Process]]:
    """Serve a home that needs a key, in a process of its own."""
    command = [
        Path(sys.executable).with_name("pointsman"),
        "serve",
        "--home",
        folder,
        "--port",
        "0",
    ]
    env = {**os.environ, "POINTSMAN_ADMIN_TOKEN": TOKEN}
    settings = Path(folder) / "pointsman.yaml"
    settings.write_text('telemetry: {logs: "off"}\n')
    settings.chmod(0o600)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as process:
        try:
            assert process.stdout is not None
            line = next(each for each in process.stdout if "listening on" in each)
            yield int(line.split()[2].rsplit(":", 1)[1]), psutil.Process(process.pid)
        finally:
            process.terminate()


def main() -> int:
    if sys.argv[1:2] == ["--flood"]:
        port, connections, size, name = (
            int(sys.argv[2]),
            int(sys.argv[3]),
            int(sys.argv[4]),
            sys.argv[5],
        )
        asyncio.run(flood(port, connections, *bodies(size)[name], size))
        return 0
    connections = int(sys.argv[1]) if len(sys.argv) > 1 else AT_ONCE
    size = (int(sys.argv[2]) if len(sys.argv) > 2 else 32) * 1024 * 1024
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    rows = {}
    with TemporaryDirectory() as folder, gateway(folder) as (port, process):
        client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30, trust_env=False)
        admin = {"authorization": f"Bearer {TOKEN}"}
        client.post("/api/keys", json={"name": "first"}, headers=admin).raise_for_status()

        def is_served() -> bool:
            with contextlib.suppress(httpx.HTTPError):
                return client.get("/api/turns", headers=admin).status_code == 200
            return False

        assert is_served()
        before = process.memory_info().rss
        for name in bodies(size):
            watch = Watch(process, is_served)
            command = [sys.executable, "-m", "campaigns.keyless_memory", "--flood", str(port)]
            with watch.running():
                done = subprocess.run(
                    [*command, str(connections), str(size), name],
                    capture_output=True, text=True, check=True,
                )  # fmt: skip
            sent, seconds = done.stdout.split()
            rows[name] = {
                "sent_mib": round(int(sent) / 2**20),
                "seconds": float(seconds),
                "highest_growth_mib": round((watch.most - before) / 2**20, 1),
                "good_calls": watch.good,
                "failed_calls": watch.bad,
            }
            print(name, rows[name], flush=True)
        time.sleep(3)
        after = process.memory_info().rss
    found = {
        "what": "the memory of a gateway that needs a key, while callers without one send to it",
        "connections": connections,
        "megabytes_each": size // 2**20,
        "before_mib": round(before / 2**20, 1),
        "growth_after_mib": round((after - before) / 2**20, 1),
        "highest_growth_mib": max(row["highest_growth_mib"] for row in rows.values()),
        "most_growth_mib": MOST_GROWTH_MIB,
        "ways": rows,
    }
    print(found, write("keyless_memory", found))
    is_failed = any(row["failed_calls"] for row in rows.values())
    return 1 if is_failed or found["highest_growth_mib"] > MOST_GROWTH_MIB else 0


if __name__ == "__main__":
    sys.exit(main())
