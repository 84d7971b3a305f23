"""One request on its way: the answer as it comes in, and who waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Protocol

from msgspec import Struct

from pointsman.providers.http.event_stream import EVENT_STREAM, BadFrame, EventStreamDecoder
from pointsman.providers.key_choice import KeyChoice
from pointsman.providers.port import Deadlines, ErrorClass, UpstreamError

MIB = 1024 * 1024

Take = Callable[[bytes], bool]
"""Takes a piece of a body at once; False where it wants no further one."""

_HIGH_WATER = 256 * 1024
_LOW_WATER = 64 * 1024
_MANY_PIECES = 1024


class AnswerLimits(Struct, frozen=True):
    """How much of an answer is taken, in bytes: when read whole, when taken piece by piece."""

    body_bytes: int = 64 * MIB
    stream_bytes: int = 512 * MIB


class RequestBytes:
    """The bytes of one request. They hold a key, so they are not shown."""

    __slots__ = ("body", "head", "key", "key_choice")

    def __init__(self, head: bytes, body: bytes) -> None:
        self.head = head
        self.body = body
        self.key = 0
        """Which of the provider's keys it holds, by its number."""
        self.key_choice: KeyChoice | None = None

    def __repr__(self) -> str:
        return "Message()"


class AnswerSource(Protocol):
    """The connection an answer comes in on."""

    def pause(self) -> None:
        """Read no more for now."""

    def resume(self) -> None:
        """Read on."""

    def hurry(self, seconds: float) -> None:
        """Bound the rest of the answer to so many seconds."""

    def abort(self) -> None:
        """Close at once."""


