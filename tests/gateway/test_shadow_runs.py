"""Beside a turn: it is run again on another model, or explored, and learned from."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import closing
from typing import Any, cast

import pytest
from tests.gateway.conftest import Town
from tests.gateway.house import chat_text, eventually, facts_of, keeps, streamed, write_home
from tests.gateway.shadows import SHADOW, counted, routing, settled

from pointsman.errors import MissingSnapshot
from pointsman.gateway.turns.shadow_runs import MOST_AT_ONCE, MOST_WAITING, ShadowRuns
from pointsman.kernel.content import Sealed
from pointsman.kernel.instant import Instant
from pointsman.kernel.number import Billionths, MicroUsd
from pointsman.kernel.record import read_recorded
from pointsman.learning.shadow_runs import SHADOW_RUN_FORM
from pointsman.signals.embedding import text_vector
from pointsman.storage.home import open_home
from pointsman.storage.stores.entries import ContentReader
from pointsman.storage.stores.patterns.patterns import PatternStore
from pointsman.storage.stores.patterns.writing import ImportRow
from pointsman.testing import does, fails, says
from pointsman.testing.upstream_replies import Close, Pause
from pointsman.turns.chain.exploring import shadow_model
from pointsman.turns.learning.fingerprint import Surroundings, fingerprint_of
from pointsman.turns.trace import OUTCOME_FORM


@pytest.fixture
def shadowed(town: Town) -> Town:
    """Every turn is run again: the default takes it, Claude is the only other model in use."""
    write_home(town.home, routing=routing())
    return town


def test_a_turn_is_run_again_in_the_background_and_both_runs_are_counted(
    shadowed: Town, serve: Any
) -> None:
    shadowed.openai.then(says("the answer"))
    shadowed.anthropic.then(says("the other answer"))
    live = serve(shadowed.home)
    told = live.chat("add two numbers")
    assert told.json()["choices"][0]["message"]["content"] == "the answer"
    with closing(counted(live, 2)) as store:
        assert {each.model: each.samples for each in store.report()} == {
            "open:big": 1,
            "claude:opus": 1,
        }
        assert store.origins() == {"shadow": 1}
        assert len(store.summaries()) == 1
    (again,) = live.entries(SHADOW)
    assert again.ref == told.headers["x-pointsman-turn"]
    assert [each["request_id"] for each in live.outcomes(2)] == ["req_1", "req_1"]
    (entry,) = live.entries("event.turn.shadowed")
    event = SHADOW_RUN_FORM.decode(entry.payload)
    assert (event.decision_id, event.model, event.served_model) == (
        again.id,
        "claude:opus",
        "open:big",
    )
    ends = live.outcomes(2)
    assert [(end["model"], end["spent"]["cost_microusd"] > 0) for end in ends] == [
        ("open:big", True),
        ("claude:opus", True),
    ]
    assert "add two numbers" in shadowed.anthropic.texts()
    left = live.get("/api/audit/egress", authorization=f"Bearer {live.admin}").json()
    assert sorted(each["model"] for each in left["rows"]) == ["claude:opus", "open:big"]


def test_the_choice_of_a_shadow_replays(shadowed: Town, serve: Any) -> None:
    live = serve(shadowed.home)
    shadowed.openai.then(says("one"))
    shadowed.anthropic.then(says("two"))
    turn_id = live.chat("hello").headers["x-pointsman-turn"]
    counted(live, 2).close()
    (again,) = live.entries(SHADOW)
    _, record, _ = read_recorded(again.payload)
    assert OUTCOME_FORM.decode(bytes(record.outcome)).chosen_model == "claude:opus"
    found = live.post(f"/api/turns/{turn_id}/replay", {}, authorization=f"Bearer {live.admin}")
    verdicts = {each["kind"]: each["verdict"] for each in found.json()["decisions"]}
    assert verdicts == {"turn": "identical", "turn.shadow": "identical"}
    # The draw itself follows from the turn's id, its facts and its policy.
    (first,) = [each for each in live.entries("decision.turn") if each.kind == "decision.turn"]
    ready = live.parts.pointsman.in_force().ready
    assert shadow_model(turn_id, ready, facts_of(live.home, first.id), "open:big") == "claude:opus"


@pytest.mark.parametrize("retain", ["full", "digest"])
def test_what_a_shadow_says_is_kept_as_texts_are(shadowed: Town, serve: Any, retain: str) -> None:
    write_home(shadowed.home, pointsman={"retain": retain})
    shadowed.openai.then(says("one"))
    shadowed.anthropic.then(says("the words of the shadow"))
    live = serve(shadowed.home)
    live.chat("hello")
    counted(live, 2).close()
    (entry,) = live.entries("event.turn.shadowed")
    seal = SHADOW_RUN_FORM.decode(entry.payload).answer
    assert isinstance(seal, Sealed)
    home = open_home(live.home)
    with closing(ContentReader(home.content, home.content_key())) as texts:
        if retain == "full":
            assert texts.displayed_text(seal) == "the words of the shadow"
        else:
            with pytest.raises(MissingSnapshot):
                texts.displayed_text(seal)
    assert b"the words of the shadow" not in entry.payload


def test_the_answer_of_a_stream_is_passed_on_unchanged(shadowed: Town, serve: Any) -> None:
    shadowed.openai.then(says("said in pieces"))
    shadowed.anthropic.then(says("two"))
    live = serve(shadowed.home)
    assert chat_text(streamed(live.chat("hello", stream=True))) == "said in pieces"
    counted(live, 2).close()
    (asked,) = shadowed.anthropic.requests
    assert not asked.is_stream


def test_an_answer_does_not_wait_for_its_shadow(shadowed: Town, serve: Any) -> None:
    shadowed.openai.then(*[says(f"answer {n}") for n in range(5)])
    shadowed.anthropic.then(*[does(Pause())] * 5)
    live = serve(shadowed.home)
    for n in range(5):
        told = live.chat(f"question {n}")
        assert told.json()["choices"][0]["message"]["content"] == f"answer {n}"
    eventually(lambda: len(shadowed.anthropic.requests) == MOST_AT_ONCE)
    assert len(live.entries("decision.turn")) >= 5


def test_what_finds_no_room_is_dropped_and_told(shadowed: Town, serve: Any) -> None:
    turns = MOST_AT_ONCE + MOST_WAITING + 3
    shadowed.openai.then(*[says("an answer")] * turns)
    shadowed.anthropic.then(*[does(Pause())] * MOST_AT_ONCE)
    live = serve(shadowed.home)
    for n in range(MOST_AT_ONCE):
        live.chat(f"first {n}")
    eventually(lambda: len(shadowed.anthropic.requests) == MOST_AT_ONCE)
    for n in range(turns - MOST_AT_ONCE):
        assert live.chat(f"then {n}").status_code == 200
    settled(live, shadow_dropped=3)


def test_a_shadow_that_fails_leaves_the_turn_as_it_was(shadowed: Town, serve: Any) -> None:
    shadowed.openai.then(says("fine"))
    shadowed.anthropic.then(*[fails(500)] * 3)
    live = serve(shadowed.home)
    assert live.chat("hello").status_code == 200
    settled(live, shadow_failed=1)
    with closing(counted(live, 1)) as store:
        assert [each.model for each in store.report()] == ["open:big"]
    assert [end["error_class"] for end in live.outcomes(2)] == ["", "server_error"]
    assert not live.entries("event.turn.shadowed")


def test_a_connection_that_breaks_is_a_shadow_that_failed(shadowed: Town, serve: Any) -> None:
    shadowed.openai.then(says("fine"))
    shadowed.anthropic.then(*[does(Close())] * 9)
    live = serve(shadowed.home)
    assert live.chat("hello").status_code == 200
    settled(live, shadow_failed=1)


def test_nothing_is_run_again_over_a_budget(shadowed: Town, serve: Any) -> None:
    # Enough for the cheap model; what the dear one may cost is more than is left.
    budgets = [{"name": "day", "each": "all", "per": "day", "limit_usd": 0.006}]
    write_home(shadowed.home, routing={**routing(), "budgets": budgets})
    shadowed.openai.then(says("fine"))
    live = serve(shadowed.home)
    assert live.chat("hello").status_code == 200
    live.outcomes(1)
    assert not shadowed.anthropic.requests
    assert not live.entries(SHADOW)


def test_what_stays_here_is_never_run_again_elsewhere(shadowed: Town, serve: Any) -> None:
    write_home(shadowed.home, placement=keeps("email"), routing=routing("house:llama"))
    shadowed.local.then(*[says("done here")] * 3)
    live = serve(shadowed.home)
    live.chat("write to jane.doe@example.org")
    live.chat("a secret", headers={"x_pointsman_privacy": "local"})
    # A model on this machine took it, though it might have left: it does not leave now.
    live.chat("an open question")
    live.outcomes(3)
    assert not live.entries(SHADOW)
    assert not shadowed.anthropic.requests
    assert not shadowed.openai.requests


def test_nothing_happens_beside_a_turn_by_default(town: Town, serve: Any) -> None:
    write_home(town.home, routing={**routing(), "pattern": {}})
    town.openai.then(says("fine"))
    live = serve(town.home)
    live.chat("hello")
    live.outcomes(1)
    assert not open_home(live.home).patterns.exists()
    assert not town.anthropic.requests


def test_a_turn_that_was_explored_is_counted_as_such(town: Town, serve: Any) -> None:
    # Both models had their first tries in full, so that every draw goes to the runner-up.
    pattern = {"method": "evidence", "explore": {"share": 1, "first": TRIES}}
    write_home(
        town.home,
        routing={**routing(), "pattern": {**pattern, "min_sample_size": 1, "min_confidence": 0}},
    )
    learned_from(town)
    town.openai.then(says("explored"))
    town.anthropic.then(says("explored"))
    live = serve(town.home)
    told = live.chat("add two numbers")
    assert told.headers["x-pointsman-policy"] == "pattern"
    store = PatternStore(open_home(live.home).patterns)
    with closing(store):
        eventually(lambda: store.origins() == {"explored": 1})


def exploring(town: Town, **explore: Any) -> None:
    """Write a policy that explores with every turn, and knows two models."""
    given = {"share": 1, "first": 1, **explore}
    pattern = {"method": "evidence", "explore": given}
    write_home(town.home, routing={**routing(), "pattern": pattern})


def test_a_life_from_an_empty_store_begins_by_itself(town: Town, serve: Any) -> None:
    exploring(town)
    town.openai.then(says("one"), says("two"))
    town.anthropic.then(says("three"))
    live = serve(town.home)
    told = []
    for count in (1, 2, 3):
        told.append(live.chat("add two numbers").headers)
        counted(live, min(count, 2)).close()
    served = [(each["x-pointsman-policy"], each["x-pointsman-model"]) for each in told]
    assert served == [
        ("pattern", "claude:opus"),
        ("pattern", "open:big"),
        ("global_default", "open:big"),
    ]
    found = [facts_of(live.home, each["x-pointsman-decision"]).exploring for each in told]
    assert [each.tried for each in found] == [
        {},
        {"claude:opus": 1},
        {"claude:opus": 1, "open:big": 1},
    ]
    assert found[0].spent_microusd == 0 < found[1].spent_microusd < found[2].spent_microusd
    replayed = live.post("/api/replay", {}, authorization=f"Bearer {live.admin}").json()
    assert (replayed["diverged"], replayed["unable"]) == (0, 0)


def test_exploring_stops_at_its_cap_for_the_day(town: Town, serve: Any) -> None:
    exploring(town, first=9, most_usd_per_day=0)
    town.openai.then(says("one"))
    live = serve(town.home)
    assert live.chat("add two numbers").headers["x-pointsman-policy"] == "global_default"


ROWS, RUNS = 8, 3
TRIES = ROWS * RUNS
"""How often each model was tried."""


def learned_from(town: Town) -> None:
    """Fill a pattern store: Claude is good at this, the other is not."""
    rows = [
        ImportRow(
            f"{name} {n}",
            fingerprint_of(f"add the numbers {n}", Surroundings()),
            text_vector(f"add the numbers {n}"),
            name,
            Billionths(success),
            MicroUsd(1_000),
            RUNS,
        )
        for n in range(ROWS)
        for name, success in (("open:big", 0), ("claude:opus", 10**9))
    ]
    with closing(PatternStore(open_home(town.home).patterns)) as store:
        store.import_rows(rows, Instant(0))


class Ready(ShadowRuns):
    """Has nothing to wait for: whoever works is done with one step."""

    def __init__(self) -> None:
        self._waiting, self._working, self._at_work = deque(), set(), 0
        self.done: list[Any] = []

    async def _run(self, work: Any) -> None:
        self.done.append(work)


def test_work_that_comes_as_the_last_of_those_at_work_end_is_begun_all_the_same() -> None:
    async def work() -> list[Any]:
        beside, loop = Ready(), asyncio.get_running_loop()
        for each in "ab":
            beside._take(cast("Any", each))
        # After both have ended, before anybody is told that they have.
        loop.call_soon(beside._take, "c")
        for _ in range(10):
            await asyncio.sleep(0)
        assert not beside._waiting
        return beside.done

    assert asyncio.run(work()) == ["a", "b", "c"]
