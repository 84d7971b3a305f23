"""The feed's readers: nobody waits for them, and what they miss is told."""

import asyncio

import pytest

from pointsman.errors import TooManyReaders
from pointsman.gateway.api.feed.events import EVENT_NAMES, event_of
from pointsman.gateway.serving.feed import Feed, Reader, sse
from pointsman.kernel.entry import Entry
from pointsman.kernel.instant import Instant


def entry(kind: str = "kind", name: str = "id") -> Entry:
    return Entry(0, Instant(0), kind, name, "", b"{}", b"", b"", b"")


def test_a_slow_reader_loses_the_oldest_and_is_told_how_many():
    async def scenario() -> bytes:
        reader = Reader(most=2)
        for number in range(5):
            reader.offer(sse("n", b"%d" % number))
        return await reader.next(1)

    told = asyncio.run(scenario()).decode()
    assert told.startswith('event: dropped\ndata: {"events":3}\n\n')
    assert [line for line in told.splitlines() if line.startswith("data: ")][1:] == [
        "data: 3",
        "data: 4",
    ]


def test_nothing_in_time_is_nothing():
    async def scenario() -> bytes:
        return await Reader().next(0.001)

    assert asyncio.run(scenario()) == b""


def test_entries_of_another_thread_reach_every_reader():
    async def scenario() -> list[bytes]:
        feed = Feed(lambda each: None if each.kind == "quiet" else each.id.encode())
        feed.publish([entry()])
        readers = [feed.join(), feed.join()]
        await asyncio.to_thread(feed.publish, [entry(name="a"), entry("quiet"), entry(name="b")])
        found = [await each.next(1) for each in readers]
        feed.leave(readers[0])
        assert feed.readers == 1
        feed.end()
        assert readers[1].has_ended
        return found

    assert asyncio.run(scenario()) == [b"ab", b"ab"]


def test_no_more_follow_than_may():
    async def scenario() -> None:
        feed = Feed(lambda _each: None, most_readers=1)
        feed.join()
        feed.join()

    with pytest.raises(TooManyReaders):
        asyncio.run(scenario())


def test_an_entry_that_cannot_be_read_does_not_end_the_feed_of_the_rest():
    async def scenario() -> bytes:
        feed = Feed(event_of)
        reader = feed.join()
        good = Entry(0, Instant(0), "event.placement.cleared", "b", "s1", b"{}", b"", b"", b"")
        feed.publish([entry("event.policy.refused"), entry("decision.turn"), good])
        return await reader.next(1)

    told = asyncio.run(scenario()).decode()
    assert told.count("event: ") == 1
    assert '"session_id":"s1"' in told


def test_what_is_written_already_reaches_every_reader_from_another_thread():
    async def scenario() -> list[bytes]:
        feed = Feed(event_of)
        feed.tell(b"unheard")
        readers = [feed.join(), feed.join()]
        await asyncio.to_thread(feed.tell, b"told")
        return [await each.next(1) for each in readers]

    assert asyncio.run(scenario()) == [b"told", b"told"]


def test_what_is_no_event_is_not_told():
    assert event_of(entry("snapshot")) is None
    assert len(set(EVENT_NAMES)) == len(EVENT_NAMES)
