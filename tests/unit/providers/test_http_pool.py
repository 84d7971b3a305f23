"""The pool: connections are kept, bounded and let go; deadlines hold; nobody is left waiting."""

import asyncio
import gc
import socket
import time

import pytest
from msgspec.structs import replace
from tests.unit.providers.calling import BODIES, LOOPS, MIB, SMALL, run

from pointsman.errors import InputError
from pointsman.providers.http_address import Origin
from pointsman.providers.http_exchange import Limits, Message
from pointsman.providers.http_pool import Pool, PoolSettings
from pointsman.providers.port import Deadlines, UpstreamError
from pointsman.testing.certificates import TestAuthority
from pointsman.testing.upstream import ScriptedUpstream
from pointsman.testing.upstream_faults import FAULTS
from pointsman.testing.upstream_replies import (
    LAST_CHUNK,
    STREAM_HEAD,
    Close,
    Pause,
    Reset,
    Send,
    chunk,
    does,
    head,
    plain,
    says,
)

BOTH = pytest.mark.parametrize("loop", LOOPS)
PATIENT = Deadlines()
HANGS = does(Send(STREAM_HEAD + chunk(b"begun")), Pause())


def message(body=BODIES["chat"] % ""):
    head_ = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
    return Message(head_.encode(), body.encode())


class Calls:
    """A pool on an upstream, closed at the end."""

    def __init__(self, upstream, settings=SMALL, **more):
        self.pool = Pool(Origin(False, "127.0.0.1", upstream.port), settings, **more)
        self.upstream = upstream

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_error):
        await self.pool.close()
        await self.upstream.drained()
        assert self.pool.open_connections == 0

    async def ask(self, deadlines=PATIENT, **more):
        ends_at = asyncio.get_running_loop().time() + deadlines.total_s
        return await self.pool.request(message(**more), deadlines, ends_at)


def scripted(work, *replies, loop="asyncio", settings=SMALL, **more):
    """Run with an upstream that follows a script and a pool on it."""

    async def all_of_it():
        async with ScriptedUpstream(*replies, **more) as upstream, Calls(upstream, settings) as it:
            return await work(it, upstream)

    return run(all_of_it, loop)


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
        await upstream.drained()
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

    replies = (says("x"), does(end), does(Send(plain(b"{}"))))
    assert scripted(work, *replies, loop=loop) == [1, 1, 2]


@BOTH
def test_a_new_connection_that_dies_is_an_error_not_a_retry(loop):
    async def work(calls, upstream):
        with pytest.raises(UpstreamError) as caught:
            await calls.ask()
        assert caught.value.error_class == "network"
        return len(upstream.requests)

    assert scripted(work, does(Close()), loop=loop) == 1


@BOTH
def test_a_kept_connection_that_dies_after_a_byte_is_an_error_not_a_retry(loop):
    async def work(calls, upstream):
        await (await calls.ask()).read()
        with pytest.raises(UpstreamError):
            await calls.ask()
        return len(upstream.requests)

    assert scripted(work, says("x"), does(Send(b"HTTP/1.1 2"), Close()), loop=loop) == 2


def test_bytes_nobody_asked_for_end_a_kept_connection():
    async def work(calls, upstream):
        await (await calls.ask()).read()
        await upstream.drained()

    scripted(work, does(Send(plain(b"{}")), Pause(0.01), Send(plain(b"injected"))))


def test_a_connection_that_rests_too_long_is_closed():
    async def work(calls, upstream):
        await (await calls.ask()).read()
        assert calls.pool.open_connections == 1
        await upstream.drained()

    scripted(work, settings=replace(SMALL, idle_s=0.05))


def test_no_more_connections_rest_than_allowed():
    async def work(calls, _upstream):
        answers = await asyncio.gather(*(calls.ask() for _ in range(5)))
        await asyncio.gather(*(answer.read() for answer in answers))
        await asyncio.sleep(0)
        return calls.pool.open_connections

    slow = does(Pause(0.02), Send(plain(b"{}")))
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
    made = scripted(work, otherwise=does(Send(plain(b"{}"))), settings=settings, loop=loop)
    assert made == 3


