"""`why ID --instead MODEL`: the smallest change that gives a recorded turn another model."""

from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.acceptance.rules_home import Home

from pointsman.app import Pointsman
from pointsman.audit.replay import decided_turn
from pointsman.cli.turns import why
from pointsman.storage.home import open_home
from pointsman.testing import some_facts
from pointsman.turns.compiled import compile_policy
from pointsman.turns.decide import decide
from pointsman.turns.proofs.least_change import least_changes

FOLDER = Path(__file__).parent / "proved_policy"
MODELS = ("acme:small", "acme:large", "own:coder", "embedded:smollm2-135m")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    path = tmp_path / "home"
    with Pointsman(path):
        made = Home(path)
    for name in ("models", "routing"):
        made.write(f"{name}.yaml", (FOLDER / f"{name}.yaml").read_text())
    return made


def recorded(home: Home, message: str, **facts: object) -> None:
    with Pointsman(home.path) as pointsman:
        given = some_facts(message, configured=MODELS, estimated_input_tokens={"*": 300}, **facts)
        pointsman.route(given)


def test_facts_and_edits_that_give_another_model_are_told(home: Home) -> None:
    recorded(home, "my password is x")
    done = home.run(why, "last", "--instead", "acme:small")
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0] == "own:coder takes this turn; acme:small would"
    assert "  if 32001 input tokens, not 300" in lines
    assert "  if own:coder is out" in lines
    assert "  under another policy: without rule secrets stay here" in lines


def test_two_facts_are_told_where_one_is_not_enough(home: Home) -> None:
    recorded(home, "hi", privacy_level="local", cost_today_microusd=6_000_000)
    found = home.json(why, "last", "--instead", "acme:small")
    assert ["privacy_level is auto", "5 USD were spent today"] in found["facts"]
    assert {len(each) for each in found["facts"]} == {2}
    assert found["policy"] == []


def test_the_changes_are_as_few_as_every_single_change_shows(home: Home) -> None:
    recorded(home, "draw the architecture", availability={"acme:large": "unavailable"})
    policy, facts = decided_turn(open_home(home.path, create=False), "last")
    ready = compile_policy(policy)
    for model in ready.models:
        found = least_changes(ready, facts, model)
        if model == found.chosen:
            assert found.facts == ()
            continue
        singles = (
            replace(facts, availability={}),
            replace(facts, message="my password"),
            replace(facts, sticky_model=model),
        )
        is_single = any(decide(ready, each)[0].chosen_model == model for each in singles)
        assert not is_single or {len(each) for each in found.facts} == {1}


def test_a_model_that_is_chosen_needs_no_change(home: Home) -> None:
    recorded(home, "hello")
    done = home.run(why, "last", "--instead", "acme:small")
    assert done.stdout == "acme:small takes this turn already\n"


def test_a_model_that_is_not_there_is_refused(home: Home) -> None:
    recorded(home, "hello")
    done = home.run(why, "last", "--instead", "acme:smal")
    assert done.exit_code == 2
    assert "did you mean `acme:small`?" in done.output
