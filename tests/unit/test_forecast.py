"""What recorded turns would have come to under another policy, with intervals."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Raw
from tests.unit.test_backtest import MODELS, other, turn

from pointsman.access.book import Spent
from pointsman.app import Pointsman
from pointsman.audit.backtest.backtester import BacktestCase, backtest
from pointsman.audit.backtest.forecast import ForecastMeasure, student_95
from pointsman.audit.backtest.result import Backtest
from pointsman.audit.backtest.scenario import read_scenario
from pointsman.calls.call_end import END_FORM, CallEnd
from pointsman.kernel.number import SCALE, Billionths, MicroUsd
from pointsman.kernel.record import Names, OutcomeRecord, outcome_draft
from pointsman.learning.feedback import Feedback, feedback_draft
from pointsman.testing import a_home
from pointsman.turns.facts import Override

PRICES = {"acme:big": (3, 15), "acme:cheap": (0.15, 1), "acme:odd": None}


@pytest.fixture
def pointsman(tmp_path: Path) -> Iterator[Any]:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "models.yaml").write_text(MODELS)
    (home / "routing.yaml").write_text(
        "schema_version: 1\nglobal_default: [acme:big, acme:cheap, acme:odd]\n"
    )
    with a_home(home) as opened:
        yield opened


def called(
    pointsman: Pointsman,
    message: str,
    model: str = "acme:big",
    tokens: tuple[int, int] = (1000, 100),
    *,
    ms: int = 200,
    score: float | None = None,
    status: str = "done",
    cached: int = 0,
    is_by_hand: bool = False,
) -> str:
    """Record a turn that got a model by hand or because others had failed, its call and verdict."""
    others = tuple(PRICES)[: list(PRICES).index(model)]
    chosen: dict[str, Any] = {"excluded_models": others}
    if is_by_hand:
        chosen = {"override": Override(model, model)}
    name = turn(pointsman, message, tokens[0], **chosen)
    decision = pointsman.shown(name).decision_id
    rates = PRICES[model]
    cost = None
    if rates is not None:
        cost = MicroUsd(round((tokens[0] - cached) * rates[0] + tokens[1] * rates[1]))
    at = pointsman.clock.now()
    spent = Spent(model, "", "", "", tokens[0] - cached, tokens[1], cached, 0, cost, "", False, at)
    end = CallEnd(model, "cloud", 1, False, 200, "", 1, "stop", ms * 1000, 0, spent)
    ids = pointsman.ids
    record = pointsman.decision_recorder.recorder().record
    outcome = OutcomeRecord("done" if status == "done" else "failed", Raw(END_FORM.encode(end)))
    record(outcome_draft(Names(ids.new_id(), decision, at), outcome))
    if score is not None:
        given = Feedback(decision, Billionths(int(score * SCALE)), "", None)
        record(feedback_draft(Names(ids.new_id(), name, at), given))
    return name


def some_days(pointsman: Pointsman, count: int = 24) -> None:
    """Record turns on both models whose answers are as long as their number says."""
    for number in range(count):
        good = 1.0 if number % 4 else 0.0
        called(pointsman, f"task {number}", "acme:cheap", (1000, 50 + number), ms=100, score=good)
        called(pointsman, f"work {number}", "acme:big", (1000, 150 + number), ms=300, score=1.0)


def measure(found: Backtest, name: str) -> ForecastMeasure:
    return next(each for each in found.forecast.measures if each.name == name)


def run(pointsman: Pointsman, **routing: Any) -> Backtest:
    return pointsman.backtest(other(pointsman, **routing))


def test_turns_that_keep_their_model_are_as_they_were(pointsman: Pointsman) -> None:
    some_days(pointsman, 3)
    found = run(pointsman, global_default=["acme:big", "acme:cheap"])
    assert (found.forecast.support.kept, found.changed_count) == (6, 0)
    for each in found.forecast.measures:
        assert each.before == each.after == each.low == each.high


def test_a_turn_that_moves_is_estimated_from_turns_like_it(pointsman: Pointsman) -> None:
    some_days(pointsman)
    found = run(pointsman, global_default="acme:cheap")
    support = found.forecast.support
    assert (support.kept, support.estimated) == (24, 24)
    tokens = measure(found, "output_tokens")
    lengths = sum(range(24))
    assert tokens.before == 24 * 200 + 2 * lengths
    # The mean of the cheap model's answers, for each turn that moves to it.
    assert tokens.after == pytest.approx(24 * 50 + lengths + 24 * (50 + lengths / 24))
    assert tokens.low < tokens.after < tokens.high
    cost = measure(found, "cost_usd")
    assert cost.after == pytest.approx(48 * (150 + 50 + lengths / 24) / 1e6)
    assert cost.low < cost.after < cost.high < cost.before
    assert measure(found, "latency_ms").after == 100
    assert measure(found, "latency_ms").before == 200
    score = measure(found, "score")
    assert (score.before, score.after) == (0.875, 0.75)
    assert 0 < score.low < 0.75 < score.high <= 1


def test_where_nothing_supports_an_estimate_it_is_left_out_and_counted(
    pointsman: Pointsman,
) -> None:
    some_days(pointsman, 5)
    thin = run(pointsman, global_default="acme:cheap").forecast
    assert thin.support.unsupported == {"too few recorded turns of acme:cheap are alike": 5}
    assert thin.measures[0].turns == thin.support.kept == 5
    never = run(pointsman, global_default="acme:odd").forecast
    assert never.support.unsupported == {"no turn of acme:odd is recorded": 10}
    # As many, but of another size.
    for number in range(30):
        called(pointsman, f"long {number}", "acme:cheap", (90_000, 10))
    assert run(pointsman, global_default="acme:cheap").forecast.support.unsupported


def test_only_turns_that_the_same_rule_takes_are_alike(
    pointsman: Pointsman,
) -> None:
    for number in range(12):
        called(pointsman, f"a commit {number}", "acme:cheap", (1000, 10), is_by_hand=True)
        called(pointsman, f"a commit {number}", "acme:big", (1000, 500))
    for number in range(30):
        called(pointsman, f"an essay {number}", "acme:cheap", (1000, 900), is_by_hand=True)
    rule = {"name": "c", "when": {"message_contains_any": ["commit"]}, "use": "acme:cheap"}
    text = {"global_default": "acme:big", "rules": [rule]}
    found = run(pointsman, **text)
    # Turns on the cheap model by hand stay, but tell nothing of the rule: it is not what took them.
    assert found.forecast.support.unsupported == {
        "too few recorded turns of acme:cheap are alike": 12
    }
    with reopened(pointsman, text) as later:
        for number in range(12):
            plain_call(later, f"a commit {number}", "acme:cheap", 10)
        again = run(later, **text)
    assert again.forecast.support.estimated == 12
    tokens = measure(again, "output_tokens")
    kept = 12 * 10 + 30 * 900 + 12 * 10
    assert tokens.after == pytest.approx(kept + 12 * 10)


@contextmanager
def reopened(pointsman: Pointsman, routing: dict[str, Any]) -> Iterator[Pointsman]:
    """Open the home again under another routing.yaml."""
    home = pointsman.home.path
    pointsman.close()
    (home / "routing.yaml").write_bytes(msgspec.json.encode({"schema_version": 1, **routing}))
    with Pointsman(home) as opened:
        yield opened


def plain_call(pointsman: Pointsman, message: str, model: str, out: int) -> None:
    name = turn(pointsman, message, 1000)
    shown = pointsman.shown(name)
    assert shown.outcome.chosen_model == model
    at = pointsman.clock.now()
    spent = Spent(model, "", "", "", 1000, out, 0, 0, MicroUsd(150 + out), "", False, at)
    end = CallEnd(model, "cloud", 1, False, 200, "", 1, "stop", 1000, 0, spent)
    names = Names(pointsman.ids.new_id(), shown.decision_id, at)
    outcome = OutcomeRecord("done", Raw(END_FORM.encode(end)))
    pointsman.decision_recorder.recorder().record(outcome_draft(names, outcome))


def test_a_price_change_prices_recorded_tokens_anew(pointsman: Pointsman) -> None:
    called(pointsman, "a", tokens=(1000, 100), cached=400)
    policy = pointsman.in_force().ready.policy
    scenario = read_scenario(policy, prices=["big=6,30,0.6"])
    found = backtest(pointsman.home, policy, scenario=scenario)
    cost = measure(found, "cost_usd")
    assert cost.before == pytest.approx((600 * 3 + 100 * 15) / 1e6)
    assert cost.after == cost.low == pytest.approx((600 * 6 + 400 * 0.6 + 100 * 30) / 1e6)


def test_an_unknown_price_leaves_a_turn_out_of_the_cost_alone(pointsman: Pointsman) -> None:
    called(pointsman, "a")
    called(pointsman, "b", "acme:odd", (1000, 60))
    found = run(pointsman, global_default=["acme:big", "acme:odd"])
    assert measure(found, "cost_usd").turns == 1
    assert measure(found, "cost_usd").before == measure(found, "cost_usd").after
    assert measure(found, "output_tokens").turns == 2
    assert sum(found.forecast.support.unsupported.values()) == 1


def test_calls_that_failed_tell_of_failures_alone(pointsman: Pointsman) -> None:
    some_days(pointsman)
    for number in range(8):
        called(pointsman, f"bad {number}", "acme:cheap", (1000, 0), status="failed")
    found = run(pointsman, global_default="acme:cheap")
    failed = measure(found, "failed_share")
    assert failed.before == pytest.approx(8 / 56)
    assert failed.after == pytest.approx((8 + 24 * 8 / 32) / 56)
    assert measure(found, "output_tokens").after == pytest.approx(2 * (24 * 50 + sum(range(24))))


def test_a_turn_that_no_model_takes_is_counted_and_not_estimated(pointsman: Pointsman) -> None:
    called(pointsman, "a")
    policy = pointsman.in_force().ready.policy
    case = BacktestCase(policy, read_scenario(policy, gone=["big", "acme:cheap", "acme:odd"]))
    (found,) = pointsman.backtest_all([case])
    assert found.forecast.support.refused == found.changed_count == 1
    assert found.forecast.measures == ()


def test_turns_that_would_leave_this_machine_are_counted(pointsman: Pointsman) -> None:
    called(pointsman, "a")
    found = run(pointsman, global_default="embedded:smollm2-135m")
    assert (found.places.leave, found.places.stay) == (0, 1)
    assert run(pointsman, global_default="acme:big").places.stay == 0


def test_a_forecast_is_the_same_in_ranges_and_in_one_pass_with_others(
    pointsman: Pointsman,
) -> None:
    some_days(pointsman)
    cheap = other(pointsman, global_default="acme:cheap")
    odd = other(pointsman, global_default="acme:odd")
    alone = backtest(pointsman.home, cheap, workers=1)
    assert alone == backtest(pointsman.home, cheap, length=7, workers=1)
    both = pointsman.backtest_all([BacktestCase(odd), BacktestCase(cheap)])
    assert both[1] == alone


@pytest.mark.parametrize(
    ("freedom", "quantile"), [(1, 12.706), (4, 2.776), (10, 2.228), (30, 2.042), (1e6, 1.96)]
)
def test_the_quantile_is_that_of_the_tables(freedom: float, quantile: float) -> None:
    assert student_95(freedom) == pytest.approx(quantile, abs=0.004)
