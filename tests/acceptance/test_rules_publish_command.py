"""`rules publish`, and what the other commands say of a published policy."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pointsman.cli.main import main

ROUTING = "schema_version: 1\nglobal_default: embedded:smollm2-135m\n"
RULE = "rules:\n  - {name: mine, when: {message_matches: commit}, use: embedded:smollm2-135m}\n"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    found = tmp_path / "h"
    assert run(found, "init").exit_code == 0
    (found / "pointsman.yaml").write_text("policy: {source: ledger}\n")
    (found / "routing.yaml").write_text(ROUTING)
    return found


def run(home: Path, *words: str) -> Result:
    os.environ["COLUMNS"] = "200"
    return CliRunner().invoke(main, [*words, "--home", str(home)])


def told(home: Path, *words: str) -> Any:
    return json.loads(run(home, *words, "--json").stdout)


def test_publishing_says_what_is_in_force_and_every_command_then_says_it(home: Path) -> None:
    before = run(home, "rules", "show")
    assert "notice: nothing is published yet" in before.output
    first = told(home, "rules", "publish", "--by", "anna")
    assert (first["source"], first["number"], first["by"]) == ("ledger", 1, "anna")
    assert first["is_new"] is True
    for words in (("show",), ("check",), ("reload",)):
        assert told(home, "rules", *words)["in_force"]["publication_id"] == first["publication_id"]
        assert first["policy_id"] in run(home, "rules", *words).output
    found = [each for each in told(home, "doctor") if each["subject"] == "policy"]
    assert found[0]["state"] == "ok"
    assert first["policy_id"] in found[0]["detail"]
    assert first["placement_id"] in found[0]["detail"]


def test_edits_are_checked_at_once_and_in_force_once_published(home: Path) -> None:
    first = told(home, "rules", "publish")
    (home / "routing.yaml").write_text(ROUTING + RULE)
    checked = told(home, "rules", "check")
    assert checked["policy_id"] != checked["in_force"]["policy_id"] == first["policy_id"]
    assert "mine" not in run(home, "rules", "show").output
    table = home / "cases.yaml"
    table.write_text("- note: mine\n  facts: {message: a commit}\n  want: {rule: mine}\n")
    assert run(home, "rules", "test", str(table)).exit_code == 0
    assert told(home, "rules", "publish")["policy_id"] == checked["policy_id"]
    assert "mine" in run(home, "rules", "show").output
    assert told(home, "rules", "publish")["is_new"] is False


def test_a_broken_file_is_reported_by_check_and_not_published(home: Path) -> None:
    run(home, "rules", "publish")
    (home / "routing.yaml").write_text("schema_version: 1\nglobal_default: no:model\n")
    assert run(home, "rules", "check").exit_code == 2
    refused = run(home, "rules", "publish")
    assert refused.exit_code == 2
    assert "no:model" in refused.stderr
    assert run(home, "doctor").exit_code == 0


def test_publishing_over_another_than_the_one_in_force_is_refused(home: Path) -> None:
    first = told(home, "rules", "publish")["publication_id"]
    (home / "routing.yaml").write_text(ROUTING + RULE)
    assert told(home, "rules", "publish", "--over", first)["number"] == 2
    (home / "routing.yaml").write_text(ROUTING)
    refused = run(home, "rules", "publish", "--over", first)
    assert refused.exit_code == 2
    assert "policy.moved" in refused.stderr


def test_a_home_of_files_has_nothing_to_publish(home: Path) -> None:
    (home / "pointsman.yaml").write_text("{}\n")
    refused = run(home, "rules", "publish")
    assert refused.exit_code == 2
    assert "policy: {source: ledger}" in refused.stderr
