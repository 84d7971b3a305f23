"""AUTO_LOCAL binds where placement.yaml names a model that is meant to serve."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.unit.placed_home import LOCAL, a_turn, kinds, written

from pointsman import why_screen
from pointsman.cli.main import main
from pointsman.placement.policy import placement_policy, read_policy
from pointsman.testing import a_home, assert_replays

HERE = "house:llama"
MODELS = """
schema_version: 1
providers: {acme: {kind: openai}, house: {kind: ollama}}
models:
  acme:big: {location: cloud, aliases: [big], price: {input: 1, output: 1}}
  house:llama: {location: local}
"""


def home_with(path: Path, **table: Any) -> Path:
    written(path)
    (path / "models.yaml").write_text(MODELS)
    (path / "routing.yaml").write_text("schema_version: 1\nglobal_default: acme:big\n")
    value = json.loads((path / "placement.yaml").read_text())
    del value["auto"]
    (path / "placement.yaml").write_text(json.dumps(value | table))
    return path


@pytest.mark.parametrize(
    ("table", "auto"),
    [
        ({}, "advisory"),
        ({"local_model": LOCAL}, "advisory"),
        ({"local_model": LOCAL.replace(":", "/")}, "advisory"),
        ({"local_model": HERE}, "binding"),
        ({"local_model": HERE, "auto": "advisory"}, "advisory"),
        ({"auto": "binding"}, "binding"),
    ],
)
def test_the_rows_bind_as_said_or_by_the_model_that_is_meant_to_serve(
    tmp_path: Path, table: Any, auto: str
) -> None:
    path = home_with(tmp_path / "home", **table)
    text = (path / "placement.yaml").read_bytes()
    assert placement_policy(read_policy(text, "placement.yaml", ())).auto == auto
    checked = CliRunner().invoke(main, ["rules", "check", "--json", "--home", str(path)])
    assert json.loads(checked.stdout)["auto"].startswith(f"{auto}: ")


def test_a_small_turn_stays_with_the_named_model_and_a_long_one_leaves(tmp_path: Path) -> None:
    with a_home(home_with(tmp_path / "home", local_model=HERE)) as pointsman:
        small = a_turn(pointsman)
        assert small.outcome.chosen_model == HERE
        assert small.placed is not None
        assert (small.placed.rule_id, small.placed.gate) == ("AUTO_LOCAL", "local")
        why = why_screen(pointsman.read_turn(small.turn_id))
        assert "Placed: stays on this machine   (AUTO_LOCAL: " in why
        long = a_turn(pointsman, session="t", estimated_input_tokens=5000)
        assert long.outcome.chosen_model == "acme:big"
        cloud = a_turn(pointsman, session="u", privacy_level="cloud")
        assert cloud.outcome.chosen_model == "acme:big"
        assert assert_replays(pointsman) > 0


def test_no_stand_in_binds_a_turn_while_the_named_model_is_out(tmp_path: Path) -> None:
    with a_home(home_with(tmp_path / "home", local_model=HERE)) as pointsman:
        out: Any = {"availability": {HERE: "unavailable"}}
        turn = a_turn(pointsman, **out)
        assert turn.placed is not None
        assert (turn.placed.rule_id, turn.outcome.chosen_model) == ("AUTO_CLOUD", "acme:big")
        kept = a_turn(
            pointsman, session="t", privacy_level="local", availability={HERE: "unavailable"}
        )
        assert kept.outcome.chosen_model == ""
        assert kinds(pointsman, "decision.")[-1] == "decision.turn"


def test_advice_beside_a_named_model_is_told(tmp_path: Path) -> None:
    with a_home(home_with(tmp_path / "home", local_model=HERE, auto="advisory")) as pointsman:
        turn = a_turn(pointsman)
        assert turn.outcome.chosen_model == "acme:big"
        why = why_screen(pointsman.read_turn(turn.turn_id))
        assert "Placed: anywhere   (AUTO_LOCAL is advice here: auto: advisory)" in why
    with a_home(home_with(tmp_path / "other")) as pointsman:
        assert "Placed:" not in why_screen(pointsman.read_turn(a_turn(pointsman).turn_id))
