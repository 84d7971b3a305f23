"""The embedded model's process: its places, its deadlines, its end."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest
from tests.contract.embedded_model import STORY, answered, embedded, outgoing, text_of, until_gone
from tests.processes import is_running

from pointsman.providers.embedded.provider import EmbeddedProvider
from pointsman.providers.port import Deadlines, UpstreamError

pytestmark = pytest.mark.slow


def test_a_cancelled_stream_makes_room_for_the_next():
    async def scene():
        async with embedded(slots=1) as provider:
            answer = await provider.send(
                outgoing(STORY, is_stream=True, max_tokens=1900), Deadlines()
            )
            async for _ in answer:
                break
            assert provider.health().computing == 1
            await answer.close()
            assert provider.health().computing == 0
            async with asyncio.timeout(10):
                assert "Berlin" in text_of(await answered(provider))

    asyncio.run(scene())


def test_a_caller_who_leaves_before_the_first_word_makes_room():
    async def scene():
        async with embedded(slots=1) as provider:
            await answered(provider, max_tokens=1)
            task = asyncio.create_task(answered(provider, "word " * 1900, max_tokens=1))
            await asyncio.sleep(0.1)
            task.cancel()
            await asyncio.wait([task])
            assert provider.health().computing == 0
            async with asyncio.timeout(15):
                assert "Berlin" in text_of(await answered(provider))

    asyncio.run(scene())


def test_two_streams_are_computed_side_by_side():
    order = []

    async def scene():
        async def follow(provider, name):
            request = outgoing(STORY, is_stream=True, max_tokens=40)
            async for _ in await provider.send(request, Deadlines()):
                order.append(name)  # noqa: PERF401 - their order is what is looked at

        async with embedded(slots=2) as provider:
            await asyncio.gather(follow(provider, "a"), follow(provider, "b"))

    asyncio.run(scene())
    changes = sum(one != other for one, other in pairwise(order))
    assert changes > 10


def test_those_who_wait_are_served_in_order_and_too_many_are_turned_away():
    finished = []

    async def scene():
        async def follow(provider, name):
            await answered(provider, max_tokens=2)
            finished.append(name)

        async with embedded(slots=1, most_waiting=3) as provider:
            async with asyncio.TaskGroup() as group:
                for name in range(4):
                    group.create_task(follow(provider, name))
                    await asyncio.sleep(0)
                with pytest.raises(UpstreamError) as caught:
                    await answered(provider)
            assert caught.value.error_class == "rate_limit"
            assert caught.value.retry_after_s

    asyncio.run(scene())
    assert finished == [0, 1, 2, 3]


def test_a_killed_process_fails_its_call_and_the_next_one_works():
    async def scene():
        async with embedded() as provider:
            answer = await provider.send(
                outgoing(STORY, is_stream=True, max_tokens=1900), Deadlines()
            )
            first = provider.health().pid
            await anext(aiter(answer))
            os.kill(first, signal.SIGKILL)
            with pytest.raises(UpstreamError, match="signal 9") as caught:
                await answer.read()
            assert caught.value.error_class == "server_error"
            assert "Berlin" in text_of(await answered(provider))
            assert provider.health().pid != first
            assert provider.health().crashes == 1

    asyncio.run(scene())


def test_a_process_that_stands_still_is_ended_and_the_next_call_works():
    async def scene():
        async with embedded(probe_s=0.5) as provider:
            await answered(provider, max_tokens=1)
            first = provider.health().pid
            os.kill(first, signal.SIGSTOP)
            with pytest.raises(UpstreamError) as caught:
                await provider.send(outgoing(), Deadlines(head_s=0.5))
            assert caught.value.error_class == "timeout"
            await until_gone(first)
            assert "Berlin" in text_of(await answered(provider))

    asyncio.run(scene())


def test_a_silent_stream_and_a_long_one_end_at_their_deadlines():
    async def scene():
        async with embedded(probe_s=30) as provider:
            request = outgoing(STORY, is_stream=True, max_tokens=1900)
            answer = await provider.send(request, Deadlines(total_s=3))
            with pytest.raises(UpstreamError, match="too long") as caught:
                await answer.read()
            assert caught.value.error_class == "timeout"
            answer = await provider.send(request, Deadlines(idle_s=1))
            os.kill(provider.health().pid, signal.SIGSTOP)
            with pytest.raises(UpstreamError, match="silent") as caught:
                await answer.read()
            assert caught.value.error_class == "timeout"

    asyncio.run(scene())


PARENT = """
import asyncio, msgspec
from pointsman.providers.embedded.provider import EmbeddedProvider

