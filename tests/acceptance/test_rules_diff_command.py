"""`rules diff`: every kind of turns that two policies decide differently, on every surface."""

from pathlib import Path

import pytest
from tests.acceptance.rules_home import Home

from pointsman.app import Pointsman
from pointsman.cli.rules import rules
from pointsman.testing import some_facts

FOLDER = Path(__file__).parent / "proved_policy"
MODELS, ROUTING = ((FOLDER / f"{name}.yaml").read_text() for name in ("models", "routing"))
CHANGED = ROUTING.replace("[typo, rename]", "[typo, rename, format]")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    path = tmp_path / "home"
    with Pointsman(path) as pointsman:
        made = Home(path)
        made.write("models.yaml", MODELS)
        made.write("routing.yaml", ROUTING.replace("own:coder]", "own:coder, acme:large]", 1))
        made.write("routing.yaml", ROUTING)
        pointsman.reload()
        models = ("acme:small", "acme:large", "own:coder")
        for message in ("password 1", "password 2", "Password 3", "hello", "rename it"):
            pointsman.route(some_facts(message, configured=models))
    made.write("new.yaml", ROUTING.replace("(?i)\\b(password", "\\b(password"))
    return made


def test_equal_policies_do_not_differ(home: Home) -> None:
    same = home.write("same.yaml", f"# no change\n{ROUTING}")
    done = home.run(rules, "diff", str(home.path / "routing.yaml"), str(same))
    assert done.exit_code == 0, done.output
    assert done.stdout == "both policies choose the same model for every turn there can be\n"


def test_kinds_are_ranked_by_the_recorded_turns_they_catch(home: Home) -> None:
    old, new = str(home.path / "routing.yaml"), str(home.path / "new.yaml")
    found = home.json(rules, "diff", old, new)
    assert found["headline"].endswith("1 of 5 recorded turns change their model")
    first, *others = found["kinds"]
    assert (first["recorded_turns"], first["before"]) == (1, "rule secrets stay here")
    assert first["after"] == "global_default acme:small"
    assert all(each["recorded_turns"] == 0 for each in others)
    assert first["where"].startswith('message_matches "(?i)\\b(password')
    assert first["unless"][0].startswith('message_matches "\\b(password')
    assert found["is_complete"]


def test_each_example_is_decided_as_the_difference_says(home: Home) -> None:
    kinds = home.json(rules, "diff", str(home.path / "routing.yaml"), str(home.path / "new.yaml"))
    for side, file in (("before", ROUTING), ("after", (home.path / "new.yaml").read_text())):
        home.write("routing.yaml", file)
        cases = ""
        for each in kinds["kinds"]:
            want = f'{{chosen_model: "{each[f"{side}_model"]}"}}'
            cases += f"- {{note: x, facts: {each['example']}, want: {want}}}\n"
        done = home.run(rules, "test", str(home.write("cases.yaml", cases)))
        assert done.exit_code == 0, done.output


def test_a_difference_is_a_comment_for_a_review(home: Home) -> None:
    old, new = str(home.path / "routing.yaml"), str(home.path / "new.yaml")
    done = home.run(rules, "diff", old, new, "--markdown", "--no-ledger")
    assert done.exit_code == 1
    lines = done.stdout.splitlines()
    assert lines[0].startswith("**")
    assert lines[0].endswith("kinds of turns are decided differently**")
    assert "1. `own:coder -> acme:small`" in lines
    assert "   ```yaml" in lines


def test_folders_are_compared_without_a_home(tmp_path: Path) -> None:
    for name, routing in (("old", ROUTING), ("new", CHANGED)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "models.yaml").write_text(MODELS)
        (tmp_path / name / "routing.yaml").write_text(routing)
    made = Home(tmp_path)
    found = made.json(rules, "diff", str(tmp_path / "old"), str(tmp_path / "new"))
    assert found["recorded_turns"] is None
    assert any(each["after"] == "rule quick fixes" for each in found["kinds"])


def test_a_model_that_can_less_is_a_difference(tmp_path: Path) -> None:
    smaller = MODELS.replace("max_context_tokens: 128000", "max_context_tokens: 64000")
    for name, models in (("old", MODELS), ("new", smaller)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "models.yaml").write_text(models)
        (tmp_path / name / "routing.yaml").write_text(ROUTING)
    made = Home(tmp_path)
    found = made.json(rules, "diff", str(tmp_path / "old"), str(tmp_path / "new"))
    assert '"estimated_input_tokens": 64001' in found["kinds"][0]["example"]


def test_a_broken_policy_is_not_compared(home: Home) -> None:
    broken = home.write("broken.yaml", "schema_version: 1\nrules: [{when: {}, use: acme:none}]")
    done = home.run(rules, "diff", str(home.path / "routing.yaml"), str(broken))
    assert done.exit_code == 2
    assert "`acme:none` is not a model" in done.output
