"""The pool: connections are kept, bounded and let go; nobody is left waiting."""

import asyncio
import gc
import socket

import pytest
from msgspec.structs import replace
from tests.unit.providers.calling import SMALL, run
from tests.unit.providers.pooled import BOTH, HANGS, PATIENT, message, scripted

from pointsman.providers.http.pool import ConnectionPool, PoolSettings
from pointsman.providers.port import Deadlines, UpstreamError
from pointsman.testing.upstream import ScriptedUpstream
from pointsman.testing.upstream_replies import Close, Pause, Reset, SendBytes, does, plain, says
from pointsman.turns.registry.upstream import UpstreamOrigin


@BOTH
def test_a_connection_that_was_read_serves_again(loop):
    async def work(calls, upstream):
        for _ in range(5):
            await (await calls.ask()).read()
        return upstream.connections_made

    assert scripted(work, loop=loop) == 1


@BOTH
def test_an_answer_closed_unread_takes_its_connection_with_it(loop):
    async def work(calls, upstream):
        answer = await calls.ask()
        await answer.close()
        await upstream.wait_for_disconnects()
        with pytest.raises(UpstreamError, match="let go"):
            await anext(aiter(answer))

    scripted(work, HANGS, loop=loop)


@BOTH
@pytest.mark.parametrize("end", [Close(), Reset()], ids=["close", "reset"])
def test_a_kept_connection_that_died_is_replaced(loop, end):
    async def work(calls, upstream):
        await (await calls.ask()).read()
        answer = await calls.ask()
        assert await answer.read() == b"{}"
        return [request.connection for request in upstream.requests]

    replies = (says("x"), does(end), does(SendBytes(plain(b"{}"))))
    assert scripted(work, *replies, loop=loop) == [1, 1, 2]


@BOTH
def test_a_new_connection_that_dies_is_an_error_not_a_retry(loop):
    async def work(calls, upstream):
        with pytest.raises(UpstreamError) as caught:
            await calls.ask()
        assert caught.value.error_class == "network"
        # It was reached: that is no trouble of the network that every model shares.
        assert (caught.value.is_unreached, caught.value.result) == (False, "cut")
        return len(upstream.requests)

    assert scripted(work, does(Close()), loop=loop) == 1


@pytest.mark.req(142, 143)
def test_a_port_where_nothing_listens_is_a_provider_that_was_not_reached():
    async def work():
        with socket.socket() as bound:
            bound.bind(("127.0.0.1", 0))
            pool = ConnectionPool(UpstreamOrigin(False, "127.0.0.1", bound.getsockname()[1]), SMALL)
            with pytest.raises(UpstreamError) as caught:
                await pool.request(message(), PATIENT, asyncio.get_running_loop().time() + 9)
        return caught.value

    error = run(work)
    assert (error.error_class, error.is_unreached, error.result) == ("network", True, "network")


@BOTH
def test_a_kept_connection_that_dies_after_a_byte_is_an_error_not_a_retry(loop):
    async def work(calls, upstream):
        await (await calls.ask()).read()
        with pytest.raises(UpstreamError):
            await calls.ask()
        return len(upstream.requests)

    assert scripted(work, says("x"), does(SendBytes(b"HTTP/1.1 2"), Close()), loop=loop) == 2


def test_bytes_nobody_asked_for_end_a_kept_connection():
    async def work(calls, upstream):
        await (await calls.ask()).read()
        await upstream.wait_for_disconnects()

    scripted(work, does(SendBytes(plain(b"{}")), Pause(0.01), SendBytes(plain(b"injected"))))


def test_a_connection_that_rests_too_long_is_closed():
    async def work(calls, upstream):
        await (await calls.ask()).read()
        assert calls.pool.open_connections == 1
        await upstream.wait_for_disconnects()

    scripted(work, settings=replace(SMALL, idle_s=0.05))


