"""Pieces of an answer are handed on as they come in, and no faster than they are taken."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from pointsman.providers.http.exchange import AnswerLimits, Exchange
from pointsman.providers.port import Deadlines, UpstreamError


class Source:
    """The connection an answer comes in on."""

    def __init__(self) -> None:
        self.is_paused = self.is_closed = False

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False

    def hurry(self, seconds: float) -> None:
        raise NotImplementedError

    def abort(self) -> None:
        self.is_closed = True


def run(work: Callable[[Exchange, Source], Awaitable[None]], stream_bytes: int = 1000) -> None:
    async def whole() -> None:
        source, limits = Source(), AnswerLimits(stream_bytes=stream_bytes)
        loop = asyncio.get_running_loop()
        exchange = Exchange(source, loop, Deadlines(), loop.time() + 60, limits)
        exchange.on_head(200, {})
        await work(exchange, source)

    asyncio.run(whole())


def test_pieces_are_taken_in_the_call_that_brings_them() -> None:
    async def work(exchange: Exchange, _source: Source) -> None:
        taken: list[bytes] = []
        exchange.on_piece(b"before")
        passing = asyncio.ensure_future(exchange.pass_on(lambda piece: not taken.append(piece)))
        await asyncio.sleep(0)
        exchange.on_piece(b"one")
        exchange.on_piece(b"two")
        assert taken == [b"before", b"one", b"two"]
        exchange.on_end()
        assert await passing is False
        assert exchange.is_over

    run(work)


def test_what_comes_after_a_taker_has_enough_waits_for_the_next_one() -> None:
    async def work(exchange: Exchange, source: Source) -> None:
        passing = asyncio.ensure_future(exchange.pass_on(lambda _piece: False))
        await asyncio.sleep(0)
        exchange.on_piece(b"enough")
        exchange.on_piece(b"x" * 300_000)
        assert source.is_paused
        assert await passing is True
        assert await anext(exchange) == b"x" * 300_000
        assert not source.is_paused

    run(work, 1_000_000)


def test_an_error_of_the_taker_is_raised_where_the_answer_is_read() -> None:
    async def work(exchange: Exchange, _source: Source) -> None:
        def take(_piece: bytes) -> bool:
            raise UpstreamError("unreadable")

        passing = asyncio.ensure_future(exchange.pass_on(take))
        await asyncio.sleep(0)
        exchange.on_piece(b"?")
        with pytest.raises(UpstreamError, match="unreadable"):
            await passing

    run(work)


def test_a_stream_that_breaks_off_ends_the_passing_and_the_next_read_says_why() -> None:
    async def work(exchange: Exchange, _source: Source) -> None:
        passing = asyncio.ensure_future(exchange.pass_on(lambda _piece: True))
        await asyncio.sleep(0)
        exchange.on_failure("broken", "network")
        assert await passing is False
        with pytest.raises(UpstreamError, match="broken"):
            await anext(exchange)

    run(work)


def test_a_stream_that_is_too_long_is_refused_while_it_is_passed_on() -> None:
    async def work(exchange: Exchange, source: Source) -> None:
        passing = asyncio.ensure_future(exchange.pass_on(lambda _piece: True))
        await asyncio.sleep(0)
        exchange.on_piece(b"x" * 900)
        exchange.on_piece(b"y" * 200)
        assert await passing is False
        with pytest.raises(UpstreamError, match="longer than 1000 bytes"):
            await anext(exchange)
        assert source.is_closed

    run(work)


def test_a_reader_that_is_gone_closes_the_connection() -> None:
    async def work(exchange: Exchange, source: Source) -> None:
        passing = asyncio.ensure_future(exchange.pass_on(lambda _piece: True))
        await asyncio.sleep(0)
        passing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await passing
        assert source.is_closed

    run(work)
