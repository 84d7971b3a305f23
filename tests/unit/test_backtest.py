"""Recorded turns under another policy."""

from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import apsw
import msgspec
import pytest

from pointsman.app import Pointsman
from pointsman.audit.backtest.backtester import backtest
from pointsman.audit.backtest.result import MOST_MODELS, Backtest, picture
from pointsman.kernel.instant import read_instant
from pointsman.testing import a_home, some_facts
from pointsman.testing.builders import FrozenClock
from pointsman.turns.facts import Override

LOCAL = "embedded:smollm2-135m"
MODELS = """
schema_version: 1
providers: {acme: {kind: openai}}
models:
  acme:big: {location: cloud, price: {input: 3, output: 15}, aliases: [big]}
  acme:cheap: {location: cloud, price: {input: "0.15", output: 1}}
  acme:odd: {location: cloud}
"""


@pytest.fixture
def pointsman(tmp_path: Path) -> Any:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "models.yaml").write_text(MODELS)
    (home / "routing.yaml").write_text("schema_version: 1\nglobal_default: acme:big\n")
    with a_home(home) as opened:
        yield opened


def other(pointsman: Pointsman, models: str | None = None, **routing: Any) -> Any:
    text = msgspec.json.encode({"schema_version": 1, **routing})
    given = None if models is None else (models.encode(), "models.yaml")
    return pointsman.candidate_policy((text, "other.yaml"), given)


def turn(pointsman: Pointsman, message: str = "hello", tokens: int = 1000, **facts: Any) -> str:
    estimated = {"*": tokens}
    return pointsman.route(some_facts(message, estimated_input_tokens=estimated, **facts)).turn_id


def run(pointsman: Pointsman, **routing: Any) -> Backtest:
    return pointsman.backtest(other(pointsman, **routing))


def test_the_policy_in_force_changes_nothing(pointsman: Pointsman) -> None:
    turn(pointsman)
    found = pointsman.backtest(pointsman.in_force().ready.policy)
    assert (found.turns, found.changed_count, found.unable_count) == (1, 0, 0)
    assert found.cost.difference_microusd == 0


def test_nothing_recorded_is_nothing_to_decide(pointsman: Pointsman) -> None:
    assert run(pointsman, global_default=LOCAL).turns == 0


def test_changes_name_turn_models_slots_and_rule(pointsman: Pointsman) -> None:
    turn(pointsman, "hello")
    changed = turn(pointsman, "write a commit message")
    rules = [
        {"name": "commits", "when": {"message_matches": "commit"}, "use": "acme:cheap"},
        {"name": "never used", "when": {"message_matches": "zebra"}, "use": "acme:cheap"},
    ]
    found = run(pointsman, global_default="acme:big", rules=rules)
    assert [(c.turn_id, c.before_model, c.after_model) for c in found.changed] == [
        (changed, "acme:big", "acme:cheap")
    ]
    assert (found.changed[0].before_policy, found.changed[0].after_policy) == (
        "global_default",
        "rule",
    )
    assert found.changed[0].rule == "commits"
    assert found.shifts == {("acme:big", "acme:cheap"): 1}
    assert found.by_rule == {"commits": 1, "never used": 0}
    assert found.models_before == {"acme:big": 2}
    assert found.models_after == {"acme:big": 1, "acme:cheap": 1}


def test_input_cost_is_exact_and_rounded_once(pointsman: Pointsman) -> None:
    for _ in range(10):
        turn(pointsman, tokens=3)
    cost = run(pointsman, global_default="acme:cheap").cost
    # 30 tokens at $3 and at $0.15 a million: 4.5 micro-dollars go to the even neighbour.
    assert (cost.turns, cost.before_microusd, cost.after_microusd) == (10, 90, 4)
    assert cost.difference_microusd == -86


def test_a_price_that_is_unknown_is_counted_and_never_free(pointsman: Pointsman) -> None:
    turn(pointsman)
    cost = run(pointsman, global_default="acme:odd").cost
    assert (cost.turns, cost.price_unknown, cost.after_microusd) == (0, 1, 0)


def test_a_turn_no_model_takes_saves_nothing(pointsman: Pointsman) -> None:
    turn(pointsman, allowed_models=("acme:big",))
    found = run(pointsman, global_default="acme:cheap")
    assert found.shifts == {("acme:big", ""): 1}
    assert (found.cost.no_model, found.cost.turns) == (1, 0)
    assert found.changed[0].after_policy == ""


def test_a_model_that_is_new_counts_as_configured(pointsman: Pointsman) -> None:
    turn(pointsman, configured=("acme:big",))
    models = MODELS + "  acme:new: {location: cloud}\n"
    found = pointsman.backtest(other(pointsman, models, global_default="acme:new"))
    assert found.models_after == {"acme:new": 1}
    assert run(pointsman, global_default="acme:cheap").models_after == {"": 1}


def test_an_override_means_what_its_alias_means_under_the_other_policy(
    pointsman: Pointsman,
) -> None:
    turn_id = turn(pointsman, override=Override("big", "acme:big"))
    moved = MODELS.replace(", aliases: [big]", "").replace(
        "acme:odd: {", "acme:odd: {aliases: [big], "
    )
    assert pointsman.backtest(other(pointsman, moved)).models_after == {"acme:odd": 1}
    gone = pointsman.backtest(other(pointsman, MODELS.replace(", aliases: [big]", "")))
    assert [(each.turn_id, each.reason) for each in gone.unable] == [
        (turn_id, "`@big` names no model under this policy")
    ]


