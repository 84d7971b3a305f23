"""Serving connections until told to stop: one event loop, one sweep over all that may be late."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, Protocol

import uvloop
from msgspec import Struct

from pointsman.gateway.wire.body_memory import BodyMemory, trim_memory
from pointsman.gateway.wire.connection import ClientConnection, HttpService
from pointsman.storage.policies.settings import Server

SWEPT_EVERY_S: Final = 0.1
BACKLOG: Final = 2048
ACCEPTS_A_ROUND: Final = 8
"""How often the listening socket is registered with the event loop, which accepts one caller a
round on each: beside a thousand streams a round is long, and callers would wait for seconds."""


class Lifeline(Struct, frozen=True):
    """What ties a worker to its supervisor: a file that ends with it, and one to say "ready"."""

    life: int
    ready: int


class LivingService(HttpService, Protocol):
    """A service that has a beginning and an end."""

    def begin(self) -> None:
        """Begin; in the event loop."""
        ...

    def drain(self) -> None:
        """Answer readiness checks with no from now on."""
        ...

    def stop(self) -> None:
        """Let go of callers that would stay for ever."""
        ...

    async def end(self) -> None:
        """End, once no request is being served."""
        ...


class Serving:
    """Serves on sockets that listen."""

    def __init__(
        self, service: LivingService, limits: Server, lifeline: Lifeline | None = None
    ) -> None:
        self.service = service
        self.limits = limits
        self._lifeline = lifeline
        self.loop: asyncio.AbstractEventLoop
        self.connections: set[ClientConnection] = set()
        self.untried: dict[ClientConnection, None] = {}
        self.tasks: set[asyncio.Task[None]] = set()
        self.bodies = BodyMemory()
        self.servers: list[asyncio.AbstractServer] = []
        self.started = False
        self.should_exit = False
        self.is_hurried = False

    def run(self, sockets: Sequence[socket.socket]) -> None:
        """Serve until told to stop; requests in flight get time to end."""
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._serve(sockets))

    async def _serve(self, sockets: Sequence[socket.socket]) -> None:
        self.loop = asyncio.get_running_loop()
        self._heed_signals()
        self.service.begin()
        for each in sockets:
            for _ in range(ACCEPTS_A_ROUND - 1):
                await self._listen(each.dup())
            await self._listen(each)
        self.started = True
        if self._lifeline is not None:
            os.write(self._lifeline.ready, b"r")
            os.close(self._lifeline.ready)
        while not self.should_exit:
            await asyncio.sleep(SWEPT_EVERY_S)
            self._sweep()
        await self._drain()
        await self._stop()

    async def _listen(self, listening: socket.socket) -> None:
        server = await self.loop.create_server(
            lambda: ClientConnection(self), sock=listening, backlog=BACKLOG
        )
        self.servers.append(server)

    def _heed_signals(self) -> None:
        if threading.current_thread() is threading.main_thread():
            heeded = (
                (signal.SIGINT, signal.SIGTERM) if self._lifeline is None else (signal.SIGTERM,)
            )
            for each in heeded:
                self.loop.add_signal_handler(each, self._exit)
        if self._lifeline is not None:
            # It is readable once no supervisor holds its other end.
            self.loop.add_reader(self._lifeline.life, self._outlive)

    def _outlive(self) -> None:
        """End as well: without its supervisor a worker would hold the port for ever."""
        if self._lifeline is not None:
            self.loop.remove_reader(self._lifeline.life)
        self.should_exit = True

    def _exit(self) -> None:
        # A second signal waits no longer.
        self.is_hurried = self.should_exit
        self.should_exit = True

    async def _drain(self) -> None:
        """Serve on for a while, so that a load balancer can learn to send no more callers."""
        self.service.drain()
        until = self.loop.time() + self.limits.drain_s
        while self.loop.time() < until and not self.is_hurried:
            await asyncio.sleep(SWEPT_EVERY_S)
            self._sweep()

    def _sweep(self) -> None:
        now = self.loop.time()
        for each in tuple(self.connections):
            each.check_deadlines(now)
        if self.bodies.is_trim_due(now):
            self.loop.run_in_executor(None, trim_memory)

    async def _stop(self) -> None:
        for listening in self.servers:
            listening.close()
        self.service.stop()
        for each in tuple(self.connections):
            each.stop()
        until = self.loop.time() + self.limits.grace_s
        while (self.connections or self.tasks) and self.loop.time() < until:
            await asyncio.sleep(SWEPT_EVERY_S / 10)
            self._sweep()
        for task in tuple(self.tasks):
            task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await task
        for each in tuple(self.connections):
            each.abort()
        await self.service.end()
