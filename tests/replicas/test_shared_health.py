"""Every replica folds the same stream, and so comes to the same view of every provider."""

from __future__ import annotations

import random

from pointsman.kernel.instant import DAY, SECOND, Instant
from pointsman.replicas.epoch import is_complete
from pointsman.replicas.shared_health import SharedHealth
from pointsman.storage.sharing import Beat, Peer
from pointsman.testing import FrozenClock
from pointsman.turns.registry.availability import Transition
from pointsman.turns.registry.call_event import Result
from pointsman.turns.registry.provider_state import THRESHOLDS, Thresholds

MODELS = ("p:m", "p:n", "p:o", "q:r")


def replica(name: str, clock: FrozenClock, thresholds: Thresholds = THRESHOLDS) -> SharedHealth:
    return SharedHealth(clock, name, lambda: None, thresholds)


def test_what_a_replica_tells_counts_when_it_is_read_back() -> None:
    clock = FrozenClock(Instant(25_000 * DAY))
    one = replica("one", clock)
    one.note_call_end("p:m", "auth", MODELS)
    assert one.now() == {}
    one.read(one.pop_unsent())
    assert one.now()["p"] == "unavailable"


def test_replicas_agree_whoever_called_and_in_whatever_order_it_was_told() -> None:
    chance = random.Random(7)
    results: tuple[Result, ...] = ("success", "server_error", "network", "auth", "rate_limit")
    clock = FrozenClock(Instant(25_000 * DAY))
    fleet = [replica(str(number), clock) for number in range(3)]
    for _ in range(200):
        clock.advance(seconds=chance.randint(0, 40))
        for each in chance.sample(fleet, chance.randint(1, 3)):
            each.note_call_end(chance.choice(MODELS), chance.choice(results), MODELS)
        told = [body for each in fleet for body in each.pop_unsent()]
        chance.shuffle(told)
        for each in fleet:
            each.read(told)
        assert fleet[0].state == fleet[1].state == fleet[2].state
        reports = {each.reports(MODELS) for each in fleet}
        assert len(reports) == 1


def test_an_outage_is_recorded_by_the_replica_that_told_of_it() -> None:
    clock = FrozenClock(Instant(25_000 * DAY))
    fleet = [replica(str(number), clock) for number in range(3)]
    told: list[tuple[int, Transition]] = []
    for number, each in enumerate(fleet):
        each.is_speaker = number == 2
        each.listener = lambda changes, number=number: told.extend((number, c) for c in changes)
    fleet[1].note_call_end("p:m", "auth", MODELS)
    events = fleet[1].pop_unsent()
    for each in fleet:
        each.read(events)
    assert [number for number, _ in told] == [1]
    clock.advance(seconds=301)
    for each in fleet:
        each.now()
    # What ends by itself is noticed by all, and recorded by the one that speaks for all.
    assert [number for number, _ in told] == [1, 2]


def test_what_was_out_is_half_open_everywhere_until_one_call_succeeds() -> None:
    clock = FrozenClock(Instant(25_000 * DAY))
    fleet = [replica(str(number), clock) for number in range(2)]
    fleet[0].note_call_end("p:m", "auth", MODELS)
    events = fleet[0].pop_unsent()
    for each in fleet:
        each.read(events)
        each.now()
    clock.advance(seconds=301)
    assert [each.half_open() for each in fleet] == [("p",), ("p",)]
    fleet[1].begin("p:m")
    assert fleet[1].half_open() == ()
    fleet[1].note_call_end("p:m", "success", MODELS)
    events = fleet[1].pop_unsent()
    for each in fleet:
        each.read(events)
    assert [each.half_open() for each in fleet] == [(), ()]


def test_what_is_out_is_half_open_everywhere_when_the_setting_says_so() -> None:
    clock = FrozenClock(Instant(25_000 * DAY))
    fleet = [replica(str(number), clock, Thresholds(probe_after_s=20)) for number in range(2)]

    def told() -> None:
        events = [body for each in fleet for body in each.pop_unsent()]
        for each in fleet:
            each.read(events)

    fleet[0].note_call_end("p:m", "network", MODELS)
    fleet[1].note_call_end("p:n", "network", MODELS)
    told()
    assert [each.half_open() for each in fleet] == [(), ()]
    clock.advance(seconds=20)
    assert [each.half_open() for each in fleet] == [("p",), ("p",)]
    assert fleet[0].claim("p:m")
    assert fleet[0].now() == {"p": "unavailable"}
    fleet[0].note_call_end("p:m", "network", MODELS)
    told()
    assert [each.now() for each in fleet] == [{"p": "unavailable"}] * 2
    clock.advance(seconds=20)
    assert [each.half_open() for each in fleet] == [("p",), ("p",)]