def test_only_turns_whose_rules_read_an_erased_text_cannot_be_decided(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "models.yaml").write_text(MODELS)
    (home / "pointsman.yaml").write_text("retain: digest\n")
    with a_home(home) as pointsman:
        missing = turn(pointsman, "hello")
        turn(pointsman, "hello", sticky_model="acme:cheap")
        rules = [{"when": {"message_matches": "x"}, "use": "acme:cheap"}]
        found = run(pointsman, rules=rules)
        assert (found.turns, [each.turn_id for each in found.unable]) == (1, [missing])
        assert found.unable[0].code == "MISSING_SNAPSHOT"
        assert run(pointsman, global_default="acme:cheap").unable == ()


def test_a_rule_about_callers_cannot_decide_turns_that_recorded_none(pointsman: Pointsman) -> None:
    turn(pointsman)
    for asked in ({"key_is": "ci"}, {"tool_names_include": "shell"}):
        (missed,) = run(pointsman, rules=[{"when": asked, "use": "acme:cheap"}]).unable
        assert missed.code == "MISSING_SNAPSHOT"
        behind = [{"when": {}, "use": "acme:cheap"}, {"when": asked, "use": "acme:big"}]
        assert run(pointsman, rules=behind).unable == ()


def test_previews_can_be_left_out(pointsman: Pointsman) -> None:
    pointsman.route(some_facts(), is_preview=True)
    turn(pointsman)
    policy = other(pointsman)
    assert pointsman.backtest(policy).turns == 2
    assert pointsman.backtest(policy, previews=False).turns == 1


def test_turns_before_an_instant_are_left_out(pointsman: Pointsman) -> None:
    turn(pointsman)
    assert isinstance(pointsman.clock, FrozenClock)
    pointsman.clock.advance(seconds=60)
    turn(pointsman)
    since = read_instant("2026-01-01T00:00:30Z")
    seen: list[tuple[int, int]] = []
    found = pointsman.backtest(
        other(pointsman), since, progress=lambda done, total: seen.append((done, total))
    )
    assert found.turns == 1
    assert seen
    assert seen[-1][0] == seen[-1][1]


def test_an_entry_that_was_changed_is_not_decided_on(pointsman: Pointsman) -> None:
    turn_id = turn(pointsman)
    pointsman.close()
    with apsw.Connection(str(pointsman.home.database)) as connection:
        connection.execute("UPDATE entries SET at_us = at_us + 1 WHERE ref = ?", (turn_id,))
    found = run(pointsman)
    assert found.turns == 0
    assert [each.code for each in found.unable] == ["INTEGRITY_FAILURE"]


def test_a_backtest_records_nothing(pointsman: Pointsman) -> None:
    turn(pointsman)
    before = pointsman.verify().entries
    run(pointsman, global_default=LOCAL)
    assert pointsman.verify().entries == before


def texts(svg: str) -> list[str]:
    return [each.text or "" for each in ET.fromstring(svg).iter() if each.tag.endswith("}text")]


def test_the_picture_shows_every_model_before_and_after(pointsman: Pointsman) -> None:
    turn(pointsman)
    turn(pointsman)
    svg = picture(run(pointsman, global_default="acme:cheap"))
    assert texts(svg) == [
        "2 turns, 2 change model", "before", "after",
        "acme:big", "2", "0", "acme:cheap", "0", "2",
    ]  # fmt: skip
    assert svg == picture(run(pointsman, global_default="acme:cheap"))


def test_the_picture_of_many_strange_models_stays_valid_and_small(pointsman: Pointsman) -> None:
    turn(pointsman)
    found = run(pointsman)
    many = {f"<p&{n}>:\x07{'m' * 40}": 1 for n in range(40)}
    shown = texts(picture(msgspec.structs.replace(found, models_after=many)))
    assert sum("other models" in text for text in shown) == 1
    assert len(shown) == 3 + 3 * (MOST_MODELS + 1)


def test_the_picture_of_nothing_is_a_picture(pointsman: Pointsman) -> None:
    assert texts(picture(run(pointsman)))[0] == "0 turns, 0 change model"


def test_ranges_in_several_processes_come_to_the_same_result(pointsman: Pointsman) -> None:
    for number in range(12):
        turn(pointsman, f"please sort pile {number}", tokens=100 * number)
    rules = [{"name": "third", "when": {"message_matches": "pile [369]"}, "use": "acme:cheap"}]
    policy = other(pointsman, MODELS, global_default="acme:big", rules=rules)
    done: list[tuple[int, int]] = []
    spread = backtest(
        pointsman.home,
        policy,
        workers=2,
        length=5,
        progress=lambda each, total: done.append((each, total)),
    )
    assert spread == backtest(pointsman.home, policy, workers=1)
    assert (spread.turns, spread.by_rule, spread.changed_count) == (12, {"third": 3}, 3)
    assert len(done) > 2
    assert done == sorted(done)
    assert done[-1][0] == done[-1][1]