def test_no_more_connections_rest_than_allowed():
    async def work(calls, _upstream):
        answers = await asyncio.gather(*(calls.ask() for _ in range(5)))
        await asyncio.gather(*(answer.read() for answer in answers))
        await asyncio.sleep(0)
        return calls.pool.open_connections

    slow = does(Pause(0.02), SendBytes(plain(b"{}")))
    assert scripted(work, otherwise=slow, settings=replace(SMALL, max_idle=2)) == 2


@BOTH
def test_callers_wait_in_line_for_a_connection(loop):
    async def one(calls):
        return await (await calls.ask()).read()

    async def work(calls, upstream):
        bodies = await asyncio.gather(*(one(calls) for _ in range(20)))
        assert set(bodies) == {b"{}"}
        return upstream.connections_made

    settings = replace(SMALL, max_connections=3)
    made = scripted(work, otherwise=does(SendBytes(plain(b"{}"))), settings=settings, loop=loop)
    assert made == 3


def test_a_place_in_line_is_given_up_in_time():
    async def work(calls, _upstream):
        first = await calls.ask()
        with pytest.raises(UpstreamError, match="are in use") as caught:
            await calls.ask(Deadlines(connect_s=0.05))
        assert caught.value.error_class == "busy"
        # It is our own limit: it says nothing about the provider.
        assert caught.value.result == "cancelled"
        await first.close()

    scripted(work, HANGS, settings=replace(SMALL, max_connections=1))


def test_who_waits_gets_the_place_of_a_connection_that_died():
    async def work(calls, upstream):
        first = await calls.ask()
        second = asyncio.ensure_future(calls.ask())
        await asyncio.sleep(0.01)
        await first.close()
        assert await (await second).read()
        return upstream.connections_made

    assert scripted(work, HANGS, settings=replace(SMALL, max_connections=1)) == 2


def test_a_cancelled_place_in_line_is_handed_on():
    async def work(calls, _upstream):
        first = await calls.ask()
        waiting = [asyncio.ensure_future(calls.ask()) for _ in range(3)]
        await asyncio.sleep(0.01)
        waiting[0].cancel()
        await first.close()
        await asyncio.sleep(0)
        waiting[1].cancel()  # it has been given the place, but has not seen it yet
        assert await (await waiting[2]).read()
        await asyncio.gather(*waiting[:2], return_exceptions=True)

    scripted(work, HANGS, settings=replace(SMALL, max_connections=1))


@BOTH
@pytest.mark.parametrize("place", ["head", "body", "read"])
def test_cancelling_closes_the_socket_at_once(loop, place):
    async def consume(calls):
        answer = await calls.ask(Deadlines())
        if place == "read":
            await answer.read()
        async for _piece in answer:
            pass

    async def work(calls, upstream):
        task = asyncio.ensure_future(consume(calls))
        while not upstream.requests:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await upstream.wait_for_disconnects()

    scripted(work, does(Pause()) if place == "head" else HANGS, loop=loop)


@BOTH
def test_cancelling_while_connecting_leaves_nothing(loop):
    async def work():
        with socket.create_server(("127.0.0.1", 0)) as silent:
            pool = ConnectionPool(UpstreamOrigin(True, "127.0.0.1", silent.getsockname()[1]))
            ends_at = asyncio.get_running_loop().time() + 9
            task = asyncio.ensure_future(pool.request(message(), Deadlines(), ends_at))
            await asyncio.sleep(0.05)  # in the middle of the TLS handshake
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            with pytest.raises(UpstreamError, match="in time"):
                await pool.request(message(), Deadlines(connect_s=0.05), ends_at)
            await pool.close()

    run(work, loop)


@BOTH
def test_closing_ends_what_is_under_way_and_refuses_what_comes_later(loop):
    async def work(calls, _upstream):
        answer = await calls.ask(Deadlines())
        assert await anext(answer) == b"begun"
        under_way = [
            asyncio.ensure_future(anext(answer)),
            asyncio.ensure_future(calls.ask(Deadlines())),
        ]
        await asyncio.sleep(0.01)
        await calls.pool.close()
        with pytest.raises(UpstreamError, match="was closed"):
            await calls.ask()
        return await asyncio.gather(*under_way, return_exceptions=True)

    errors = scripted(work, HANGS, settings=replace(SMALL, max_connections=1), loop=loop)
    assert [error.error_class for error in errors] == ["cancelled", "cancelled"]


