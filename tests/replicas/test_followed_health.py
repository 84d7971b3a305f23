"""A command on PostgreSQL, with and without Redis, knows what the others of its home know."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.gateway.house import provider, write_home
from tests.servers import RedisServer, started

from pointsman.app import Pointsman
from pointsman.kernel.instant import DAY, Instant
from pointsman.recording.health import RECOVERED
from pointsman.replicas.shared_health import PolledHealth
from pointsman.testing import FrozenClock
from pointsman.turns.registry.call_event import Result

MODELS = ("p:m", "p:n")
FILES = {
    "models": {
        "schema_version": 1,
        "providers": {"p": provider("openai", "http://127.0.0.1:9")},
        "models": {name: {"location": "cloud"} for name in MODELS},
    },
    "pointsman": {"availability": {"probe_after_s": 20}},
}

Open = Callable[[], Pointsman]


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock(Instant(25_000 * DAY))


@pytest.fixture(params=["postgres", "redis"])
def opened(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    postgres_url: str,
    clock: FrozenClock,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Open]:
    if request.param == "redis":
        monkeypatch.setenv("POINTSMAN_REDIS", request.getfixturevalue("redis_url"))
    home = write_home(tmp_path / "home", **FILES)
    with ExitStack() as stack:

        def open_one() -> Pointsman:
            one = stack.enter_context(Pointsman(home, store=postgres_url, clock=clock))
            # It measures the store's time as it begins: the clock here stands still meanwhile.
            assert one.health.trouble == ""
            return one

        yield open_one


def fail(one: Pointsman, model: str, times: int = 1, result: Result = "server_error") -> None:
    for _ in range(times):
        one.health.note_call_end(model, result, MODELS)


def test_another_process_knows_it_and_so_does_one_that_is_started_later(opened: Open) -> None:
    one, two = opened(), opened()
    assert isinstance(one.health, PolledHealth)
    assert two.health.now() == {}
    fail(one, "p:m", 5)
    assert two.health.now() == {"p:m": "unavailable"}
    one.close()
    assert opened().facts("hello").availability == {"p:m": "unavailable"}
    two.health.note_call_end("p:m", "success", MODELS)
    assert opened().health.now() == {}


def test_one_process_at_a_time_tries_and_gives_the_right_back(
    opened: Open, clock: FrozenClock
) -> None:
    one, two = opened(), opened()
    fail(one, "p:m", 2, "network")
    clock.advance(seconds=25)
    assert one.health.now() == two.health.now() == {"p": "half_open"}
    assert one.health.claim("p:m")
    assert not two.health.claim("p:n")
    one.health.begin("p:m")
    fail(one, "p:m", 1, "network")
    assert two.health.now() == {"p": "unavailable"}
    clock.advance(seconds=25)
    assert two.health.claim("p:n")
    two.health.note_call_end("p:n", "success", MODELS)
    assert one.health.now() == two.health.now() == {}


def test_what_is_cleared_is_clear_for_all_and_recorded_once(
    opened: Open, clock: FrozenClock
) -> None:
    one, two = opened(), opened()
    fail(one, "p:m", 1, "auth")
    clock.advance(seconds=5)
    (back,) = two.clear_outage("p")
    assert back.payload.downtime_seconds == 5  # type: ignore[union-attr] # it came back
    assert one.health.now() == two.health.now() == {}
    assert two.clear_outage("p:m") == ()
    assert one.has_recorded(RECOVERED)


def test_while_nothing_can_be_shared_a_process_believes_itself(
    tmp_path: Path, postgres_url: str, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = started(RedisServer)
    try:
        monkeypatch.setenv("POINTSMAN_REDIS", server.url)
        home = write_home(tmp_path / "home", **FILES)
        with Pointsman(home, store=postgres_url, clock=clock) as one:
            fail(one, "p:n", 2)
            server.kill()
            fail(one, "p:m", 5)
            assert one.facts("hello").availability == {"p:m": "unavailable"}
            assert ["redis.unavailable" in each for each in one.warnings] == [True]
            clock.advance(seconds=20)
            assert one.health.claim("p:m")
    finally:
        server.close()
