"""A rule with a table: the row that matched, on every surface, with replay and a receipt."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner
from tests.gateway.conftest import Town
from tests.gateway.house import write_home
from tests.gateway.outcome_cells import PATHS, request_body

from pointsman.app import Pointsman
from pointsman.cli.main import main
from pointsman.receipt_verifier import audit_receipt
from pointsman.testing import says

TABLE = """
decision:
  id: by_words
  type: rule_table
  hit_policy: unique
  rules:
    - {label: hello, condition: "message contains 'hello'", target: small}
    - {label: long, condition: "length(message) > 20 and not has_images", target: opus}
  default: {target: next_rule}
"""


@pytest.fixture
def table_home(town: Town) -> Town:
    rules = [
        {"name": "decided", "when": {"expr": "not is_worker"}, "decide": "by_words"},
        {"name": "rest", "when": {"message_contains_any": "rest"}, "use": "open:small"},
    ]
    routing = {"schema_version": 1, "global_default": "house:llama", "rules": rules}
    write_home(town.home, routing={**routing, "pattern": {"mode": "off"}})
    (town.home / "decisions").mkdir(exist_ok=True)
    (town.home / "decisions" / "words.yaml").write_text(TABLE, "utf-8")
    return town


@pytest.mark.parametrize("path", PATHS)
def test_the_row_serves_and_is_told_and_replayed(table_home: Town, serve: Any, path: str) -> None:
    live = serve(table_home.home)
    told = live.post(path, request_body(path, "auto", "hello", ()))
    assert told.headers["x-pointsman-model"] == "open:small"
    assert told.headers["x-pointsman-rule"] == "decided"
    turn = told.headers["x-pointsman-turn"]
    why = live.get(f"/api/turns/{turn}").json()
    assert "row 1 (hello) of table by_words" in " ".join(why["why"].split())
    hit = {"decision": "by_words", "row": 0, "label": "hello", "reason": ""}
    assert why["chain"][2]["table"] == hit
    passed = live.post(path, request_body(path, "auto", "hello, and a rest of many words", ()))
    assert passed.headers["x-pointsman-rule"] == "rest"
    with Pointsman(table_home.home) as beside:
        report = beside.replay_all()
        assert report.identical == report.total > 0


def test_a_receipt_names_the_rule_that_was_not_run(table_home: Town, serve: Any) -> None:
    live = serve(table_home.home)
    turn = live.chat().headers["x-pointsman-turn"]
    line = ["receipt", turn, "--home", str(table_home.home)]
    made = CliRunner().invoke(main, line)
    assert made.exit_code == 0, made.output
    report = audit_receipt(made.stdout_bytes)
    (step,) = [each for each in report["checks"] if each["step"] == "decision"]
    assert step["state"] == "ok"
    assert "matched by the record, not run: decided" in step["told"]


def test_a_conversation_and_a_preview_take_the_same_row(table_home: Town) -> None:
    table_home.openai.then(says("one"))
    home = str(table_home.home)
    line = ["chat", "--json", "--home", home, "--message", "hello"]
    assert json.loads(CliRunner().invoke(main, line).stdout)["model"] == "open:small"
    line = ["route", "--json", "--home", home, "hello"]
    shown = json.loads(CliRunner().invoke(main, line).stdout)
    assert (shown["chosen_model"], shown["chain"][2]["table"]["row"]) == ("open:small", 0)
    rules = CliRunner().invoke(main, ["rules", "show", "--home", home]).stdout
    assert "decide by_words: open:small, claude:opus" in " ".join(rules.split())


def test_a_table_with_an_approval_is_refused_when_the_rules_are_checked(table_home: Town) -> None:
    guarded = TABLE + "  guardrails: [{type: requires_approval, targets: [small]}]\n"
    (table_home.home / "decisions" / "words.yaml").write_text(guarded, "utf-8")
    checked = CliRunner().invoke(main, ["rules", "check", "--home", str(table_home.home)])
    assert checked.exit_code == 2
    assert "no guardrails or approval (requires_approval)" in " ".join(checked.output.split())