def test_connections_leave_no_garbage_that_refers_to_itself():
    async def work(calls, _upstream):
        for _ in range(50):
            await (await calls.ask()).read()
        gc.collect()
        for _ in range(200):
            await (await calls.ask()).read()
        return gc.collect()

    assert scripted(work) < 100


def test_a_pool_closed_while_it_connects_opens_nothing():
    async def work():
        async with ScriptedUpstream() as upstream:
            gate = asyncio.Event()

            async def resolve(_host, _port):
                await gate.wait()
                return ["127.0.0.1"]

            settings = PoolSettings(allow_private=True)
            pool = ConnectionPool(
                UpstreamOrigin(False, "api.example.com", upstream.port), settings, resolve=resolve
            )
            task = asyncio.ensure_future(pool.request(message(), PATIENT, 1e12))
            await asyncio.sleep(0)
            await pool.close()
            gate.set()
            with pytest.raises(UpstreamError, match="was closed"):
                await task
            await upstream.wait_for_disconnects()

    run(work)


def test_a_connection_handed_to_somebody_who_left_goes_to_the_next():
    async def work(calls, upstream):
        pool = calls.pool
        await (await calls.ask()).read()
        left: asyncio.Future = asyncio.get_running_loop().create_future()
        left.set_result(pool._idle.pop())
        pool._hand_on(left)
        await (await calls.ask()).read()
        return upstream.connections_made

    assert scripted(work) == 1


async def opened(calls, count):
    """Wait until so many connections are open, and the last of them rests."""
    async with asyncio.timeout(30):
        while calls.pool.open_connections != count:
            await asyncio.sleep(0)
        await asyncio.sleep(0.01)


@BOTH
def test_a_warm_pool_opens_a_connection_before_one_is_needed(loop):
    async def work(calls, upstream):
        calls.pool.warm(PATIENT)
        calls.pool.warm(PATIENT)
        await opened(calls, 1)
        exchange = calls.pool.begin(message(), PATIENT, asyncio.get_running_loop().time() + 60)
        assert exchange is not None
        await opened(calls, 2)
        await exchange.wait_for_head()
        await exchange.close()
        assert (await (await calls.ask()).read()) == b"{}"
        return upstream.connections_made

    replies = (HANGS, does(SendBytes(plain(b"{}"))))
    made = scripted(work, *replies, settings=replace(SMALL, is_warm=True), loop=loop)
    assert made in {2, 3}  # another one may have been begun beside the last call


def test_a_pool_that_is_not_warm_opens_nothing_by_itself():
    async def work(calls, upstream):
        calls.pool.warm(PATIENT)
        await asyncio.sleep(0.01)
        await (await calls.ask()).read()
        return upstream.connections_made

    assert scripted(work, does(SendBytes(plain(b"{}")))) == 1


def test_a_warm_pool_keeps_to_its_limit_and_says_nothing_of_a_provider_that_is_away():
    async def work():
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            origin = UpstreamOrigin(False, "127.0.0.1", taken.getsockname()[1])
            pool = ConnectionPool(origin, replace(SMALL, is_warm=True, max_connections=1))
            pool.warm(PATIENT)
            await asyncio.sleep(0.01)
            with pytest.raises(UpstreamError) as caught:
                await pool.request(message(), PATIENT, asyncio.get_running_loop().time() + 60)
            assert caught.value.is_unreached
            await pool.close()

    asyncio.run(work())


def test_all_providers_read_the_systems_certificates_once():
    origins = [UpstreamOrigin(True, f"{name}.example", 443) for name in "ab"]
    first, second = (ConnectionPool(origin) for origin in origins)
    assert first._tls is second._tls
    assert first._tls.verify_mode.name == "CERT_REQUIRED"