def test_a_place_in_line_is_given_up_in_time():
    async def work(calls, _upstream):
        first = await calls.ask()
        with pytest.raises(UpstreamError, match="became free") as caught:
            await calls.ask(Deadlines(connect_s=0.05))
        assert caught.value.error_class == "timeout"
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
        await upstream.drained()

    scripted(work, does(Pause()) if place == "head" else HANGS, loop=loop)


@BOTH
def test_cancelling_while_connecting_leaves_nothing(loop):
    async def work():
        with socket.create_server(("127.0.0.1", 0)) as silent:
            pool = Pool(Origin(True, "127.0.0.1", silent.getsockname()[1]))
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
def test_one_who_reads_slowly_slows_the_provider_down(loop):
    async def work(calls, _upstream):
        answer = await calls.ask(Deadlines(idle_s=0.05))
        await asyncio.sleep(0.15)  # longer than the provider may be silent
        held = answer._size
        total = 0
        async for piece in answer:
            total += len(piece)
        return held, total

    big = [chunk(b"x" * 65_536)] * 256
    reply = does(Send(STREAM_HEAD), *map(Send, big), Send(LAST_CHUNK))
    held, total = scripted(work, reply, loop=loop)
    assert total == 16 * MIB
    assert held < MIB


def test_many_small_pieces_are_bounded_too():
    async def work(calls, _upstream):
        answer = await calls.ask()
        await asyncio.sleep(0.05)
        assert len(answer._pieces) < 200_000
        return len(b"".join([piece async for piece in answer]))

    tiny = chunk(b"x") * 100_000
    assert scripted(work, does(Send(STREAM_HEAD), Send(tiny), Send(LAST_CHUNK))) == 100_000


@BOTH
@pytest.mark.parametrize(
    ("reply", "deadlines", "said"),
    [
        (does(Pause()), Deadlines(head_s=0.05), "did not begin"),
        (HANGS, Deadlines(idle_s=0.05), "nothing more"),
        (HANGS, Deadlines(total_s=0.05), "did not end"),
        (does(Pause()), Deadlines(total_s=0.05), "did not end"),
        (FAULTS["slow_drip"].reply, Deadlines(idle_s=0.2, total_s=0.1), "did not end"),
    ],
    ids=["head", "idle", "total", "total_before_head", "drip"],
)
def test_deadlines_hold(loop, reply, deadlines, said):
    async def work(calls, upstream):
        begun = asyncio.get_running_loop().time()
        with pytest.raises(UpstreamError, match=said) as caught:
            await (await calls.ask(deadlines)).read()
        assert caught.value.error_class == "timeout"
        await upstream.drained()
        return asyncio.get_running_loop().time() - begun

    assert scripted(work, reply, loop=loop) < 1


@BOTH
def test_a_busy_program_does_not_take_its_own_slowness_for_the_providers(loop):
    async def work(calls, _upstream):
        answer = await calls.ask(Deadlines(idle_s=0.3))
        for _ in range(2):
            assert await anext(answer) == b"word"
            await asyncio.sleep(0.02)  # the next word arrives
            time.sleep(0.5)

    words = [step for _ in range(4) for step in (Send(chunk(b"word")), Pause(0.015))]
    scripted(work, does(Send(STREAM_HEAD), *words, Send(LAST_CHUNK)), loop=loop)


def test_a_shorter_deadline_after_a_longer_one_holds():
    async def work(calls, _upstream):
        await (await calls.ask(Deadlines())).read()
        with pytest.raises(UpstreamError, match="did not begin"):
            await calls.ask(Deadlines(head_s=0.05))

    scripted(work, says("x"), does(Pause()))


def test_what_came_before_a_break_is_given_out_first():
    async def work(calls, _upstream):
        answer = aiter(await calls.ask())
        assert await anext(answer) == b"begun"
        with pytest.raises(UpstreamError, match="before its end"):
            await anext(answer)

    scripted(work, does(Send(STREAM_HEAD + chunk(b"begun")), Close()))


