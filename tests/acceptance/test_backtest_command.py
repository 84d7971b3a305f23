"""`backtest`, `models` and `providers`, as a person or a script uses them."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.acceptance.rules_home import MODELS, Home

from pointsman.app import Pointsman
from pointsman.cli.backtests import backtest
from pointsman.cli.main import main
from pointsman.cli.models import models, providers
from pointsman.cli.rules import rules
from pointsman.testing import some_facts


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.delenv("POINTSMAN_TEST_KEY", raising=False)
    path = tmp_path / "home"
    with Pointsman(path) as pointsman:
        made = Home(path)
        pointsman.in_force()
    return made


def recorded(home: Home, *messages: str) -> None:
    tokens = {"*": 1_000_000, "embedded:smollm2-135m": 10}
    with Pointsman(home.path) as pointsman:
        for message in messages:
            pointsman.route(some_facts(message, estimated_input_tokens=tokens))


OTHER = """
schema_version: 1
global_default: acme:odd
rules:
  - {name: commits, when: {message_matches: commit}, use: disk:model}
"""


def test_backtest_tells_what_changes_and_what_it_costs(home: Home) -> None:
    recorded(home, "commit this", "another commit", "hello")
    other = home.write("other.yaml", OTHER)
    drawn = home.path / "shift.svg"
    done = home.run(backtest, "--policy", str(other), "--picture", str(drawn))
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[0] == "3 turns decided again, 3 change model"
    assert "     2  acme:big -> disk:model" in lines
    assert "     2  by rule commits" in lines
    assert "input cost of 2 turns: $6 -> $1 (-$5)" in lines
    assert "  1 turn left out: a price is unknown" in lines
    assert any("an estimate of input cost" in line for line in lines)
    assert "no recorded call: nothing is known of output, time and quality" in lines
    assert drawn.read_text().startswith("<svg ")


def test_backtest_compares_several_policies_side_by_side(home: Home) -> None:
    recorded(home, "commit this", "hello")
    other = str(home.write("other.yaml", OTHER))
    plain = str(home.write("plain.yaml", "schema_version: 1\nglobal_default: acme:odd\n"))
    both = ("--policy", other, "--policy", plain)
    value = home.json(backtest, *both)["policies"]
    assert [each["policy"] for each in value] == [other, plain]
    for each in value:
        alone = home.json(backtest, "--policy", each.pop("policy"))
        assert each == alone
    last = home.run(backtest, *both).stdout.splitlines()[-3:]
    assert last[0].startswith("POLICY")
    assert [line.split()[:2] for line in last[1:]] == [[other, "2"], [plain, "2"]]
    assert home.run(backtest, *both, "--picture", "x.svg").exit_code == 2


def test_backtest_asks_what_an_outage_a_price_or_a_missing_model_would_do(home: Home) -> None:
    recorded(home, "commit this")
    assert home.run(backtest).exit_code == 2
    for option in (("--out", "acme"), ("--without", "big"), ("--out", "acme:big")):
        assert home.json(backtest, *option)["shifts"][0]["before"] == "acme:big"
    dear = home.json(backtest, "--price", "big=30,150")
    assert dear["changed_count"] == 0
    assert dear["input_cost"]["difference_usd"] == "27"
    refused = home.run(backtest, "--out", "acne")
    assert refused.exit_code == 2
    assert "did you mean `acme`?" in refused.stderr
    for wrong in ("big", "big=3", "big=3,x", "big=3,-1", "=3,1"):
        assert home.run(backtest, "--price", wrong).exit_code == 2


def test_backtest_gives_a_document_for_programs(home: Home) -> None:
    recorded(home, "commit this")
    other = home.write("other.yaml", OTHER)
    value = home.json(backtest, "--policy", str(other))
    assert value["shifts"] == [{"before": "acme:big", "after": "disk:model", "count": 1}]
    assert value["changed"][0]["rule"] == "commits"
    assert value["input_cost"]["difference_usd"] == "-2.5"
    later = home.json(backtest, "--policy", str(other), "--since", "2999-01-01T00:00:00Z")
    assert later["turns"] == 0


def test_backtest_refuses_a_bad_policy_and_a_bad_target(home: Home) -> None:
    recorded(home, "hello")
    bad = home.write("other.yaml", "schema_version: 2\n")
    done = home.run(backtest, "--policy", str(bad))
    assert done.exit_code == 2
    assert f"{bad}:1:17: config.unknown_value" in done.stderr
    good = home.write("good.yaml", OTHER)
    nowhere = str(home.path / "no" / "shift.svg")
    assert home.run(backtest, "--policy", str(good), "--picture", nowhere).exit_code == 2
    assert home.run(backtest, "--policy", str(good), "--since", "yesterday").exit_code == 2


def test_backtest_takes_other_models(home: Home) -> None:
    recorded(home, "hello")
    new = home.write("new.yaml", MODELS + "  acme:new: {location: cloud}\n")
    other = home.write("other.yaml", "schema_version: 1\nglobal_default: acme:new\n")
    assert home.run(backtest, "--policy", str(other)).exit_code == 2
    value = home.json(backtest, "--policy", str(other), "--models", str(new))
    assert value["models_after"] == {"acme:new": 1}


def test_models_are_listed_with_price_and_what_they_lack(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = {line.split()[0]: line.split() for line in home.run(models).stdout.splitlines()}
    assert rows["acme:big"] == [
        "acme:big", "cloud", "deep", "big", "?", "3", "15", "no:", "env", "POINTSMAN_TEST_KEY",
    ]  # fmt: skip
    assert rows["acme:odd"][4:7] == ["?", "?", "?"]
    assert rows["embedded:smollm2-135m"][-1] == "yes"
    value = {each["model"]: each for each in home.json(models)}
    assert value["disk:model"]["missing"] == ["file keys/one", "env POINTSMAN_TEST_KEY"]
    monkeypatch.setenv("POINTSMAN_TEST_KEY", "secret")
    value = {each["model"]: each for each in home.json(models)}
    assert value["acme:big"]["configured"]
    # Of several keys one is enough.
    assert value["disk:model"]["configured"]
    assert value["acme:odd"]["input_usd_per_million"] is None
    assert "secret" not in home.run(models).stdout


def test_each_value_of_one_model_is_shown_with_its_source(home: Home) -> None:
    lines = home.run(models, "big").stdout.splitlines()
    assert lines[1].split(maxsplit=5)[-1] == "models.yaml"
    assert home.json(models, "big")["sources"]["supports_images"] == "unknown"
    refused = home.run(models, "bog")
    assert refused.exit_code == 2
    assert "did you mean `big`?" in refused.stderr


def test_providers_are_healthy_until_something_is_recorded(home: Home) -> None:
    done = home.run(providers)
    assert done.exit_code == 0
    assert "not configured: acme needs env POINTSMAN_TEST_KEY" in done.stdout
    value = home.json(providers)
    assert {each["state"] for each in value} == {"healthy"}
    assert {each["provider"]: each["configured"] for each in value} == {
        "acme": False,
        "disk": False,
        "embedded": True,
    }


def test_commands_that_read_make_no_home(tmp_path: Path) -> None:
    for command, words in ((rules, ["check"]), (rules, ["show"]), (models, []), (providers, [])):
        done = CliRunner().invoke(
            main, [command.name or "", *words, "--home", str(tmp_path / "none")]
        )
        assert done.exit_code == 2
    assert not (tmp_path / "none").exists()
