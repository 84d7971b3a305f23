"""Turns as rows: filtered, paged by key, and always what the ledger says."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.gateway.house import (
    Running,
    eventually,
    model,
    provider,
    running,
    upstream,
    write_home,
)

from pointsman.audit.turn_catalog import TURNS_FILE, TurnCatalog
from pointsman.gateway.serving.chain_follower import CatalogUpkeep
from pointsman.kernel.entry import Draft
from pointsman.kernel.instant import EPOCH, Instant
from pointsman.storage.home import open_home
from pointsman.storage.stores import turn_index
from pointsman.storage.stores.turn_index import Mark, Wanted, opened_index
from pointsman.storage.stores.turn_rows import BUCKET, CallMade, LaterMade, Row, TurnMade
from pointsman.testing import fails

RULES = [{"name": "code", "when": {"message_matches": "code"}, "use": "far:big"}]


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Running]:
    with upstream() as far, upstream() as near:
        home = write_home(
            tmp_path / "home",
            pointsman={"telemetry": {"logs": "off"}},
            models={
                "schema_version": 1,
                "providers": {
                    "far": provider("openai", far.url), "near": provider("openai", near.url)
                },
                "models": {"far:big": model(price="10"), "near:small": model("local", "0")},
            },
            routing={"schema_version": 1, "global_default": "near:small", "rules": RULES},
        )  # fmt: skip
        with running(home) as serving:
            serving.far = far
            yield serving


def rows(live: Running, query: str = "") -> list[dict[str, Any]]:
    told = live.get(f"/api/turns?{query}").json()
    assert told["behind"] == 0
    return told["turns"]


def test_a_turn_is_listed_with_what_became_of_it(live: Running) -> None:
    live.chat("write code", headers={"x-session-id": "s", "x-pointsman-workspace": "/w"})
    live.outcomes(1)
    (row,) = rows(live)
    assert (row["chosen_model"], row["rule_name"], row["policy"]) == ("far:big", "code", "rule")
    assert (row["session_id"], row["workspace"], row["state"]) == ("s", "/w", "done")
    assert (row["calls"], row["input_tokens"], row["output_tokens"]) == (1, 12, 7)
    assert row["cost_microusd"] == 190
    assert row["digest"].startswith("hmac-sha256:")


def test_a_turn_that_fell_back_names_both_models(live: Running) -> None:
    live.far.then(*[fails(500)] * 3)
    live.chat("write code")
    live.outcomes(2)
    (row,) = rows(live)
    assert (row["chosen_model"], row["served_model"]) == ("far:big", "near:small")
    assert (row["state"], row["fallbacks"], row["calls"]) == ("fallback", 1, 2)
    assert row["error_class"] == "server_error"


def test_each_filter_leaves_what_it_says(live: Running) -> None:
    live.chat("write code", headers={"x-session-id": "a", "x-pointsman-workspace": "/one"})
    live.chat("hello", headers={"x-session-id": "b", "x-pointsman-workspace": "/two"})
    live.chat("hello", "far:big", headers={"x-session-id": "b"})
    live.post("/api/route/preview", {"message": "only a preview"})
    live.outcomes(3)
    wanted = {
        "model=near:small": 2, "model=far:big": 2, "rule=code": 1, "session=b": 2,
        "workspace=/one": 1,
        "policy=manual_sticky": 1, "state=preview": 1, "state=refused": 0, "state=done": 3,
        "text=hello": 2, "min_cost_usd=0.0001": 2, "model=far:big%26session=b": 0,
        "model=far:big&session=b": 1, "text=hello&model=near:small": 1, "rule=nothing": 0,
    }  # fmt: skip
    assert {query: len(rows(live, query)) for query in wanted} == wanted
    digest = rows(live, "text=hello")[0]["digest"]
    assert len(rows(live, f"digest={digest}")) == 2


@pytest.mark.parametrize(
    "query", ["state=nothing", "cursor=abc", "cursor=12", "min_cost_usd=much", "model=a&model=b"]
)
def test_a_filter_that_cannot_be_meant_is_refused(live: Running, query: str) -> None:
    assert live.get(f"/api/turns?{query}").status_code == 400


def test_pages_follow_each_other_without_a_gap_while_turns_are_added(live: Running) -> None:
    for number in range(7):
        live.chat(f"turn {number}")
    seen: list[str] = []
    cursor = ""
    while True:
        told = live.get(f"/api/turns?limit=3&cursor={cursor}").json()
        seen += [each["turn_id"] for each in told["turns"]]
        live.chat("one more")
        if told["next"] is None:
            break
        cursor = told["next"]
    assert len(seen) == len({*seen}) == 7
    assert seen == sorted(seen, reverse=True)


def test_a_turn_counts_once_however_many_gateways_read_the_ledger(live: Running) -> None:
    for number in range(6):
        live.chat(f"turn {number}")
    home = open_home(live.home)
    with ExitStack() as stack:
        catalogs = [TurnCatalog(home, batch=2) for _ in range(4)]
        for each in catalogs:
            stack.callback(each.close)
        with ThreadPoolExecutor(4) as threads:
            behind = [*threads.map(lambda each: each.look(30.0)[1], catalogs)]
        index = catalogs[0].look()[0]
        assert behind == [0] * 4
        assert sum(each.turns for each in index.buckets(EPOCH)) == 6
        ((name, mark),) = index.marks().items()
        assert not index.take(name, mark, [], first=mark.next - 1)
        assert index.marks() == {name: mark}


def test_a_gateway_that_rests_reads_on_before_anyone_asks(live: Running) -> None:
    def is_read() -> bool:
        if not (live.home / TURNS_FILE).exists():
            return False
        with closing(opened_index(live.home / TURNS_FILE)) as index:
            return index.count() == 2

    live.parts.metrics.in_flight += 1
    live.chat("one")
    live.chat("two")
    upkeep = CatalogUpkeep(live.parts.catalog, live.parts.metrics, rested_s=0.0)
    assert not upkeep._is_resting(upkeep._requests())
    live.parts.metrics.in_flight -= 1
    assert eventually(is_read)


def test_rows_are_made_again_when_the_ledger_is_another(live: Running, tmp_path: Path) -> None:
    live.chat("hello")
    assert len(rows(live)) == 1
    home = open_home(live.home)
    with closing(opened_index(home.path / TURNS_FILE)) as index:
        (name,) = index.marks()
        index.take(name, msgspec.structs.replace(index.marks()[name], hash=b"another"), [])
    live.chat("again")
    assert len(rows(live)) == 2


def test_a_file_that_is_no_database_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / TURNS_FILE
    path.write_bytes(b"not a database, but long enough to be taken for one" * 40)
    with closing(opened_index(path)) as index:
        assert index.turns(Wanted(), 10) == []


def test_a_long_ledger_is_read_in_steps_and_says_what_is_left(live: Running) -> None:
    for number in range(5):
        live.chat(f"turn {number}")
    live.outcomes(5)
    (live.home / TURNS_FILE).unlink(missing_ok=True)
    late = itertools.count(0.0, 1000.0).__next__
    with closing(TurnCatalog(open_home(live.home), late, batch=2)) as catalog:
        left = [catalog.look()[1] for _ in range(3)]
        assert left == sorted(left, reverse=True)
        assert left[0] > 0
        while catalog.look()[1]:
            pass
        assert len(catalog.look()[0].turns(Wanted(), 10)) == 5


def test_counts_over_time_and_hits_of_rules_are_those_of_the_turns(live: Running) -> None:
    for text in ("code one", "code two", "hello"):
        live.chat(text)
    live.outcomes(3)
    told = live.get("/api/overview").json()
    turns = {each["model"]: 0 for each in told["buckets"]}
    for each in told["buckets"]:
        turns[each["model"]] += each["turns"]
    assert turns == {"far:big": 2, "near:small": 1}
    assert told["turns_today"] == 3
    assert told["cost_today_microusd"] == 380
    assert told["bucket_s"] == BUCKET // 1_000_000
    (scope,) = live.get("/api/rules").json()["scopes"]
    assert [(each["name"], each["hits"]) for each in scope["rules"]] == [("code", 2)]


def test_workers_stand_below_their_planner_with_what_they_cost(live: Running) -> None:
    live.chat("plan the code", headers={"x-session-id": "planner"})
    live.chat("do the code", headers={"x-session-id": "worker-1"})
    live.outcomes(2)
    started = {"session_id": "planner", "payload": {"worker_session_id": "worker-1"}}
    pointsman = live.parts.pointsman
    draft = Draft(
        "event.delegate.started",
        pointsman.ids.new_id(),
        "planner",
        pointsman.clock.now(),
        msgspec.json.encode(started, order="sorted"),
    )
    pointsman.decision_recorder.recorder().record(draft)
    told = live.get("/api/sessions/planner").json()
    node = told["session"]
    assert (node["cost_microusd"], node["cost_with_workers_microusd"]) == (190, 380)
    assert [each["session_id"] for each in node["workers"]] == ["worker-1"]
    assert live.get("/api/sessions/worker-1").json()["parent"] == "planner"
    assert live.get("/api/sessions/nobody").status_code == 404


def test_what_became_of_a_turn_follows_the_model_that_it_is_at(tmp_path: Path) -> None:
    """The end of a failed call may be written after the decision that another model takes over."""

    def made(name: str) -> TurnMade:
        names = (f"t-{name}", f"d-{name}", "s", "m1", "rule", "r", "/w", "x", "", "")
        return TurnMade(Instant(1000), *names, 0, False, False)

    def ended(decision: str, model: str, error: str = "") -> CallMade:
        return CallMade(decision, model, bool(error), error, 3, 1, 1, 1)

    histories: dict[str, tuple[list[Row], str]] = {
        "open": ([], "open"),
        "done": ([ended("d-done", "m1")], "done"),
        "mended": ([ended("d-mended", "m1", "network"), ended("d-mended", "m1")], "done"),
        "budget": ([ended("d-budget", "m1", "over_budget")], "refused"),
        "late": ([LaterMade("t-late", "f-late", "m2"), ended("d-late", "m1", "network"),
                  ended("f-late", "m2")], "fallback"),
        "last": ([LaterMade("t-last", "f-last", "m2"), ended("f-last", "m2"),
                  ended("d-last", "m1", "network")], "fallback"),
        "lost": ([ended("d-lost", "m1", "network"), LaterMade("t-lost", "f-lost", "m2"),
                  ended("f-lost", "m2", "network")], "failed"),
        "chosen": ([LaterMade("t-chosen", "f-chosen", "m2", is_fallback=False),
                    ended("f-chosen", "m2")], "done"),
    }  # fmt: skip
    with closing(opened_index(tmp_path / TURNS_FILE)) as index:
        for name, (rows_made, _) in histories.items():
            index.take("serve-1", Mark(1, b""), [made(name), *rows_made])
        found = {each.turn_id.removeprefix("t-"): each for each in index.turns(Wanted(), 100)}
    assert {name: each.state for name, each in found.items()} == {
        name: state for name, (_, state) in histories.items()
    }
    assert (found["chosen"].calls, found["chosen"].fallbacks, found["chosen"].served) == (
        1, 0, "m2",
    )  # fmt: skip
    assert found["late"].cost_microusd == 6


@pytest.mark.parametrize("rare", [0, 10_000])
def test_turns_of_some_cost_are_the_same_however_they_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rare: int
) -> None:
    monkeypatch.setattr(turn_index, "RARE", rare)
    made: list[Row] = []
    for n in range(90):
        names = (f"t{n}", f"d{n:02}", f"s{n % 4}", f"m{n % 3}", "rule", f"r{n % 5}", f"/w{n % 2}")
        made.append(TurnMade(Instant(1000 + n // 2), *names, "x", "", "", 0, False, False))
        made.append(CallMade(f"d{n:02}", f"m{n % 3}", n % 7 == 0, "", n * 37 % 50, 1, 1, 1))
    with closing(opened_index(tmp_path / TURNS_FILE)) as index:
        index.take("serve-1", Mark(180, b""), made)
        every = index.turns(Wanted(), 100)
        assert len(every) == 90
        for least, filters in itertools.product(
            (0, 1, 25, 49, 50), ({}, {"model": "m1"}, {"rule": "r2"}, {"workspace": "/w1"},
            {"policy": "rule"}, {"state": "failed"}, {"state": "done"}, {"session_id": "s3"}),
        ):  # fmt: skip
            want = [
                each
                for each in every
                if each.cost_microusd >= least
                and all(getattr(each, name) == value for name, value in filters.items())
            ]
            asked = {name.removesuffix("_id"): value for name, value in filters.items()}
            first = index.turns(Wanted(least=least, **asked), 7)
            assert first == want[:7], (least, filters)
            if len(first) == 7:
                last = {"at": first[-1].at, "before": first[-1].decision_id}
                assert index.turns(Wanted(least=least, **asked, **last), 100) == want[7:]
