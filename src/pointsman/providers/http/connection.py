"""One connection to a provider: writes a request, reads its answer, keeps the deadlines."""

from __future__ import annotations

import asyncio
from math import inf
from typing import Protocol, cast

from pointsman.providers.http.exchange import AnswerLimits, Exchange, RequestBytes
from pointsman.providers.http.parsing import AnswerReader, BadAnswer
from pointsman.providers.port import Deadlines, ErrorClass

_EARLY_S = 0.002
"""Timers may fire this much before their time."""

_TURN_S = 0.001
"""Time for the loop to look at its sockets once more."""

_JOINED_BYTES = 64 * 1024
"""Bodies up to this size go out with the head in one write."""


class Owner(Protocol):
    """The pool a connection belongs to."""

    def release(self, connection: UpstreamConnection) -> None:
        """Take it back: its answer is whole and it can serve again."""

    def forget(self, connection: UpstreamConnection) -> None:
        """Forget it: it is closed."""


class UpstreamConnection(asyncio.Protocol):
    """A connection that serves one exchange at a time.

    It has one timer, which is moved only when it fires too early: a request that is answered in
    time costs no timer at all.
    """

    __slots__ = (
        "_armed_for", "_due", "_exchange", "_has_served", "_is_paused", "_limits", "_loop",
        "_name", "_owner", "_reader", "_timer", "_transport", "born",
    )  # fmt: skip

    def __init__(
        self, owner: Owner, loop: asyncio.AbstractEventLoop, name: str, limits: AnswerLimits
    ) -> None:
        self._owner = owner
        self.born = loop.time()
        """When it was opened."""
        self._loop = loop
        self._name = name
        self._limits = limits
        self._reader = AnswerReader()
        self._transport: asyncio.Transport | None = None
        self._exchange: Exchange | None = None
        self._has_served = False
        self._is_paused = False
        self._due = inf
        self._armed_for = inf
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_lost(self) -> bool:
        """Tell whether it is closed."""
        return self._transport is None

    def begin(self, message: RequestBytes, deadlines: Deadlines, ends_at: float) -> Exchange:
        """Write a request; its answer comes with the exchange."""
        exchange = Exchange(self, self._loop, deadlines, ends_at, self._limits)
        transport = self._transport
        if transport is None or transport.is_closing():
            self._end_with_connection(exchange, None)
            return exchange
        self._exchange = exchange
        self._reader.expect(exchange)
        if len(message.body) <= _JOINED_BYTES:
            transport.write(message.head + message.body)
        else:
            transport.write(message.head)
            transport.write(message.body)
        self._set_due(min(self._loop.time() + deadlines.head_s, ends_at))
        return exchange

    def rest(self, seconds: float) -> None:
        """Wait for the next request, but no longer than this."""
        self._set_due(self._loop.time() + seconds)

    def break_off(self, message: str, error_class: ErrorClass) -> None:
        """Close at once, and tell who waits why."""
        exchange = self._exchange
        self.abort()
        if exchange is not None:
            exchange.on_failure(message, error_class)

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Read on; bytes without a request end the connection."""
        exchange = self._exchange
        if exchange is None:
            self.abort()
            return
        exchange.has_begun = True
        reader = self._reader
        try:
            reader.feed(data)
        except BadAnswer as error:
            self.break_off(f"`{self._name}` gave a bad answer: {error}", "network")
            return
        if reader.is_done:
            self._finish(exchange)
        elif reader.has_head and not self._is_paused:
            self._set_due(min(self._loop.time() + exchange.deadlines.idle_s, exchange.ends_at))

    def connection_lost(self, exc: Exception | None) -> None:
        """End the exchange under way."""
        self._stop_timer()
        exchange = self._exchange
        if exchange is not None:
            self._end_with_connection(exchange, exc)
        self._transport = None
        self._owner.forget(self)

    # What the exchange calls.

    def pause(self) -> None:
        """Read no more for now: who reads the answer lags behind."""
        if self._transport is not None:
            self._transport.pause_reading()
            self._is_paused = True

    def resume(self) -> None:
        """Read on."""
        exchange = self._exchange
        if self._transport is None or exchange is None or self._transport.is_closing():
            return
        self._is_paused = False
        self._transport.resume_reading()
        self._set_due(min(self._loop.time() + exchange.deadlines.idle_s, exchange.ends_at))

    def hurry(self, seconds: float) -> None:
        """Bound the rest of the answer to so many seconds, however it trickles."""
        exchange = self._exchange
        if exchange is not None:
            exchange.ends_at = min(exchange.ends_at, self._loop.time() + seconds)
            self._set_due(min(self._due, exchange.ends_at))

    def abort(self) -> None:
        """Close at once."""
        self._exchange = None
        if self._transport is not None:
            self._transport.abort()

    def _finish(self, exchange: Exchange) -> None:
        self._exchange = None
        self._has_served = True
        transport = self._transport
        can_serve = (
            self._reader.keeps_alive
            and transport is not None
            and not transport.is_closing()
            and transport.get_write_buffer_size() == 0
        )
        if can_serve:
            if self._is_paused and transport is not None:
                self._is_paused = False
                transport.resume_reading()
            exchange.on_end()
            self._owner.release(self)
        else:
            exchange.on_end()
            self.abort()

    def _end_with_connection(self, exchange: Exchange, exc: Exception | None) -> None:
        self._exchange = None
        if self._has_served and not exchange.has_begun:
            exchange.on_stale()
            return
        if exc is None:
            try:
                self._reader.feed_eof()
            except BadAnswer as error:
                exchange.on_failure(f"`{self._name}` gave no whole answer: {error}", "network")
            else:
                exchange.on_end()
        else:
            part = "in the middle of" if exchange.has_begun else "before"
            exchange.on_failure(f"`{self._name}` broke the connection {part} its answer", "network")

    # The deadlines.

    def _set_due(self, due: float) -> None:
        self._due = due
        if due < self._armed_for:
            self._stop_timer()
            self._armed_for = due
            self._timer = self._loop.call_at(due, self._on_timer)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._armed_for = inf

    def _next_due(self) -> float:
        # While reading is paused it is not the provider who is slow: only the whole call ends.
        exchange = self._exchange
        return exchange.ends_at if exchange is not None and self._is_paused else self._due

    def _on_timer(self) -> None:
        due = self._next_due()
        self._armed_for = due
        if self._loop.time() + _EARLY_S < due:
            self._timer = self._loop.call_at(due, self._on_timer)
        else:
            # Perhaps this program was too busy to read bytes: one turn of the loop shows it.
            self._timer = self._loop.call_later(_TURN_S, self._on_due, due)

    def _on_due(self, due: float) -> None:
        self._timer = None
        if self._next_due() != due:
            self._on_timer()
        elif self._exchange is None:
            self.abort()
        else:
            now = self._loop.time()
            self.break_off(_late(self._name, self._exchange, now), "timeout")


def _late(name: str, exchange: Exchange, now: float) -> str:
    if now + _EARLY_S >= exchange.ends_at:
        return f"`{name}` did not end its answer in time"
    if exchange.status == 0:
        return f"`{name}` did not begin its answer within {exchange.deadlines.head_s:g} s"
    return f"`{name}` sent nothing more for {exchange.deadlines.idle_s:g} s"
