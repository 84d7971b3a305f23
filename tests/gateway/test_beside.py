"""Beside a turn: it is run again on another model, judged by a rubric, and learned from."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.conftest import Town
from tests.gateway.house import (
    Running,
    chat_text,
    eventually,
    facts_of,
    keeps,
    running,
    streamed,
    write_home,
)

from pointsman.errors import MissingSnapshot
from pointsman.gateway.beside import MOST_AT_ONCE, MOST_WAITING
from pointsman.kernel.content import Sealed
from pointsman.kernel.instant import Instant
from pointsman.kernel.number import Billionths, MicroUsd
from pointsman.kernel.record import read_recorded
from pointsman.runs.rubric import Rubric
from pointsman.runs.shadowing import JUDGED_FORM, SHADOWED_FORM
from pointsman.signals.embedding import text_vector
from pointsman.storage.home import open_home
from pointsman.storage.sqlite.pattern_writing import ImportRow
from pointsman.storage.sqlite.patterns import PatternStore
from pointsman.storage.sqlite.reading import ContentReader
from pointsman.testing import does, fails, says
from pointsman.testing.upstream_replies import Close, Pause
from pointsman.turns.exploring import shadow_model
from pointsman.turns.fingerprint import Surroundings, fingerprint_of
from pointsman.turns.trace import OUTCOME_FORM

TIERS = {"fast": "claude:opus", "balanced": "claude:opus", "deep": "claude:opus"}
SHADOW = "decision.turn.shadow"


def routing(default: str = "open:big", **pattern: Any) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "global_default": default,
        "tiers": TIERS,
        "pattern": {"shadow": 1, **pattern},
    }


@pytest.fixture
def shadowed(town: Town) -> Town:
    """Every turn is run again: the default takes it, Claude is the only other model in use."""
    write_home(town.home, routing=routing())
    return town


def settled(live: Running, **wanted: int) -> None:
    """Wait until so many things were done beside turns: `shadow_done=1`."""

    def seen() -> bool:
        told = live.parts.metrics.text()
        return all(
            f'pointsman_beside_total{{kind="{name.split("_", 1)[0]}",'
            f'result="{name.split("_", 1)[1]}"}} {count}' in told
            for name, count in wanted.items()
        )

    eventually(seen)


def counted(live: Running, samples: int) -> PatternStore:
    """Wait until the pattern store knows so many samples."""
    store = PatternStore(open_home(live.home).patterns)
    eventually(lambda: sum(each.samples for each in store.report()) >= samples)
    return store


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
        assert len(store.listed()) == 1
    (again,) = live.entries(SHADOW)
    assert again.ref == told.headers["x-pointsman-turn"]
    (entry,) = live.entries("event.turn.shadowed")
    event = SHADOWED_FORM.decode(entry.payload)
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
    seal = SHADOWED_FORM.decode(entry.payload).answer
    assert isinstance(seal, Sealed)
    home = open_home(live.home)
    with closing(ContentReader(home.content, home.content_key())) as texts:
        if retain == "full":
            assert texts.shown(seal) == "the words of the shadow"
        else:
            with pytest.raises(MissingSnapshot):
                texts.shown(seal)
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
    # Enough for a small answer of the cheap model; the dear one may cost more than is left.
    budgets = [{"name": "day", "each": "all", "per": "day", "limit_usd": 0.006}]
    write_home(shadowed.home, routing={**routing(), "budgets": budgets})
    shadowed.openai.then(says("fine"))
    live = serve(shadowed.home)
    assert live.chat("hello").status_code == 200
    settled(live, shadow_over_budget=1)
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
    explore = {"method": "evidence", "explore": 1, "min_sample_size": 1, "min_confidence": 0}
    write_home(town.home, routing={**routing(), "pattern": explore})
    learned_from(town)
    town.openai.then(says("explored"))
    town.anthropic.then(says("explored"))
    live = serve(town.home)
    told = live.chat("add two numbers")
    assert told.headers["x-pointsman-policy"] == "pattern"
    store = PatternStore(open_home(live.home).patterns)
    with closing(store):
        eventually(lambda: store.origins() == {"explored": 1})


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
            3,
        )
        for n in range(8)
        for name, success in (("open:big", 0), ("claude:opus", 10**9))
    ]
    with closing(PatternStore(open_home(town.home).patterns)) as store:
        store.import_rows(rows, Instant(0))


def test_verdict_on_a_turn_of_the_gateway_counts_it_from_its_record(town: Town, serve: Any) -> None:
    town.openai.then(says("fine"))
    live = serve(town.home)
    turn = live.chat("add two numbers").headers["x-pointsman-turn"]
    live.outcomes(1)
    given = {"turn_id": turn, "score": 0.75, "eval_id": "suite 1 / case 9"}
    assert live.post("/api/feedback", given).json()["pattern"] == "counted"
    assert live.post("/api/feedback", given).json()["pattern"] == "known"
    with closing(counted(live, 1)) as store:
        (total,) = store.report()
        assert (total.model, total.samples, total.judged) == ("open:big", 1, 1)
        assert total.mean_success == 750_000_000
        assert total.mean_cost_microusd > 0


def test_verdict_on_a_turn_whose_text_is_gone_counts_for_nothing(town: Town, serve: Any) -> None:
    write_home(town.home, pointsman={"retain": "digest"})
    town.openai.then(says("fine"))
    live = serve(town.home)
    turn = live.chat("add two numbers").headers["x-pointsman-turn"]
    live.outcomes(1)
    told = live.post("/api/feedback", {"turn_id": turn, "thumbs": "up"})
    assert told.json()["pattern"] == "no_patterns"


def test_store_that_is_off_learns_nothing_from_verdicts(town: Town, serve: Any) -> None:
    write_home(town.home, routing={**routing(), "pattern": {"mode": "off"}})
    town.openai.then(says("fine"))
    live = serve(town.home)
    turn = live.chat("add two numbers").headers["x-pointsman-turn"]
    live.outcomes(1)
    told = live.post("/api/feedback", {"turn_id": turn, "thumbs": "up"})
    assert told.json()["pattern"] == "no_patterns"


def test_verdict_on_a_shadow_is_its_own(shadowed: Town, serve: Any) -> None:
    shadowed.openai.then(says("one"))
    shadowed.anthropic.then(says("two"))
    live = serve(shadowed.home)
    turn = live.chat("add two numbers").headers["x-pointsman-turn"]
    with closing(counted(live, 2)) as store:
        (again,) = live.entries(SHADOW)
        mine = live.post("/api/feedback", {"turn_id": turn, "score": 0.25})
        other = {"turn_id": turn, "decision_id": again.id, "score": 1}
        told = live.post("/api/feedback", other)
        assert (mine.json()["pattern"], told.json()["pattern"]) == ("counted", "counted")
        assert told.json()["decision_id"] == again.id
        found = {each.model: each.mean_success for each in store.report()}
        assert found == {"open:big": 250_000_000, "claude:opus": 10**9}
    wrong = live.post("/api/feedback", {**other, "decision_id": turn})
    assert wrong.status_code == 404


def judging(town: Town, model: str, **more: Any) -> None:
    write_home(town.home, pointsman={"judge": {"model": model, "rubric": "be brief", **more}})


def test_judge_scores_both_answers_by_the_rubric(shadowed: Town, serve: Any) -> None:
    judging(shadowed, "house:llama")
    shadowed.openai.then(says("a long answer"))
    shadowed.anthropic.then(says("short"))
    shadowed.local.then(says("1"), says(" 4\n"))
    live = serve(shadowed.home)
    turn = live.chat("add two numbers").headers["x-pointsman-turn"]
    settled(live, judge_done=2)
    with closing(counted(live, 2)) as store:
        eventually(lambda: sum(each.judged for each in store.report()) == 2)
        found = {each.model: each.mean_success for each in store.report()}
    assert found == {"open:big": 250_000_000, "claude:opus": 10**9}
    entries = live.entries("event.turn.judged")
    assert {each.ref for each in entries} == {turn}
    verdicts = [JUDGED_FORM.decode(each.payload) for each in entries]
    (again,) = live.entries(SHADOW)
    assert verdicts[1].decision_id == again.id
    assert {each.judge_model for each in verdicts} == {"house:llama"}
    assert {each.rubric_id for each in verdicts} == {Rubric("be brief").id}
    assert [each.id for each in live.entries("decision.turn.judge")] == [
        each.judge_decision_id for each in verdicts
    ]
    asked = shadowed.local.texts()
    assert all(
        words in asked for words in ("be brief", "add two numbers", "a long answer", "short")
    )


@pytest.mark.parametrize("said", ["it is fine", "7", "", "4 because it is brief"])
def test_malformed_verdict_is_no_outcome(shadowed: Town, serve: Any, said: str) -> None:
    write_home(shadowed.home, routing={**routing(), "pattern": {}})
    judging(shadowed, "house:llama", share=1)
    shadowed.openai.then(says("an answer"))
    shadowed.local.then(says(said))
    live = serve(shadowed.home)
    live.chat("hello")
    settled(live, judge_malformed=1)
    assert not live.entries("event.turn.judged")
    with closing(counted(live, 1)) as store:
        assert [each.judged for each in store.report()] == [0]


def test_judge_in_the_cloud_never_sees_a_local_turn(shadowed: Town, serve: Any) -> None:
    write_home(shadowed.home, placement=keeps("email"), routing=routing("house:llama"))
    judging(shadowed, "claude:opus", share=1)
    shadowed.local.then(*[says("done here")] * 3)
    live = serve(shadowed.home)
    live.chat("write to jane.doe@example.org")
    live.chat("a secret", headers={"x_pointsman_privacy": "local"})
    live.chat("an open question that a model here took")
    settled(live, judge_refused=3)
    assert not shadowed.anthropic.requests
    assert not live.entries("decision.turn.judge")


def test_judge_is_paid_for_like_every_call(shadowed: Town, serve: Any) -> None:
    write_home(shadowed.home, routing={**routing(), "pattern": {}})
    judging(shadowed, "claude:opus", share=1)
    shadowed.openai.then(says("an answer"))
    shadowed.anthropic.then(says("3"))
    live = serve(shadowed.home)
    live.chat("hello")
    settled(live, judge_done=1)
    ends = live.outcomes(2)
    assert ends[1]["model"] == "claude:opus"
    assert ends[1]["spent"]["cost_microusd"] > 0


def test_nobody_judges_by_default(town: Town, serve: Any) -> None:
    live = serve(town.home)
    assert live.parts.settings.judge.model == ""
    assert live.parts.settings.judge.share == 0


@pytest.mark.slow
def test_embedded_model_judges_a_local_turn_without_leaving_the_machine(tmp_path: Path) -> None:
    """It may judge badly: what it says is a verdict that is recorded, or none at all."""
    judge = {"model": "embedded:smollm2-135m", "share": 1}
    home = write_home(tmp_path / "home", pointsman={"judge": judge})
    with running(home) as live:
        told = live.chat(
            "Reply with one word.", max_tokens=4, headers={"x_pointsman_privacy": "local"}
        )
        assert told.status_code == 200
        names = ("done", "malformed")
        text = live.parts.metrics.text
        found = eventually(
            lambda: [each for each in names if f'kind="judge",result="{each}"' in text()],
            seconds=120,
        )
        verdicts = [JUDGED_FORM.decode(each.payload) for each in live.entries("event.turn.judged")]
        assert len(verdicts) == found.count("done")
        assert all(each.score % 250_000_000 == 0 for each in verdicts)
        assert {end["location"] for end in live.outcomes(2)} == {"local"}
