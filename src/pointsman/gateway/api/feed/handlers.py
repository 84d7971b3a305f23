"""`GET /api/events`: the live feed as server-sent events."""

from __future__ import annotations

import asyncio
from typing import Final

from pointsman.gateway.access import check_reader
from pointsman.gateway.api.feed.live import Reader
from pointsman.gateway.asgi import Handler
from pointsman.gateway.http import EVENTS, NO_STORE, Asked, Receive, Send
from pointsman.gateway.parts import Parts
from pointsman.gateway.turns.endpoints import DisconnectWatch

HEARTBEAT_S: Final = 15.0
_BEAT: Final = b": beat\n\n"


class Following:
    """Serves the live feed."""

    def __init__(self, parts: Parts, heartbeat_s: float = HEARTBEAT_S) -> None:
        self._parts = parts
        self._heartbeat_s = heartbeat_s

    def routes(self) -> dict[tuple[str, str], Handler]:
        """Give what is served where."""
        return {("GET", "/api/events"): self.events}

    async def events(self, asked: Asked, receive: Receive, send: Send) -> None:
        """Tell what is recorded, until the reader leaves or the gateway stops."""
        check_reader(self._parts, asked)
        feed = self._parts.feed
        reader = feed.join()
        watch = DisconnectWatch(receive)
        try:
            await self._told(reader, send)
        except asyncio.CancelledError:
            if not watch.has_left:
                raise
        finally:
            watch.end()
            feed.leave(reader)

    async def _told(self, reader: Reader, send: Send) -> None:
        head = [EVENTS, NO_STORE, (b"x-accel-buffering", b"no")]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await _more(send, b"retry: 2000\n: follows\n\n")
        while not reader.has_ended:
            await _more(send, await reader.next(self._heartbeat_s) or _BEAT)
        await send({"type": "http.response.body", "body": b""})


async def _more(send: Send, data: bytes) -> None:
    await send({"type": "http.response.body", "body": data, "more_body": True})
