"""One command goes by one policy, and by the keys that this machine has."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.unit.placed_home import given_facts as placement_facts

from pointsman.app import Pointsman
from pointsman.cli.main import main
from pointsman.storage.policies.policies import InForce, PolicyFiles
from pointsman.turns.facts import GivenFacts

MODELS = """
schema_version: 1
providers:
  near: {kind: ollama}
  far: {kind: openai, api_key: {env: POINTSMAN_TEST_KEY}}
  disk: {kind: openai, api_key: {file: keys/disk}}
models:
  near:one: {location: local}
  near:two: {location: local}
  far:big: {location: cloud, aliases: [big]}
  disk:big: {location: cloud}
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("POINTSMAN_TEST_KEY", raising=False)
    (tmp_path / "models.yaml").write_text(MODELS)
    _say(tmp_path, "near:one")
    return tmp_path


def _say(home: Path, default: str) -> None:
    (home / "routing.yaml").write_text(f"schema_version: 1\nglobal_default: {default}\n")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[PolicyFiles]:
    """Every time that somebody asked for the policy in force."""
    times: list[PolicyFiles] = []
    ask: Callable[[PolicyFiles], InForce] = PolicyFiles.in_force

    def counted(files: PolicyFiles) -> InForce:
        times.append(files)
        return ask(files)

    monkeypatch.setattr(PolicyFiles, "in_force", counted)
    return times


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["route", "hello"], None),
        (["route", "--facts", "-"], '{"message": "hello"}'),
        (["place", "--facts", "-"], placement_facts().decode()),
    ],
)
def test_a_command_reads_the_policy_once(
    home: Path, asked: list[PolicyFiles], words: list[str], text: str | None
) -> None:
    done = CliRunner().invoke(main, [*words, "--home", str(home)], input=text)
    assert done.exit_code == 0, done.output
    assert len(asked) == 1


def test_facts_and_decision_go_by_the_policy_they_are_given(home: Path) -> None:
    with Pointsman(home) as pointsman:
        before = pointsman.in_force()
        _say(home, "near:two")
        for facts in (
            pointsman.facts("hello", in_force=before),
            pointsman.given_facts(GivenFacts("hello"), in_force=before),
        ):
            shown = pointsman.route(facts, in_force=before)
            assert shown.outcome.chosen_model == "near:one"
            assert shown.policy_id == before.policy_id
        assert pointsman.route(pointsman.facts("hello")).outcome.chosen_model == "near:two"
        assert pointsman.replay_all().identical == 3


def _route(home: Path, *words: str, **facts: object) -> Any:
    text = json.dumps({"message": "@big hello", **facts})
    given = ["--facts", "-"] if not words else list(words)
    done = CliRunner().invoke(main, ["route", *given, "--home", str(home), "--json"], input=text)
    return json.loads(done.stdout)


@pytest.mark.req(109, 125)
def test_facts_that_name_no_configured_models_have_those_whose_keys_are_found(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for absent in ({}, {"configured": None}):
        first = _route(home, **absent)
        assert first["chain"][0]["validation_failure"] == "not_configured"
        assert first["chosen_model"] == _route(home, "@big hello")["chosen_model"] == "near:one"
    assert _route(home, configured=["far:big"])["chosen_model"] == "far:big"
    monkeypatch.setenv("POINTSMAN_TEST_KEY", "sk-x")
    assert _route(home)["chosen_model"] == _route(home, "@big hello")["chosen_model"] == "far:big"
    assert _route(home, configured=[])["chosen_model"] == ""


def test_a_table_of_expected_decisions_does_not_ask_for_keys(home: Path) -> None:
    table = home / "table.yaml"
    table.write_text("- {note: a, facts: {message: '@big hi'}, want: {chosen_model: far:big}}\n")
    with Pointsman(home):
        pass
    done = CliRunner().invoke(main, ["rules", "test", str(table), "--home", str(home)])
    assert done.exit_code == 0, done.output
