"""A rule with a split: the same session, key or turn has the same model on every surface."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner
from tests.gateway.conftest import Town
from tests.gateway.house import ADMIN_TOKEN, facts_of, write_home
from tests.gateway.outcome_cells import PATHS, request_body
from tests.models.chain_model import drawn

from pointsman.app import Pointsman
from pointsman.cli.main import main
from pointsman.testing import says

SPLIT = {"small": 60, "opus": 40}
TARGETS = [("open:small", 60), ("claude:opus", 40)]
ADMIN = {"authorization": f"Bearer {ADMIN_TOKEN}"}


@pytest.fixture
def split_home(town: Town, request: pytest.FixtureRequest) -> Town:
    by = getattr(request, "param", "session")
    rule = {"name": "shared", "when": {}, "split": SPLIT, "by": by}
    routing = {"schema_version": 1, "global_default": "house:llama", "rules": [rule]}
    write_home(town.home, routing={**routing, "pattern": {"mode": "off"}})
    return town


def expected(by: str, unit: str) -> str:
    return drawn("shared", TARGETS, by, {"split_units": {by: unit}})


@pytest.mark.parametrize("path", PATHS)
def test_a_session_stays_with_its_model(split_home: Town, serve: Any, path: str) -> None:
    live = serve(split_home.home)
    served = {}
    for number in range(6):
        name = f"s{number}"
        for _ in range(2):
            told = live.post(path, request_body(path, "auto", "hello", ()), x_session_id=name)
            model = served.setdefault(name, told.headers["x-pointsman-model"])
            assert told.headers["x-pointsman-model"] == model == expected("session", name)
            assert told.headers["x-pointsman-rule"] == "shared"
    assert {*served.values()} == {"open:small", "claude:opus"}
    why = live.get(f"/api/turns/{told.headers['x-pointsman-turn']}").json()
    assert "its session is in slot" in " ".join(why["why"].split())
    assert why["chain"][2]["split"]["total"] == 100
    with Pointsman(split_home.home) as beside:
        report = beside.replay_all()
        assert report.identical == report.total > 0


@pytest.mark.parametrize("split_home", ["key"], indirect=True)
def test_a_key_stays_with_its_model(split_home: Town, serve: Any) -> None:
    live = serve(split_home.home)
    for number in range(4):
        made = live.post("/api/keys", {"name": f"k{number}"}, **ADMIN).json()
        headers = {"authorization": f"Bearer {made['key']}"}
        models = {live.chat(headers=headers).headers["x-pointsman-model"] for _ in range(2)}
        assert models == {expected("key", made["id"])}


@pytest.mark.parametrize("split_home", ["turn"], indirect=True)
def test_each_turn_is_drawn_by_its_own_id(split_home: Town, serve: Any) -> None:
    live = serve(split_home.home)
    for _ in range(6):
        told = live.chat(headers={"x-session-id": "one"})
        turn, decision = (told.headers[f"x-pointsman-{each}"] for each in ("turn", "decision"))
        assert told.headers["x-pointsman-model"] == expected("turn", turn)
        units = facts_of(split_home.home, decision).split_units
        assert (units.turn, units.session, units.key) == (turn, "", "")


def test_a_conversation_is_drawn_by_its_session_and_a_preview_by_none(split_home: Town) -> None:
    split_home.openai.then(says("one"), says("one"), says("one"))
    split_home.anthropic.then(says("two"), says("two"), says("two"))
    home = str(split_home.home)
    for _ in range(3):
        line = ["chat", "--json", "--home", home, "--message", "hello"]
        told = json.loads(CliRunner().invoke(main, line).stdout)
        assert told["model"] == expected("session", told["session_id"])
    shown = json.loads(CliRunner().invoke(main, ["route", "--json", "--home", home, "hi"]).stdout)
    assert shown["chosen_model"] == "open:small"
    assert shown["chain"][2]["split"] == {"by": "session", "slot": None, "total": 100}
    rules = CliRunner().invoke(main, ["rules", "show", "--home", home]).stdout
    assert "60 open:small, 40 claude:opus by session" in rules


def test_shares_come_near_their_weights_and_growth_moves_in_one_direction() -> None:
    def served(large: int) -> list[str]:
        targets = [("a", 100 - large), ("b", large)]
        units = (f"s{number}" for number in range(2_000))
        return [drawn("r", targets, "session", {"split_units": {"session": u}}) for u in units]

    tenth, half = served(10), served(50)
    assert 150 < tenth.count("b") < 250
    assert not any(before == "b" != after for before, after in zip(tenth, half, strict=True))
