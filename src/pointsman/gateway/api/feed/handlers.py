"""`GET /api/events`: the live feed as server-sent events."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from pointsman.errors import LedgerError
from pointsman.gateway.api.request import ApiRequest
from pointsman.gateway.serving.http import (
    EVENTS,
    NO_STORE,
    Answer,
    AnswerWriter,
    Receive,
    Send,
    in_thread,
)
from pointsman.gateway.serving.services import GatewayServices
from pointsman.gateway.turns.endpoints import DisconnectWatch

HEARTBEAT_S: Final = 15.0
_HEAD: Final = (EVENTS, NO_STORE, (b"x-accel-buffering", b"no"))
_BEAT: Final = b": beat\n\n"


class FeedApi:
    """Serves the live feed."""

    def __init__(self, parts: GatewayServices, heartbeat_s: float = HEARTBEAT_S) -> None:
        self._parts = parts
        self._heartbeat_s = heartbeat_s

    async def follow(self, request: ApiRequest) -> AnswerWriter | Answer:
        """Send recorded events until the reader leaves or the gateway stops."""
        if request.asked.method == "HEAD":
            return Answer(b"", _HEAD)
        reach = request.caller.reach
        return AnswerWriter(lambda receive, send: self._stream(receive, send, reach))

    async def _stream(self, receive: Receive, send: Send, reach: str | None) -> None:
        feed = self._parts.feed
        reader = feed.join(reach)
        watch = DisconnectWatch(receive)
        try:
            if feed.look is not None:
                # From here on: what another process records once the reader has a head is told.
                with suppress(LedgerError):
                    await in_thread(feed.look)
            await send.begin(200, _HEAD, b"retry: 2000\n: follows\n\n")
            while not reader.has_ended:
                await send.more(await reader.next(self._heartbeat_s) or _BEAT)
            send.end()
        except asyncio.CancelledError:
            if not watch.has_left:
                raise
        finally:
            watch.end()
            feed.leave(reader)
