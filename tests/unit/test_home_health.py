"""The health of providers as the processes of one home share it, over a restart, too."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pointsman.errors import LedgerUnavailable
from pointsman.kernel.instant import DAY, SECOND, Instant
from pointsman.recording.health import RECOVERED, HomeHealth, LiveHealth
from pointsman.storage.sqlite.place import SqlitePlace
from pointsman.storage.stores.health import NOT_THERE, HealthStore
from pointsman.testing import FrozenClock, a_home
from pointsman.turns.registry.availability import Transition
from pointsman.turns.registry.call_event import Result
from pointsman.turns.registry.models import ModelsFile, Provider
from pointsman.turns.registry.provider_state import ProviderRecovered, Thresholds

START = Instant(25_000 * DAY)
MODELS = ("p:m", "p:n", "p:o", "q:r")
EARLY = Thresholds(probe_after_s=20)


class Household:
    """One folder, and the processes that work in it under one clock."""

    def __init__(self, folder: Path) -> None:
        self.path = SqlitePlace(folder / "health.db")
        self.clock = FrozenClock(START)
        self._count = 0

    def process(self, thresholds: Thresholds = EARLY) -> HomeHealth:
        self._count += 1
        store = HealthStore(self.path)
        return HomeHealth(self.clock, store, f"process-{self._count}", thresholds)


@pytest.fixture
def home(tmp_path: Path) -> Household:
    return Household(tmp_path)


def fail(health: LiveHealth, model: str, times: int = 1, result: Result = "server_error") -> None:
    for _ in range(times):
        health.note_call_end(model, result, MODELS)


def test_another_process_sees_an_outage_at_its_next_turn(home: Household) -> None:
    one, two = home.process(), home.process()
    assert (one.now(), two.now()) == ({}, {})
    fail(one, "p:m", result="auth")
    assert two.now() == {"p": "unavailable"}
    fail(two, "q:r", 5)
    assert one.now() == two.now() == {"p": "unavailable", "q:r": "unavailable"}
    assert one.reports(MODELS) == two.reports(MODELS)


def test_failures_of_several_processes_add_up(home: Household) -> None:
    for number in range(5):
        assert home.process().now() == {}, number
        fail(home.process(), "p:m")
    assert home.process().now() == {"p:m": "unavailable"}


def test_a_restart_keeps_an_outage_and_what_led_to_one(home: Household) -> None:
    first = home.process()
    fail(first, "p:m", 4)
    fail(first, "q:r", result="auth")
    first.close()
    second = home.process()
    assert second.now() == {"q": "unavailable"}
    fail(second, "p:m")
    assert second.now() == {"q": "unavailable", "p:m": "unavailable"}


def test_a_success_brings_a_scope_back_for_all(home: Household) -> None:
    one, two = home.process(), home.process()
    fail(one, "p:m", 5)
    two.now()
    two.note_call_end("p:m", "success", MODELS)
    assert one.now() == {}


def test_while_all_is_healthy_a_success_writes_nothing(home: Household) -> None:
    one = home.process()
    one.now()
    one.note_call_end("p:m", "success", MODELS)
    fail(one, "p:m", 9, "invalid_request")
    assert not home.path.exists()
    fail(one, "p:m")
    kept = HealthStore(home.path)
    before = kept.version()
    one.note_call_end("q:r", "success", MODELS)
    one.note_call_end("p:n", "success", MODELS)
    fail(one, "p:n", result="invalid_request")
    assert kept.version() == before
    one.note_call_end("p:m", "success", MODELS)
    assert kept.version() != before


def test_while_all_is_healthy_a_success_asks_for_nothing(home: Household) -> None:
    class NoClock:
        def now(self) -> Instant:
            raise AssertionError

    health = HomeHealth(NoClock(), HealthStore(home.path), "busy")
    assert health.note_call_end("p:m", "success", MODELS) == ()


def test_one_process_at_a_time_may_try(home: Household) -> None:
    one, two = home.process(), home.process()
    fail(one, "p:m", 2, "network")
    home.clock.advance(seconds=20)
    assert one.now() == two.now() == {"p": "half_open"}
    assert one.claim("p:m")
    assert two.now() == {"p": "unavailable"}
    assert not two.claim("p:n")
    one.begin("p:m")
    fail(one, "p:m", result="network")
    assert two.now() == {"p": "unavailable"}
    home.clock.advance(seconds=20)
    assert two.claim("p:n")
    assert one.now() == {"p": "unavailable"}
    two.note_call_end("p:n", "success", MODELS)
    assert one.now() == two.now() == {}


def test_a_claim_that_both_ask_for_goes_to_one(home: Household) -> None:
    """Both have seen it half open, and neither looked again."""
    one, two = home.process(), home.process()
    fail(one, "p:m", 2, "network")
    home.clock.advance(seconds=20)
    assert one.now() == two.now() == {"p": "half_open"}
    assert [one.claim("p:m"), two.claim("p:m"), one.claim("p:m")] == [True, False, False]


def test_a_call_that_was_not_claimed_for_is_a_trial_all_the_same(home: Household) -> None:
    one, two = home.process(), home.process()
    fail(one, "p:m", 2, "network")
    home.clock.advance(seconds=20)
    one.begin("p:m")
    assert two.now() == {"p": "unavailable"}


def test_the_process_that_tries_may_die(home: Household) -> None:
    one, two = home.process(), home.process()
    fail(one, "p:m", 2, "network")
    home.clock.advance(seconds=20)
    one.claim("p:m")
    one.close()
    home.clock.advance(seconds=60)
    assert two.now() == {"p": "half_open"}


def test_after_an_outage_one_turn_at_a_time_tries_over_all_processes(home: Household) -> None:
    one = home.process(Thresholds())
    fail(one, "p:m", result="auth")
    home.clock.advance(seconds=300)
    assert one.now() == {"p": "half_open"}
    one.close()
    two, three = home.process(Thresholds()), home.process(Thresholds())
    assert two.claim("p:m")
    assert three.now() == {"p": "unavailable"}
    two.note_call_end("p:m", "success", MODELS)
    assert three.now() == {}


def test_what_went_out_and_what_came_back_is_told_by_one_process(home: Household) -> None:
    fleet = [home.process() for _ in range(3)]
    told: list[tuple[int, Transition]] = []
    for number, each in enumerate(fleet):
        each.listener = lambda changes, number=number: told.extend((number, c) for c in changes)
    fail(fleet[1], "p:m", result="auth")
    home.clock.advance(seconds=400)
    for each in (fleet[2], fleet[0], fleet[1]):
        each.now()
    assert [number for number, _ in told] == [1, 2]
    assert told[-1][1].at == START + 300 * SECOND


def test_a_preview_writes_nothing_and_sees_the_same(home: Household) -> None:
    one, two = home.process(), home.process()
    fail(one, "p:m", 5)
    home.clock.advance(seconds=400)
    told: list[Transition] = []
    two.listener = told.extend
    before = HealthStore(home.path).version()
    assert two.peek() == {"p:m": "half_open"}
    assert (told, HealthStore(home.path).version()) == ([], before)
    assert two.now() == {"p:m": "half_open"}
    assert len(told) == 1


def test_what_is_cleared_is_clear_for_all(home: Household) -> None:
    one, two = home.process(), home.process()
    fail(one, "p:m", result="auth")
    fail(one, "p:n", 5)
    told: list[Transition] = []
    two.listener = told.extend
    home.clock.advance(seconds=7)
    back = two.clear("p")
    assert [each.payload for each in back] == [
        ProviderRecovered("p", "model_specific", ("p:n",), 7),
        ProviderRecovered("p", "provider_wide", ("p:m", "p:n", "p:o"), 7),
    ]
    assert told == []
    assert one.now() == {}
    assert two.clear("p") == ()


def test_the_outage_of_a_model_says_why_and_until_when(home: Household) -> None:
    health = home.process()
    assert health.outage_of("p:m") is None
    fail(health, "p:m", 5)
    assert health.outage_of("p:n") is None
    found = health.outage_of("p:m")
    assert found is not None
    assert (found.model, found.why) == ("p:m", "5 failures in a row")
    assert found.clears_at == START + 300 * SECOND
    fail(health, "p:n", result="auth")
    wide = health.outage_of("p:m")
    assert wide is not None
    assert (wide.model, wide.why, wide.state) == (None, "key refused", "unavailable")


def test_a_limit_that_is_used_up_is_told_unless_the_provider_is_out(home: Household) -> None:
    health = home.process()
    models = {"p": Provider(kind="openai", rpm=1), "q": Provider(kind="openai", rpm=9)}
    health.rates.follow(ModelsFile(1, providers=models))
    health.begin("p:m")
    assert health.now() == {"p": "rate_limited"}
    limited = health.outage_of("p:m")
    assert limited is not None
    assert (limited.state, limited.clears_at) == ("rate_limited", START + 60 * SECOND)
    fail(health, "p:m", 2, "network")
    assert health.now() == {"p": "unavailable"}
    home.clock.advance(seconds=20)
    health.begin("p:m")
    fail(health, "p:m", 1, "cancelled")
    # One turn might try it, but for its limit.
    assert health.now() == {"p": "rate_limited"}


def test_a_store_that_cannot_be_written_leaves_each_process_to_itself(home: Household) -> None:
    one, two = home.process(), home.process()
    fail(one, "p:m", 5)
    with closing(apsw.Connection(str(home.path))) as other:
        other.execute("BEGIN IMMEDIATE")
        fail(two, "q:r", 5)
        assert two.now() == {"p:m": "unavailable", "q:r": "unavailable"}
        assert "locked" in two.trouble
        assert one.now() == {"p:m": "unavailable"}
        other.execute("ROLLBACK")
    fail(two, "p:n")
    assert two.trouble == ""


def test_a_clearing_that_others_do_not_hear_of_is_refused(tmp_path: Path) -> None:
    models = (
        "schema_version: 1\nproviders: {p: {kind: openai}}\nmodels: {'p:m': {location: cloud}}\n"
    )
    with a_home(tmp_path / "home") as pointsman:
        (pointsman.home.path / "models.yaml").write_text(models)
        pointsman.health.note_call_end("p:m", "auth", MODELS)
        with closing(apsw.Connection(str(pointsman.home.place("health")))) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(LedgerUnavailable, match="locked"):
                pointsman.clear_outage("p")
        assert not pointsman.home.database.exists()
        pointsman.health.note_call_end("p:m", "auth", MODELS)
        assert [each.payload.provider for each in pointsman.clear_outage("p")] == ["p"]
        assert pointsman.has_recorded(RECOVERED)


def test_a_store_that_cannot_be_opened_fails_no_turn(tmp_path: Path) -> None:
    (tmp_path / "health.db").mkdir()
    health = Household(tmp_path).process()
    health.prepare()
    assert health.now() == {}
    fail(health, "p:m", 5)
    assert health.now() == {"p:m": "unavailable"}
    assert "not shared" in health.trouble


def test_what_another_version_wrote_counts_as_nothing(home: Household) -> None:
    fail(home.process(), "p:m", 5)
    with closing(sqlite3.connect(home.path)) as other, other:
        other.execute("UPDATE health SET body = ?", (b'{"state": 1}',))
    health = home.process()
    assert health.now() == {}
    fail(health, "p:m", 5)
    assert home.process().now() == {"p:m": "unavailable"}


def test_a_new_store_has_nothing_and_its_version_says_so(home: Household) -> None:
    store = HealthStore(home.path)
    assert store.version() == NOT_THERE
    store.prepare()
    assert store.version() != NOT_THERE
    assert store.read() == b""


def test_a_change_is_seen_by_its_version_whichever_connection_looks(home: Household) -> None:
    """A store that was closed has another connection, whose own count begins anew."""
    one, two = HealthStore(home.path), HealthStore(home.path)
    seen: set[int] = set()
    for _ in range(4):
        one.change(lambda old: (old + b"1", None))
        assert two.version() not in seen
        seen.add(two.version())
        assert two.read() == one.read()
        two.close()
        one.change(lambda old: (old + b"2", None))
        assert two.version() not in seen
        seen.add(two.version())
        two.change(lambda old: (old + b"3", None))
    assert two.read() == one.read() == b"123" * 4


def test_changes_that_are_made_at_once_are_made_one_after_the_other(home: Household) -> None:
    HealthStore(home.path).prepare()

    def count(number: int) -> None:
        store = HealthStore(home.path)
        for _ in range(100):
            store.change(lambda old: (str(int(old or b"0") + 1).encode(), None))
        store.close()

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(count, range(2)))
    assert HealthStore(home.path).read() == b"200"


def test_a_change_that_fails_leaves_what_was_there(home: Household) -> None:
    store = HealthStore(home.path)
    store.change(lambda _: (b"kept", None))

    def breaks(_: bytes) -> tuple[bytes, None]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.change(breaks)
    assert store.read() == b"kept"
    store.close()
    with closing(apsw.Connection(str(home.path))) as other:
        other.execute("DROP TABLE health")
    with pytest.raises(LedgerUnavailable, match="no such table"):
        store.read()


RESULTS: tuple[Result, ...] = (
    "success", "success", "server_error", "server_error", "network", "auth", "cut", "cancelled",
)  # fmt: skip
ACTS = st.one_of(
    st.tuples(st.just("ended"), st.sampled_from(MODELS), st.sampled_from(RESULTS)),
    st.tuples(st.just("claim"), st.sampled_from(MODELS), st.just("")),
    st.tuples(st.just("clear"), st.sampled_from(MODELS), st.just("")),
    st.tuples(st.just("now"), st.just(""), st.just("")),
)
GAPS = st.sampled_from([0, 0, 0, 1, 5, 19, 20, 21, 60, 121, 299, 300, 301, 3601])


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as made:
        yield Path(made)


@settings(max_examples=150, derandomize=True, deadline=None)
@given(acts=st.lists(st.tuples(GAPS, st.integers(0, 2), ACTS), max_size=40), data=st.data())
def test_the_fold_over_the_store_is_the_fold_in_memory(
    folder: Path, acts: list[tuple[int, int, tuple[str, str, Result]]], data: st.DataObject
) -> None:
    """Whichever process acts, and whichever is started anew in between."""
    with TemporaryDirectory(dir=folder) as made:
        home = Household(Path(made))
        fleet = [home.process() for _ in range(3)]
        alone = LiveHealth(home.clock, "alone", EARLY)
        for gap, number, (act, model, result) in acts:
            home.clock.advance(seconds=gap)
            if data.draw(st.integers(0, 4)) == 0:
                fleet[number].close()
                fleet[number] = home.process()
            did = [_do(health, act, model, result) for health in (fleet[number], alone)]
            assert did[0] == did[1]
            for each in fleet:
                assert each.peek() == alone.peek()
                assert each.reports(MODELS) == alone.reports(MODELS)
        for each in fleet:
            each.close()


def _do(health: LiveHealth, act: str, model: str, result: Result) -> object:
    if act == "ended":
        return health.note_call_end(model, result, MODELS)
    if act == "claim":
        return health.claim(model)
    if act == "clear":
        return health.clear(model.partition(":")[0], model if model != "q:r" else None)
    return health.now()
