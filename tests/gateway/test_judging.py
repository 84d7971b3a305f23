"""Verdicts on turns and their shadows: told by a caller, or by a judge."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from msgspec import UNSET
from tests.gateway.conftest import Town
from tests.gateway.house import eventually, keeps, running, write_home
from tests.gateway.shadows import SHADOW, counted, routing, settled

from pointsman.calls.judging import Rubric
from pointsman.cli.main import main
from pointsman.learning.feedback import FEEDBACK_FORM
from pointsman.learning.shadow_runs import JUDGE_VERDICT_FORM
from pointsman.learning.verdict_counts import count_verdicts
from pointsman.storage.home import open_home
from pointsman.testing import says


@pytest.fixture
def shadowed(town: Town) -> Town:
    """Every turn is run again: the default takes it, Claude is the only other model in use."""
    write_home(town.home, routing=routing())
    return town


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


def test_a_test_that_passed_is_a_verdict_that_a_users_outweighs(town: Town, serve: Any) -> None:
    town.openai.then(says("fine"))
    live = serve(town.home)
    turn = live.chat("add two numbers").headers["x-pointsman-turn"]
    live.outcomes(1)

    def told(**verdict: Any) -> dict[str, Any]:
        return dict(live.post("/api/feedback", {"turn_id": turn, **verdict}).json())

    assert told(exit_code=1)["score"] == 0
    assert told(exit_code=0)["pattern"] == "counted"
    with closing(counted(live, 1)) as store:
        assert store.report()[0].mean_success == 1_000_000_000
    assert told(score=0.25)["pattern"] == "counted"
    for sign in ({"exit_code": 0}, {"signal": "retry"}):
        assert told(**sign)["pattern"] == "outweighed"
    with closing(counted(live, 1)) as store:
        assert store.report()[0].mean_success == 250_000_000
    given = [FEEDBACK_FORM.decode(each.payload) for each in live.entries("event.feedback.given")]
    assert [each.sign for each in given] == ["test", "test", UNSET, "test", "retry"]
    assert [each.exit_code for each in given][:2] == [1, 0]
    assert given[0].confidence == 900_000_000
    kinds = count_verdicts(open_home(town.home))
    assert kinds == {"test": 3, "retry": 1, "user": 1}
    told_by_report = CliRunner().invoke(main, ["patterns", "report", "--home", str(town.home)])
    assert "verdicts recorded: 3 of tests, 1 as the user asked again, 1 given by users" in (
        told_by_report.output
    )


@pytest.mark.parametrize("verdict", [{}, {"exit_code": 0, "thumbs": "up"}])
def test_a_verdict_is_one_of_its_kinds(town: Town, serve: Any, verdict: dict[str, Any]) -> None:
    town.openai.then(says("fine"))
    live = serve(town.home)
    turn = live.chat("add two numbers").headers["x-pointsman-turn"]
    told = live.post("/api/feedback", {"turn_id": turn, **verdict})
    assert told.status_code == 400
    assert "one of `score`, `thumbs`, `exit_code` and `signal`" in told.text


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
    verdicts = [JUDGE_VERDICT_FORM.decode(each.payload) for each in entries]
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
        verdicts = [
            JUDGE_VERDICT_FORM.decode(each.payload) for each in live.entries("event.turn.judged")
        ]
        assert len(verdicts) == found.count("done")
        assert all(each.score % 250_000_000 == 0 for each in verdicts)
        assert {end["location"] for end in live.outcomes(2)} == {"local"}
