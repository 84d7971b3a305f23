"""One client's connection, with the deadlines and the size that uvicorn does not hold it to.

A head must arrive whole, in time and within its size; a client that does not read is cut.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from pointsman.storage.settings import Server


class _Connection(HttpToolsProtocol):
    """A connection to the gateway."""

    limits: Server

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for the first head."""
        super().connection_made(transport)  # type: ignore[arg-type] # a stream's transport
        self._received = 0
        self._is_in_head = True
        self._stalled: asyncio.TimerHandle | None = None
        self._waiting: asyncio.TimerHandle | None = self._head_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop every clock."""
        _stop(self._stalled)
        _stop(self._waiting)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what came in; a head may be no larger than allowed."""
        if self._is_in_head:
            self._received += len(data)
        super().data_received(data)
        if not self._is_in_head or not self._received:
            return
        if self._received > self.limits.max_head_bytes:
            self._refuse("the head is larger than allowed")
        elif self._waiting is None:
            self._waiting = self._head_deadline()

    def on_headers_complete(self) -> None:
        """Begin to serve, unless the head is too large."""
        self._is_in_head = False
        _stop(self._waiting)
        self._waiting = None
        if self._received > self.limits.max_head_bytes:
            size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
            if size > self.limits.max_head_bytes:
                # The parser turns it into a 400 and the end of the connection.
                raise ValueError("the head is larger than allowed")
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Be ready for another head."""
        super().on_message_complete()
        self._is_in_head = True
        self._received = 0

    def pause_writing(self) -> None:
        """Learn that the client does not read; it has a while to begin again."""
        super().pause_writing()
        if self._stalled is None:
            timeout_s = self.limits.write_timeout_s
            self._stalled = self.loop.call_later(timeout_s, self.transport.abort)

    def resume_writing(self) -> None:
        """Learn that the client reads again."""
        _stop(self._stalled)
        self._stalled = None
        super().resume_writing()

    def _head_deadline(self) -> asyncio.TimerHandle:
        return self.loop.call_later(self.limits.head_timeout_s, self._head_is_late)

    def _head_is_late(self) -> None:
        self._waiting = None
        if self._received:
            self._refuse("the head took too long to arrive")
        else:
            self.transport.close()

    def _refuse(self, message: str) -> None:
        if not self.transport.is_closing():
            self.send_400_response(message)


def connections(server: Server) -> type[asyncio.Protocol]:
    """Give the protocol of connections that are held to these limits."""
    members: dict[str, Any] = {"limits": server}
    return type("Connection", (_Connection,), members)


def _stop(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
