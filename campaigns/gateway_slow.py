"""Slow clients held off: `python -m campaigns.gateway_slow [connections]`.

A process of its own holds that many connections open and sends a byte now and then, in heads and in
bodies, and opens each anew when it is cut. Good calls go on beside it. Writes
`evidence/gateway_slow.json`; fails when a good call fails or their 99th percentile is over 25 ms.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import subprocess
import sys
import time
from pathlib import Path

from campaigns.evidence import write

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))

from gateway_load import fake_upstream
from gateway_systems import Pointsman

SECONDS = 30.0
GOOD_CONNECTIONS = 1
MOST_P99_US = 25_000
BETWEEN_BYTES_S = 2.0
OPENED_AT_ONCE = 200
HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\nx-slow: "
BODY = b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 100000\r\n\r\n{"


class Slow:
    """So many clients that never come to an end."""

    def __init__(self, port: int, connections: int) -> None:
        self._port = port
        self._connections = connections
        self._gate = asyncio.Semaphore(OPENED_AT_ONCE)
        self.opened = self.cut = self.now = self.most = 0

    async def run(self) -> None:
        """Be slow until told to stop; tell how it goes each second."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._connections):
                group.create_task(self._client(BODY if number % 3 == 0 else HEAD))
            group.create_task(self._print_counts())

    async def _client(self, begin: bytes) -> None:
        while True:
            with contextlib.suppress(OSError):
                await self._connection(begin)
            await asyncio.sleep(1)

    async def _connection(self, begin: bytes) -> None:
        async with self._gate:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        self.opened += 1
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            writer.write(begin)
            while not reader.at_eof():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(reader.read(1024), BETWEEN_BYTES_S)
                writer.write(b"a")
                await writer.drain()
        finally:
            self.now -= 1
            self.cut += 1
            writer.close()

    async def _print_counts(self) -> None:
        while True:
            await asyncio.sleep(1)
            print(self.opened, self.cut, self.now, self.most, flush=True)


def slow_clients(port: int, connections: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "campaigns.gateway_slow", "--be-slow", str(port)]
    return subprocess.Popen(
        [*command, str(connections)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[1],
    )


def main() -> int:
    if sys.argv[1:2] == ["--be-slow"]:
        asyncio.run(Slow(int(sys.argv[2]), int(sys.argv[3])).run())
    connections = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    ours = Pointsman()
    with (
        fake_upstream() as upstream,
        ours.folder() as folder,
        ours.running(upstream, folder) as running,
    ):
        alone = running.target.loaded(GOOD_CONNECTIONS, "plain", warm_up_s=1, seconds=10)
        slow = slow_clients(running.target.port, connections)
        try:
            time.sleep(10)
            beside = running.target.loaded(GOOD_CONNECTIONS, "plain", warm_up_s=1, seconds=SECONDS)
            memory = running.rss_mib()
        finally:
            slow.kill()
        told = (slow.stdout.read() if slow.stdout else "").splitlines()[-1].split()
        slow.wait()
        after = running.target.loaded(GOOD_CONNECTIONS, "plain", warm_up_s=1, seconds=5)
    opened, cut, held, most = (int(each) for each in told)
    found = {
        "what": "good calls beside slow clients; latencies in microseconds",
        "slow_connections": connections,
        "opened": opened,
        "cut": cut,
        "held_at_the_end": held,
        "most_held": most,
        "alone": alone,
        "beside": beside,
        "after": after,
        "memory_mib": round(memory, 1),
        "most_p99_us": MOST_P99_US,
    }
    print(found, write("gateway_slow", found))
    is_held_off = not beside["errors"] and beside["latency"]["p99_us"] <= MOST_P99_US
    return 0 if is_held_off and not after["errors"] else 1


if __name__ == "__main__":
    sys.exit(main())
