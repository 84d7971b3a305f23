"""The upstream client: requests/s and CPU a request, at 1 and 16 at once, whole and streamed.

The upstream is a uvloop server in a process of its own that answers with fixed bytes. httpx is
measured beside it where it is installed. Prints; writes nothing.
"""

from __future__ import annotations

import asyncio
import importlib.util
import multiprocessing
import os
import time
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection as Pipe
from pathlib import Path

import uvloop

from pointsman.providers.http.provider import HttpProvider
from pointsman.providers.port import Deadlines, Outgoing
from pointsman.providers.vendors import VENDORS
from pointsman.testing.upstream_replies import LAST_CHUNK, STREAM_HEAD, chunk, plain
from pointsman.turns.registry.models import Provider as Configured
from pointsman.turns.registry.models import ProviderKey

BODY = b'{"id":"x","choices":[{"message":{"role":"assistant","content":"%s"}}]}' % (b"a" * 900)
EVENT = b'data: {"choices":[{"index":0,"delta":{"content":"word"}}]}\n\n'
WHOLE = plain(BODY)
STREAM = STREAM_HEAD + chunk(EVENT) * 50 + LAST_CHUNK
ASKED = b'{"model":"m","messages":[{"role":"user","content":"hello there"}]}'
DEADLINES = Deadlines()


class _Fixed(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(STREAM if b"event-stream" in data else WHOLE)


def serve(pipe: Pipe) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(_Fixed, "127.0.0.1", 0)
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    uvloop.run(main())


async def measure_rate(one: Callable[[], Awaitable[None]], at_once: int, seconds: float) -> str:
    count = 0

    async def worker(until: float) -> None:
        nonlocal count
        while time.perf_counter() < until:
            await one()
            count += 1

    await asyncio.gather(*(worker(time.perf_counter() + 0.3) for _ in range(at_once)))
    count = 0
    begun, before = time.perf_counter(), os.times()
    await asyncio.gather(*(worker(begun + seconds) for _ in range(at_once)))
    took, after = time.perf_counter() - begun, os.times()
    user, system = after.user - before.user, after.system - before.system
    return (
        f"{count / took:9,.0f} req/s, CPU a request {user / count * 1e6:8.1f} us user"
        f" {system / count * 1e6:8.1f} us system"
    )


async def ours(port: int, at_once: int, *, is_stream: bool, seconds: float) -> str:
    os.environ["BENCH_KEY"] = "sk-bench"
    key = ProviderKey(env="BENCH_KEY")
    configured = Configured("openai", f"http://127.0.0.1:{port}/v1", key)
    provider = HttpProvider("bench", VENDORS["openai"], configured, Path())
    outgoing = Outgoing("chat", "m", ASKED, is_stream)

    async def whole() -> None:
        answer = await provider.send(outgoing, DEADLINES)
        await answer.read()

    async def stream() -> None:
        async for _piece in await provider.send(outgoing, DEADLINES):
            pass

    shown = await measure_rate(stream if is_stream else whole, at_once, seconds)
    await provider.close()
    return shown


async def theirs(port: int, at_once: int, *, seconds: float) -> str:
    import httpx  # noqa: PLC0415 - measured where it is installed

    async with httpx.AsyncClient() as client:

        async def whole() -> None:
            url = f"http://127.0.0.1:{port}/v1/chat/completions"
            await client.post(url, content=ASKED, headers={"authorization": "Bearer sk-bench"})

        return await measure_rate(whole, at_once, seconds)


def main(seconds: float = 2.0) -> None:
    mine, other = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(other,), daemon=True)
    server.start()
    port = mine.recv()
    for at_once in (1, 16):
        for is_stream in (False, True):
            shown = uvloop.run(ours(port, at_once, is_stream=is_stream, seconds=seconds))
            print(f"ours   {'stream' if is_stream else 'whole '} {at_once:3} at once {shown}")
        if importlib.util.find_spec("httpx"):
            shown = uvloop.run(theirs(port, at_once, seconds=seconds))
            print(f"httpx  whole  {at_once:3} at once {shown}")
    server.terminate()
    server.join()


if __name__ == "__main__":
    main()
