"""Zones: what lies within what, which names fit, and what the checks tell of them."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.unit.placed_home import written

from pointsman.cli.main import main
from pointsman.placement.facts import Taint
from pointsman.placement.rules.zones import innermost, outer_zones, zones_around
from pointsman.recording.taints import merge_taints
from pointsman.testing import a_home
from pointsman.turns.facts import GivenFacts, turn_facts
from pointsman.turns.registry.models import Model, in_zones, lies_within

GIVEN: dict[str, Any] = {"eu": "cloud", "us": "cloud", "lab": "eu", "both": ["lab", "us"]}
ZONES = outer_zones(GIVEN)
MODELS = """
schema_version: 1
providers: {acme: {kind: openai}}
models:
  acme:eu: {location: cloud, zone: lab, price: {input: 1, output: 1}}
  acme:us: {location: cloud, zone: us, price: {input: 1, output: 1}}
"""
ROUTING = """
schema_version: 1
global_default: [acme:us, acme:eu]
rules:
  - {name: europe, when: {zone_is: eu}, use: acme:eu}
"""


def home_with(path: Path, models: str = MODELS, routing: str = ROUTING, **table: Any) -> Path:
    written(path)
    (path / "models.yaml").write_text(models)
    (path / "routing.yaml").write_text(routing)
    value = json.loads((path / "placement.yaml").read_text())
    (path / "placement.yaml").write_text(json.dumps(value | {"zones": GIVEN} | table))
    return path


def checked(home: Path) -> dict[str, Any]:
    told = CliRunner().invoke(main, ["rules", "check", "--json", "--home", str(home)])
    found: dict[str, Any] = json.loads(told.stdout)
    return found


def test_a_zone_lies_within_all_that_hold_it() -> None:
    assert ZONES == {"both": ("eu", "lab", "us"), "eu": (), "lab": ("eu",), "us": ()}
    assert zones_around("lab", ZONES) == ("lab", "eu")
    assert zones_around("cloud", ZONES) == ()
    assert zones_around("elsewhere", ZONES) == ("elsewhere",)


@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        (["eu", "lab"], ("lab",)),
        (["us", "eu"], ("eu", "us")),
        (["us", "eu", "both"], ("both",)),
        (["cloud"], ()),
        (["cloud", "eu"], ("eu",)),
        (["local", "eu"], ("local",)),
        (["elsewhere", "eu"], ("elsewhere", "eu")),
    ],
)
def test_the_innermost_zones_say_all_of_them(names: list[str], wanted: tuple[str, ...]) -> None:
    assert innermost(names, ZONES) == wanted
    assert innermost(reversed(names), ZONES) == wanted


def test_a_model_lies_within_its_zone_and_those_around_it() -> None:
    models = {"a": Model("cloud", zones=("lab",)), "b": Model("cloud"), "c": Model("local")}
    placed = in_zones(models, ZONES)
    assert lies_within(placed["a"], ["eu", "lab"])
    assert not lies_within(placed["a"], ["eu", "us"])
    assert not lies_within(placed["b"], ["eu"])
    assert lies_within(placed["b"], ["cloud"])
    assert lies_within(placed["c"], ["eu", "us", "local"])
    assert not lies_within(placed["a"], ["local"])
    assert [each.zone for each in placed.values()] == ["lab", "cloud", "local"]
    assert in_zones(placed, {})["a"].zones == ("lab",)


def test_of_two_taints_the_narrower_holds() -> None:
    here, eu, us = (
        Taint("t1", "PRIVACY_LOCAL"),
        Taint("t2", "STAY_WITHIN", ("eu",)),
        Taint("t3", "STAY_WITHIN", ("us",)),
    )
    assert merge_taints(None, eu) is eu
    assert merge_taints(eu, here) is here
    assert merge_taints(here, eu) is here
    assert merge_taints(eu, us) == Taint("t3", "STAY_WITHIN", ("eu", "us"))


def test_facts_that_name_no_zone_keep_their_bytes() -> None:
    assert turn_facts(GivenFacts("hi"), None, "hi").placement is None
    assert turn_facts(GivenFacts("hi", stays_within=("cloud",)), None, "hi").placement is None
    assert turn_facts(GivenFacts("hi", stays_within=("eu",)), None, "hi").zones == ("eu",)


def test_the_checks_prove_every_zone(tmp_path: Path) -> None:
    found = checked(home_with(tmp_path / "home"))
    assert found["ok"]
    assert [(each["zone"], each["holds"]) for each in found["zones"]] == [
        ("eu", True), ("lab", True), ("us", True),
    ]  # fmt: skip
    (tmp_path / "plain").mkdir()
    plain = home_with(tmp_path / "plain" / "home", models=MODELS.replace("zone: lab, ", "")
                      .replace("zone: us, ", ""), routing="schema_version: 1\n")  # fmt: skip
    assert "zones" not in checked(plain)


@pytest.mark.parametrize(
    ("changes", "place", "part"),
    [
        ({"models": MODELS.replace("zone: us", "zone: uss")}, "models.yaml:6", "`uss` is no zone"),
        ({"models": MODELS.replace("location: cloud, zone: us", "location: local, zone: us")},
         "models.yaml:6", "stands in the zone `local`"),
        ({"models": MODELS.replace("zone: us", "zone: local")}, "models.yaml:6", "nothing else"),
        ({"routing": ROUTING.replace("zone_is: eu", "not: {any_of: [{zone_is: [eu, ue_]}]}")},
         "routing.yaml:5", "`ue_` is no zone"),
    ],
)  # fmt: skip
def test_names_that_are_no_zones_are_told_at_their_place(
    tmp_path: Path, changes: dict[str, str], place: str, part: str
) -> None:
    found = checked(home_with(tmp_path / "home", **changes))
    assert not found["ok"]
    (problem,) = found["problems"]
    assert place in problem["place"]
    assert part in problem["message"]


def test_a_zone_without_a_model_is_warned_of(tmp_path: Path) -> None:
    rules = [{"id": "r", "action": "stay_within", "zone": zone} for zone in ("both",)]
    found = checked(home_with(tmp_path / "home", policy_rules=rules))
    (warning,) = found["warnings"]
    assert warning["code"] == "turns.zone_without_model"
    assert "policy rule `r` keeps turns within both" in warning["message"]


def test_a_table_that_moves_a_zone_counts_from_the_next_turn_on(tmp_path: Path) -> None:
    rules = [{"id": "r", "action": "stay_within", "zone": "eu"}]
    with a_home(home_with(tmp_path / "home", policy_rules=rules)) as pointsman:
        first = pointsman.route(pointsman.facts("hello"))
        assert first.outcome.chosen_model == "acme:eu"
        path = pointsman.home.path / "placement.yaml"
        value = json.loads(path.read_text())
        path.write_text(json.dumps(value | {"zones": {**GIVEN, "lab": "cloud"}}))
        later = pointsman.route(pointsman.facts("hello"))
        assert later.outcome.chosen_model.startswith("embedded:")
        assert pointsman.replay_all().identical == 4