class Exchange:
    """An answer being received; a `port.Answer` once its head is here.

    The buffer is bounded: when the one who reads lags behind, the connection is not read. The
    connection goes back to its pool with the last byte, before that byte is given out.
    """

    __slots__ = (
        "_callback", "_decoder", "_failure", "_is_paused", "_is_whole", "_limits", "_loop",
        "_pieces", "_refusal", "_size", "_source", "_take", "_total", "_waiter", "attempts",
        "credential", "deadlines", "deployment_choice", "ends_at", "has_begun", "headers",
        "is_stale", "key", "key_choice", "status",
    )  # fmt: skip

    def __init__(
        self,
        source: AnswerSource,
        loop: asyncio.AbstractEventLoop,
        deadlines: Deadlines,
        ends_at: float,
        limits: AnswerLimits,
    ) -> None:
        self.status = 0
        self.headers: Mapping[str, str] = {}
        self.attempts = 1
        self.key = 0
        self.key_choice: KeyChoice | None = None
        self.deployment_choice: KeyChoice | None = None
        self.credential = ""
        self.deadlines = deadlines
        self.ends_at = ends_at
        self.has_begun = False
        self.is_stale = False
        self._source: AnswerSource | None = source
        self._loop = loop
        self._limits = limits
        self._pieces: list[bytes] = []
        self._size = 0
        self._total = 0
        self._waiter: asyncio.Future[None] | None = None
        self._failure: tuple[str, ErrorClass] | None = None
        self._decoder: EventStreamDecoder | None = None
        """Turns binary events into text as they come."""
        self._is_whole = False
        self._is_paused = False
        self._callback: Callable[[], None] | None = None
        self._take: Take | None = None
        """Takes pieces as they come in; the reader waits for the end."""
        self._refusal: Exception | None = None
        """What `_take` raised."""

    # What the connection tells.

    def on_head(self, status: int, headers: dict[str, str]) -> None:
        """Take the head."""
        self.status = status
        self.headers = headers
        if headers.get("content-type") == EVENT_STREAM:
            self._decoder = EventStreamDecoder(headers.get("x-amzn-requestid", ""))
        if self._waiter is not None or status != 200:
            self._wake()

    def on_piece(self, piece: bytes) -> None:
        """Take a piece of the body."""
        if self._decoder is not None:
            piece = self._decode(self._decoder, piece)
            if not piece:
                return
        if self._take is not None and self._pass(self._take, piece):
            return
        self._pieces.append(piece)
        self._size += len(piece)
        is_much = self._size > _HIGH_WATER or len(self._pieces) > _MANY_PIECES
        if is_much and not self._is_paused and self._source is not None:
            self._is_paused = True
            self._source.pause()
            self._wake()
        elif self._waiter is not None:
            self._wake()

    def on_end(self) -> None:
        """Learn that the answer is whole; the connection belongs to others from now on."""
        if self._decoder is not None and self._decoder.is_within:
            self.on_failure("the event stream ended within an event", "network")
            return
        self._source = None
        self._is_whole = True
        self._wake()

    def _decode(self, decoder: EventStreamDecoder, piece: bytes) -> bytes:
        try:
            return decoder.feed(piece)
        except BadFrame as error:
            source = self._source
            self.on_failure(f"the event stream cannot be read: {error}", "network")
            if source is not None:
                source.abort()
            return b""

    def on_failure(self, message: str, error_class: ErrorClass) -> None:
        """Learn that nothing more will come."""
        self._source = None
        self._failure = (message, error_class)
        self._wake()

    def on_stale(self) -> None:
        """Learn that the kept connection was closed before a byte came back."""
        self.is_stale = True
        self.on_failure("the kept connection was closed", "network")

    # What the one who asked does.

    def on_complete(self, callback: Callable[[], None]) -> None:
        """Call back in place of waiting: once it is whole, or must be looked at before.

        That is when it failed, when its status is not 200, and when it is more than is kept here.
        """
        if self._is_whole or self._failure is not None:
            callback()
        else:
            self._callback = callback

    def whole(self) -> bytes | None:
        """Return the whole body without removing it; None where it is incomplete or too long."""
        if not self._is_whole or self._size > self._limits.body_bytes:
            return None
        pieces = self._pieces
        if len(pieces) != 1:
            self._pieces = pieces = [b"".join(pieces)]
        return pieces[0]

    async def wait_for_head(self) -> bool:
        """Wait for the head; False when the request may be sent again on a new connection."""
        while self.status == 0:
            if self.is_stale:
                return False
            self._raise_failure()
            await self._wait()
        return True

    @property
    def is_over(self) -> bool:
        """Whether the piece given last is known to be the last."""
        return self._is_whole and not self._pieces

    def __aiter__(self) -> Exchange:
        return self

    async def __anext__(self) -> bytes:
        """Return the next piece of the body."""
        while not self._pieces:
            self._raise_failure()
            if self._is_whole:
                raise StopAsyncIteration
            await self._wait()
        piece = self._take_pieces()
        self._total += len(piece)
        if self._total > self._limits.stream_bytes:
            self._refuse_length(self._limits.stream_bytes)
        return piece

    async def pass_on(self, take: Take) -> bool:
        """Hand pieces to `take` as they come, with no turn of a task for each.

        Returns True once `take` returned False, and False once nothing more comes; what broke the
        answer off is raised by the next read.
        """
        while self._pieces:
            if not take(await self.__anext__()):
                return True
        if self._is_whole or self._failure is not None:
            return False
        self._take = take
        try:
            await self._wait()
        finally:
            has_stopped, self._take = self._take is None, None
        refusal, self._refusal = self._refusal, None
        if refusal is not None:
            raise refusal
        return has_stopped

    def _pass(self, take: Take, piece: bytes) -> bool:
        """Hand a piece on; False where the stream is too long for that."""
        if self._total + len(piece) > self._limits.stream_bytes:
            return False
        self._total += len(piece)
        try:
            goes_on = take(piece)
        except Exception as error:  # noqa: BLE001 - raised where the answer is read
            self._refusal, goes_on = error, False
        if not goes_on:
            self._take = None
            self._wake()
        return True

    async def read(self) -> bytes:
        """Return the whole body."""
        limit = self._limits.body_bytes
        if self._is_whole and self._size <= limit:
            return self._take_pieces()
        if not self._is_whole:
            length = self.headers.get("content-length", "0")
            if int(length) > limit:
                self._refuse_length(limit)
        taken: list[bytes] = []
        size = 0
        while True:
            size += self._size
            if size > limit:
                self._refuse_length(limit)
            taken.append(self._take_pieces())
            if self._is_whole:
                return b"".join(taken)
            self._raise_failure()
            await self._wait()

    async def close(self) -> None:
        """Let go; an answer that is not whole takes its connection with it."""
        if self._source is not None:
            self._abandon()
        self._pieces.clear()
        self._size = 0

    def hurry(self, seconds: float) -> None:
        """Let the rest come within so many seconds."""
        if self._source is not None:
            self._source.hurry(seconds)

    def _take_pieces(self) -> bytes:
        pieces = self._pieces
        if len(pieces) == 1:
            piece = pieces.pop()
        else:
            piece = b"".join(pieces)
            pieces.clear()
        self._size = 0
        if self._is_paused:
            self._is_paused = False
            if self._source is not None:
                self._source.resume()
        return piece

    async def _wait(self) -> None:
        waiter = self._waiter = self._loop.create_future()
        try:
            await waiter
        except BaseException:
            # Cancelled: the caller will not read on, so the provider need not go on either.
            self._abandon()
            raise
        finally:
            self._waiter = None

    def _wake(self) -> None:
        # Once is enough, however much has come before the waiter looks at it.
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()

    def cut_soon(self, why: str) -> None:
        """End the answer with an error, because an order forbids the call; from any thread."""
        self._loop.call_soon_threadsafe(self._end_stopped, why)

    def _end_stopped(self, why: str) -> None:
        source = self._source
        if source is not None:
            self.on_failure(why, "stopped")
            source.abort()

    def discard(self) -> None:
        """Drop the answer: its caller is gone."""
        self._callback = None
        self._abandon()

    def _abandon(self) -> None:
        source = self._source
        if source is not None:
            self.on_failure("the answer was let go", "cancelled")
            source.abort()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            message, error_class = self._failure
            raise UpstreamError(
                message,
                error_class=error_class,
                status=self.status,
                attempts=self.attempts,
                credential=self.credential,
            )

    def _refuse_length(self, limit: int) -> None:
        self._abandon()
        self._pieces.clear()
        self._failure = (f"the answer is longer than {limit} bytes", "other")
        self._raise_failure()