async def main():
    provider = EmbeddedProvider()
    await provider.count_tokens("hello")
    print(provider.health().pid, flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


def test_the_process_ends_with_its_parent():
    command = [sys.executable, "-c", PARENT]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        worker = int(parent.stdout.readline())
        assert is_running(worker)
        parent.kill()
    asyncio.run(until_gone(worker))


def test_closing_ends_the_process_and_the_calls_in_it():
    async def scene():
        async with embedded() as provider:
            answer = await provider.send(
                outgoing(STORY, is_stream=True, max_tokens=1900), Deadlines()
            )
            pid = provider.health().pid
            await provider.close()
            assert not is_running(pid)
            with pytest.raises(UpstreamError):
                await answer.read()
            with pytest.raises(UpstreamError):
                await answered(provider)

    asyncio.run(scene())


def test_the_process_has_no_secrets_and_listens_on_no_port(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "canary-secret")

    async def scene():
        async with embedded() as provider:
            await provider.count_tokens("hello")
            folder = Path(f"/proc/{provider.health().pid}")
            assert b"canary-secret" not in (folder / "environ").read_bytes()
            links = [str(each.readlink()) for each in (folder / "fd").iterdir()]
            held = {each.removeprefix("socket:[").rstrip("]") for each in links}
            for table in ("tcp", "tcp6", "udp", "udp6"):
                lines = (folder / "net" / table).read_text().splitlines()[1:]
                assert not held & {line.split()[9] for line in lines}

    asyncio.run(scene())


def test_a_file_that_cannot_be_loaded_is_told_and_not_tried_without_end(tmp_path):
    path = tmp_path / "broken.gguf"
    path.write_bytes(b"GGUF" + bytes(1000))

    async def scene():
        provider = EmbeddedProvider("mine", model="mine:broken", path=path)
        try:
            for _ in range(2):
                with pytest.raises(UpstreamError, match=r"broken\.gguf") as caught:
                    await answered(provider)
                assert caught.value.retry_after_s is None
            with pytest.raises(UpstreamError, match="in a row") as caught:
                await answered(provider)
            assert 0 < caught.value.retry_after_s <= 1
            assert provider.health().state == "resting"
        finally:
            await provider.close()

    asyncio.run(scene())


def test_weights_that_are_missing_are_told_with_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("POINTSMAN_DATA", str(tmp_path))
    monkeypatch.setattr("pointsman.providers.embedded.weights.PACKAGE", "no-such-package")

    async def scene():
        async with embedded() as provider:
            with pytest.raises(UpstreamError, match="pointsman local install"):
                await answered(provider)

    asyncio.run(scene())


async def longest_pause():
    """The longest time the event loop was not free while the model loads and computes."""
    longest, is_over = 0.0, False

    async def tick():
        nonlocal longest
        while not is_over:
            before = time.monotonic()
            await asyncio.sleep(0.001)
            longest = max(longest, time.monotonic() - before)

    async with embedded() as provider:
        ticking = asyncio.create_task(tick())
        await asyncio.gather(
            answered(provider, "word " * 200, max_tokens=8), answered(provider, max_tokens=8)
        )
        is_over = True
        await ticking
    return longest


def test_the_event_loop_stays_free_while_the_model_loads_and_computes():
    # What blocks the loop blocks it every time; a busy machine does so by chance.
    assert any(asyncio.run(longest_pause()) < 0.05 for _ in range(3))
