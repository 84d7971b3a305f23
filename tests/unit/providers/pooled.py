"""Calls through a pool to an upstream that says what it was told to."""

import asyncio

import pytest
from tests.unit.providers.calling import BODIES, LOOPS, SMALL, run

from pointsman.providers.http.exchange import RequestBytes
from pointsman.providers.http.pool import ConnectionPool
from pointsman.providers.port import Deadlines
from pointsman.testing.upstream import ScriptedUpstream
from pointsman.testing.upstream_replies import STREAM_HEAD, Pause, SendBytes, chunk, does
from pointsman.turns.registry.upstream import UpstreamOrigin

BOTH = pytest.mark.parametrize("loop", LOOPS)
PATIENT = Deadlines()
HANGS = does(SendBytes(STREAM_HEAD + chunk(b"begun")), Pause())


def message(body=BODIES["chat"] % ""):
    head_ = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
    return RequestBytes(head_.encode(), body.encode())


class Calls:
    """A pool on an upstream, closed at the end."""

    def __init__(self, upstream, settings=SMALL, **more):
        self.pool = ConnectionPool(
            UpstreamOrigin(False, "127.0.0.1", upstream.port), settings, **more
        )
        self.upstream = upstream

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_error):
        await self.pool.close()
        await self.upstream.wait_for_disconnects()
        assert self.pool.open_connections == 0

    async def ask(self, deadlines=PATIENT, **more):
        ends_at = asyncio.get_running_loop().time() + deadlines.total_s
        return await self.pool.request(message(**more), deadlines, ends_at)


def scripted(work, *replies, loop="asyncio", settings=SMALL, **more):
    """Run with an upstream that follows a script and a pool on it."""

    async def all_of_it():
        async with ScriptedUpstream(*replies, **more) as upstream, Calls(upstream, settings) as it:
            return await work(it, upstream)

    return run(all_of_it, loop)