def test_a_body_without_a_length_ends_with_its_connection():
    async def work(calls, _upstream):
        return await (await calls.ask()).read()

    assert scripted(work, does(Send(head() + b"all of it"), Close())) == b"all of it"


def test_limits_hold_at_their_byte():
    async def work(calls, _upstream):
        assert len(await (await calls.ask()).read()) == 10
        with pytest.raises(UpstreamError, match="longer than 10 bytes"):
            await (await calls.ask()).read()
        with pytest.raises(UpstreamError, match="longer than 12 bytes"):
            async for _piece in await calls.ask():
                pass

    limits = PoolSettings(limits=Limits(body_bytes=10, stream_bytes=12))
    bodies = (b"x" * 10, b"x" * 11, b"x" * 13)
    scripted(work, *(does(Send(plain(body))) for body in bodies), settings=limits)


def test_a_large_request_goes_out_whole():
    async def work(calls, upstream):
        body = '{"model":"m","messages":["%s"]}' % ("x" * 3 * MIB)
        await (await calls.ask(body=body)).read()
        return len(upstream.requests[0].body) == len(body)

    assert scripted(work)


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
            pool = Pool(Origin(False, "api.example.com", upstream.port), settings, resolve=resolve)
            task = asyncio.ensure_future(pool.request(message(), PATIENT, 1e12))
            await asyncio.sleep(0)
            await pool.close()
            gate.set()
            with pytest.raises(UpstreamError, match="was closed"):
                await task
            await upstream.drained()

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


# TLS.


def tls_outcome(context, origin_host, tmp_path, ca_file, *, loop="asyncio", resolve=None):
    async def work():
        async with ScriptedUpstream(tls=context) as upstream:
            more = {"resolve": resolve} if resolve else {}
            settings = replace(SMALL, ca_file=ca_file, allow_private=True)
            pool = Pool(Origin(True, origin_host, upstream.port), settings, **more)
            ends_at = asyncio.get_running_loop().time() + 5
            try:
                answer = await pool.request(message(), Deadlines(connect_s=1), ends_at)
                await answer.read()
            except UpstreamError as error:
                return f"{error.error_class}: {error.message}"
            else:
                return answer.status
            finally:
                await pool.close()
                await upstream.drained()

    return run(work, loop)


async def here(_host, _port):
    return ["127.0.0.1"]


@BOTH
def test_tls_with_a_certificate_that_is_vouched_for(tmp_path, loop):
    authority = TestAuthority(tmp_path)
    named = authority.server("api.example.com")
    given = {"tmp_path": tmp_path, "ca_file": authority.ca_file, "loop": loop}
    assert tls_outcome(authority.server(), "127.0.0.1", **given) == 200
    assert tls_outcome(named, "api.example.com", resolve=here, **given) == 200


@BOTH
def test_tls_that_cannot_be_trusted_is_refused(tmp_path, loop):
    authority = TestAuthority(tmp_path)
    given = {"tmp_path": tmp_path, "ca_file": authority.ca_file, "loop": loop}
    expired = authority.server(is_expired=True)
    said = tls_outcome(expired, "127.0.0.1", **given)
    assert said.startswith("network: ")
    assert "expired" in said
    wrong = authority.server("other.example.com")
    said = tls_outcome(wrong, "api.example.com", resolve=here, **given)
    assert "not accepted" in said
    assert "not valid for" in said
    unknown = {**given, "ca_file": None}
    assert "not accepted" in tls_outcome(authority.server(), "127.0.0.1", **unknown)
    assert tls_outcome(None, "127.0.0.1", **given).startswith("network: ")


def test_a_file_without_certificates_is_refused(tmp_path):
    path = tmp_path / "ca.pem"
    path.write_text("nothing")
    with pytest.raises(InputError, match="no certificates"):
        Pool(Origin(True, "127.0.0.1", 1), PoolSettings(ca_file=path))