def test_what_one_replica_clears_is_clear_for_all_and_recorded_by_it() -> None:
    clock = FrozenClock(Instant(25_000 * DAY))
    fleet = [replica(str(number), clock) for number in range(2)]
    recorded: list[Transition] = []
    fleet[0].note_call_end("p:m", "auth", MODELS)
    events = fleet[0].pop_unsent()
    for each in fleet:
        each.read(events)
    fleet[1].listener = recorded.extend
    clock.advance(seconds=3)
    (back,) = fleet[1].clear("p")
    assert fleet[1].now() == {"p": "unavailable"}
    events = fleet[1].pop_unsent()
    for each in fleet:
        each.read(events)
        assert each.now() == {}
    assert (back.payload.provider, recorded) == ("p", [])


def test_a_success_where_nothing_is_known_is_told_to_nobody() -> None:
    one = replica("one", FrozenClock(Instant(25_000 * DAY)))
    one.note_call_end("p:m", "success", MODELS)
    assert one.pop_unsent() == []


def peer(epoch: str, holding: int, beat_at_us: int, *, is_alive: bool = True) -> Peer:
    return Peer(Beat("p", "serve", "", "", epoch, holding), beat_at_us, is_alive)


def test_an_epoch_waits_for_everybody_who_may_hold_something() -> None:
    epoch = "id@1000"
    assert is_complete(epoch, [peer(epoch, 3, 10)])
    assert not is_complete(epoch, [peer("older", 0, 2000)])
    assert not is_complete(epoch, [peer("", 1, 2000)])
    # A sign of life from before the loss says nothing about what was held when it happened.
    assert not is_complete(epoch, [peer("", 0, 999)])
    assert is_complete(epoch, [peer("", 0, 1001)])
    assert is_complete(epoch, [peer("older", 5, 10, is_alive=False), peer(epoch, 0, 0)])


def test_the_outage_of_a_host_s_own_provider_stays_with_the_host() -> None:
    clock = FrozenClock(Instant(25_000 * DAY))
    fleet = [replica(str(number), clock) for number in range(2)]
    told: list[tuple[int, Transition]] = []
    for number, each in enumerate(fleet):
        each.is_speaker = False
        each.is_own = lambda provider: provider == "p"
        each.listener = lambda changes, number=number: told.extend((number, c) for c in changes)
    fleet[0].note_call_end("p:m", "auth", MODELS)
    assert fleet[0].pop_unsent() == []
    assert (fleet[0].now(), fleet[1].now()) == ({"p": "unavailable"}, {})
    clock.advance(seconds=301)
    assert fleet[0].now() == {"p": "half_open"}
    assert fleet[0].half_open() == (), "no other replica needs to be asked"
    assert fleet[0].claim("p:m")
    assert not fleet[0].claim("p:n")
    fleet[0].note_call_end("p:m", "success", MODELS)
    assert fleet[0].now() == {}
    # Each host records its own: no other one knows of it.
    assert [number for number, _ in told] == [0, 0]
    fleet[0].note_call_end("q:r", "auth", MODELS)
    assert len(fleet[0].pop_unsent()) == 1


def test_an_outage_lasts_as_long_whichever_machine_s_clock_is_wrong() -> None:
    store = FrozenClock(Instant(25_000 * DAY))
    clocks = [FrozenClock(Instant(store.now() + ahead * SECOND)) for ahead in (600, 0, -600)]
    fleet = [replica(str(number), clock) for number, clock in enumerate(clocks)]
    for each in fleet:
        each.store_clock.compare(store.now)
    fleet[0].note_call_end("p:m", "auth", MODELS)
    events = fleet[0].pop_unsent()
    for each in fleet:
        each.read(events)
    for seconds, state in ((299, "unavailable"), (2, "half_open")):
        for clock in clocks:
            clock.advance(seconds=seconds)
        assert [each.now() for each in fleet] == [{"p": state}] * 3
