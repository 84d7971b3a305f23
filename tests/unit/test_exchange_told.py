"""An exchange that tells somebody, in place of being waited for."""

from __future__ import annotations

import asyncio

import pytest

from pointsman.providers.http.exchange import AnswerLimits, Exchange
from pointsman.providers.port import Deadlines, UpstreamError


class Line:
    def __init__(self) -> None:
        self.did: list[str] = []

    def pause(self) -> None:
        self.did.append("pause")

    def resume(self) -> None:
        self.did.append("resume")

    def hurry(self, seconds: float) -> None:
        self.did.append(f"hurry {seconds}")

    def abort(self) -> None:
        self.did.append("abort")


@pytest.fixture
def line() -> Line:
    return Line()


@pytest.fixture
def exchange(line: Line) -> Exchange:
    loop = asyncio.new_event_loop()
    loop.close()
    return Exchange(line, loop, Deadlines(), 1e9, AnswerLimits(body_bytes=1000))


def test_a_whole_answer_is_told_once_and_stays(exchange: Exchange) -> None:
    told: list[bytes | None] = []
    exchange.on_complete(lambda: told.append(exchange.whole()))
    exchange.on_head(200, {})
    exchange.on_piece(b"one ")
    exchange.on_piece(b"two")
    assert (told, exchange.whole()) == ([], None)
    exchange.on_end()
    assert told == [b"one two"]
    assert exchange.whole() == b"one two"
    assert asyncio.run(exchange.read()) == b"one two"


def test_what_is_whole_or_failed_already_is_told_at_once(exchange: Exchange) -> None:
    told: list[str] = []
    exchange.on_head(200, {})
    exchange.on_end()
    exchange.on_complete(lambda: told.append("whole"))
    assert told == ["whole"]
    failed = Exchange(Line(), exchange._loop, Deadlines(), 1e9, AnswerLimits())
    failed.on_stale()
    failed.on_complete(lambda: told.append("failed"))
    assert told == ["whole", "failed"]


@pytest.mark.parametrize("status", [201, 204, 429, 500])
def test_another_status_than_200_is_told_with_its_head(exchange: Exchange, status: int) -> None:
    told: list[int] = []
    exchange.on_complete(lambda: told.append(exchange.status))
    exchange.on_head(status, {})
    exchange.on_piece(b"why")
    exchange.on_end()
    assert told == [status]


def test_an_answer_that_is_more_than_is_kept_is_told_before_its_end(
    exchange: Exchange, line: Line
) -> None:
    told: list[bytes | None] = []
    exchange.on_complete(lambda: told.append(exchange.whole()))
    exchange.on_head(200, {})
    exchange.on_piece(b"x" * 300_000)
    assert (told, line.did) == ([None], ["pause"])
    exchange.on_end()
    assert exchange.whole() is None, "longer than an answer may be"
    assert told == [None]


def test_a_failure_is_told(exchange: Exchange) -> None:
    told: list[bytes | None] = []
    exchange.on_complete(lambda: told.append(exchange.whole()))
    exchange.on_head(200, {})
    exchange.on_failure("it broke", "network")
    assert told == [None]
    with pytest.raises(UpstreamError, match="it broke"):
        asyncio.run(exchange.read())


def test_whoever_let_go_is_not_told(exchange: Exchange, line: Line) -> None:
    told: list[str] = []
    exchange.on_complete(lambda: told.append("told"))
    exchange.discard()
    assert (told, line.did) == ([], ["abort"])
