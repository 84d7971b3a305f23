"""A provider that follows a script: a real server on a loopback port, with every fault by name."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import struct
from collections import deque
from collections.abc import Sequence
from typing import Self, cast

import httptools

from pointsman.testing.upstream_replies import (
    Close,
    Pause,
    Received,
    Reply,
    Reset,
    SendBytes,
    Step,
    fails,
    says,
)

_NEEDED = {
    "chat": ("model", "messages"),
    "responses": ("model", "input"),
    "messages": ("model", "messages", "max_tokens"),
    "gemini": ("contents",),
    "converse": ("messages",),
}


class ScriptedUpstream:
    """Speaks the wire formats of OpenAI (chat, responses), Anthropic (messages), Google and Amazon.

    `async with ScriptedUpstream(says("hello")) as upstream:` listens on `upstream.base_url`. The
    replies are used one after the other; when none is left, `otherwise` answers. Received requests
    stand in `requests`. With `listens=False` connections are refused.
    """

    def __init__(
        self,
        *replies: Reply,
        otherwise: Reply | None = None,
        tls: ssl.SSLContext | None = None,
        listens: bool = True,
    ) -> None:
        self.requests: list[Received] = []
        self.connections_made = 0
        self._replies = deque(replies)
        self._otherwise = otherwise or says("hello from the script")
        self._tls = tls
        self._listens = listens
        self._server: asyncio.Server | None = None
        self._socket: socket.socket | None = None
        self._open: set[_ServedConnection] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def port(self) -> int:
        """The port it listens on."""
        if self._socket is None:
            raise RuntimeError("the upstream was not started")
        return int(self._socket.getsockname()[1])

    @property
    def base_url(self) -> str:
        """Its address, without a path."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    @property
    def open_connections(self) -> int:
        """How many connections are open."""
        return len(self._open)

    def then(self, *replies: Reply) -> None:
        """Add replies to the script."""
        self._replies.extend(replies)

    async def __aenter__(self) -> Self:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", 0))
        if self._listens:
            loop = asyncio.get_running_loop()
            self._server = await loop.create_server(
                lambda: _ServedConnection(self), sock=self._socket, ssl=self._tls, backlog=1024
            )
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Break off everything and stop listening."""
        if self._server is not None:
            self._server.close()
        elif self._socket is not None:
            self._socket.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for connection in [*self._open]:
            connection.break_off()
        while self._open:
            await asyncio.sleep(0)

    async def wait_for_disconnects(self, timeout_s: float = 10.0) -> None:
        """Wait until every client has closed its connections."""
        async with asyncio.timeout(timeout_s):
            while self._open:
                await asyncio.sleep(0.001)

    # Called by connections.

    def add_connection(self, connection: _ServedConnection) -> int:
        """Count a connection."""
        self._open.add(connection)
        self.connections_made += 1
        return self.connections_made

    def remove_connection(self, connection: _ServedConnection) -> None:
        """Forget a connection."""
        self._open.discard(connection)

    def steps_for(self, request: Received) -> Sequence[Step]:
        """Record a request and return the script's steps for it."""
        self.requests.append(request)
        refusal = _find_refusal(request)
        if refusal is not None:
            return refusal(request)
        reply = self._replies.popleft() if self._replies else self._otherwise
        return reply(request)

    def run(self, connection: _ServedConnection, steps: Sequence[Step]) -> asyncio.Task[None]:
        """Follow steps that take time."""
        task = asyncio.get_running_loop().create_task(connection.follow(steps))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _find_refusal(request: Received) -> Reply | None:
    """Return the error for a request that the vendor's server would refuse."""
    if request.operation:
        is_form = (request.header("content-type") or "").startswith("multipart/form-data")
        is_named = is_form or isinstance(request.json.get("model"), str)
        return None if is_named else fails(400, "invalid_request_error", "model: Field required")
    if request.path.endswith("/token") or request.path == "/":
        return None
    is_known = request.path.endswith(("/chat/completions", "/responses", "/messages"))
    if not (is_known or request.dialect in ("gemini", "converse", "messages")):
        return fails(404, "not_found_error", "no such path")
    needed = _NEEDED[request.dialect]
    is_cloud = request.dialect == "messages" and not request.path.endswith("/messages")
    if is_cloud:
        # The model stands in the address, and the version in its place.
        needed = ("anthropic_version", *needed[1:])
    missing = [name for name in needed if request.json.get(name) is None]
    if missing:
        return fails(400, "invalid_request_error", f"{missing[0]}: Field required")
    is_messages = request.dialect == "messages" and not is_cloud
    if is_messages and request.header("anthropic-version") is None:
        return fails(400, "invalid_request_error", "anthropic-version: header is required")
    return None


class _ServedConnection(asyncio.Protocol):
    """One client."""

    def __init__(self, upstream: ScriptedUpstream) -> None:
        self._upstream = upstream
        self._number = 0
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._can_write = asyncio.Event()
        self._can_write.set()
        self._task: asyncio.Task[None] | None = None
        self._target = b""
        self._headers: list[tuple[str, str]] = []
        self._body: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._number = self._upstream.add_connection(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio names it
        self._transport = None
        if self._task is not None:
            self._task.cancel()
        self._upstream.remove_connection(self)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self.break_off()

    def pause_writing(self) -> None:
        self._can_write.clear()

    def resume_writing(self) -> None:
        self._can_write.set()

    def on_message_begin(self) -> None:
        self._target, self._headers, self._body = b"", [], []

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.decode("latin-1").lower(), value.decode("latin-1")))

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        request = Received(
            self._parser.get_method().decode(),
            self._target.decode("latin-1"),
            tuple(self._headers),
            b"".join(self._body),
            self._number,
        )
        steps = self._upstream.steps_for(request)
        if all(isinstance(step, SendBytes) and step.times == 1 for step in steps):
            self._write(b"".join(step.data for step in steps if isinstance(step, SendBytes)))
        else:
            self._task = self._upstream.run(self, steps)

    async def follow(self, steps: Sequence[Step]) -> None:
        for step in steps:
            match step:
                case SendBytes(data, times):
                    await self._send(data, times)
                case Pause(seconds):
                    await asyncio.sleep(86_400 if seconds is None else seconds)
                case Close():
                    if self._transport is not None:
                        self._transport.close()
                case Reset():
                    self.break_off()

    async def _send(self, data: bytes, times: int) -> None:
        sent = 0
        while self._transport is not None and (times == 0 or sent < times):
            self._write(data)
            sent += 1
            await self._can_write.wait()
            # Pieces are to arrive as pieces.
            await asyncio.sleep(0)

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def break_off(self) -> None:
        if self._transport is None:
            return
        sock = self._transport.get_extra_info("socket")
        # A copy of the descriptor, because uvloop does not give the socket itself.
        with socket.socket(fileno=os.dup(sock.fileno())) as own:
            own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()
