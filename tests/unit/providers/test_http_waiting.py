"""How long the pool waits, and how much it holds: slow readers, deadlines, limits."""

import asyncio
import time

import pytest
from tests.unit.providers.calling import MIB
from tests.unit.providers.pooled import BOTH, HANGS, scripted

from pointsman.providers.http.exchange import AnswerLimits
from pointsman.providers.http.pool import PoolSettings
from pointsman.providers.port import Deadlines, UpstreamError
from pointsman.testing.upstream_faults import FAULTS
from pointsman.testing.upstream_replies import (
    LAST_CHUNK,
    STREAM_HEAD,
    Close,
    Pause,
    SendBytes,
    chunk,
    does,
    head,
    plain,
    says,
)


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
    reply = does(SendBytes(STREAM_HEAD), *map(SendBytes, big), SendBytes(LAST_CHUNK))
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
    assert (
        scripted(work, does(SendBytes(STREAM_HEAD), SendBytes(tiny), SendBytes(LAST_CHUNK)))
        == 100_000
    )


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
        await upstream.wait_for_disconnects()
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

    words = [step for _ in range(4) for step in (SendBytes(chunk(b"word")), Pause(0.015))]
    scripted(work, does(SendBytes(STREAM_HEAD), *words, SendBytes(LAST_CHUNK)), loop=loop)


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

    scripted(work, does(SendBytes(STREAM_HEAD + chunk(b"begun")), Close()))


def test_a_body_without_a_length_ends_with_its_connection():
    async def work(calls, _upstream):
        return await (await calls.ask()).read()

    assert scripted(work, does(SendBytes(head() + b"all of it"), Close())) == b"all of it"


def test_limits_hold_at_their_byte():
    async def work(calls, _upstream):
        assert len(await (await calls.ask()).read()) == 10
        with pytest.raises(UpstreamError, match="longer than 10 bytes"):
            await (await calls.ask()).read()
        with pytest.raises(UpstreamError, match="longer than 12 bytes"):
            async for _piece in await calls.ask():
                pass

    limits = PoolSettings(limits=AnswerLimits(body_bytes=10, stream_bytes=12))
    bodies = (b"x" * 10, b"x" * 11, b"x" * 13)
    scripted(work, *(does(SendBytes(plain(body))) for body in bodies), settings=limits)


def test_a_large_request_goes_out_whole():
    async def work(calls, upstream):
        body = '{"model":"m","messages":["%s"]}' % ("x" * 3 * MIB)
        await (await calls.ask(body=body)).read()
        return len(upstream.requests[0].body) == len(body)

    assert scripted(work)
