"""`decision`, as a person or a script uses it."""

import json
from pathlib import Path
from typing import Any

import click
import pytest
from tests.acceptance.decision_home import GATE, GOOD, Home

from pointsman.cli.main import main

CONTRACT = [
    "decision_id", "selected_targets", "selected_labels", "is_default", "input_value",
    "evaluation_details", "weighted", "guardrails", "blocked", "timestamp", "cached",
]  # fmt: skip


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


@pytest.mark.req(343)
def test_every_command_of_the_document_is_there() -> None:
    decision: Any = main.get_command(click.Context(main), "decision")
    assert {"list", "show", "check", "evaluate", "dry-run", "log", "distribution"} <= set(
        decision.commands
    )
    assert set(decision.commands["cache"].commands) == {"status", "invalidate", "clear"}


def test_list_show_and_check_need_nothing_but_the_folder_and_leave_nothing(home: Home) -> None:
    before = home.files()
    listed = home.json("decision", "list")
    assert [each["id"] for each in listed] == ["canary", "guarded", "quality-gate"]
    assert "quality-gate" in home.run("decision", "list").stdout
    shown = home.json("decision", "show", "quality-gate")
    assert (shown["type"], shown["cache"]) == ("binary", {"enabled": True, "ttl": "24h"})
    assert "input >= 0.8  ->  stage-deploy" in home.run("decision", "show", "quality-gate").stdout
    assert home.run("decision", "show", "quality-gaet").exit_code == 2
    done = home.run("decision", "check")
    assert (done.exit_code, "3 decisions ok" in done.stdout) == (0, True)
    assert home.files() == before


@pytest.mark.req(321, 322)
def test_evaluate_prints_the_contracts_value(home: Home) -> None:
    done = home.run("decision", "evaluate", "quality-gate", "--input", GOOD, "--json")
    value = json.loads(done.stdout)
    assert done.exit_code == 0
    assert list(value)[: len(CONTRACT)] == CONTRACT
    assert value["selected_targets"] == ["stage-deploy"]
    assert value["selected_labels"] == ["Pass"]
    assert (value["input_value"], value["is_default"], value["cached"]) == (0.91, False, False)
    first = value["evaluation_details"][0]
    assert list(first)[:6] == ["index", "label", "condition", "result", "priority", "weight"]
    assert (first["index"], first["result"]) == (0, True)
    assert value["weighted"] is None
    again = home.json("decision", "evaluate", "quality-gate", "--input", GOOD)
    assert again["cached"] is True
    assert again["timestamp"] > value["timestamp"] == again["evaluated_at"]


def test_a_choice_that_waits_for_approval_is_withheld_until_it_is_approved(home: Home) -> None:
    guardrail = "{type: requires_approval, targets: [deploy], escalation_target: human}"
    (home.path / "decisions" / "asks.yaml").write_text(
        "decision: {id: asks, type: binary, cases: [{condition: 'true', target: deploy}],"
        f" default: {{target: rest}}, guardrails: [{guardrail}]}}"
    )
    dry = home.run("decision", "dry-run", "asks", "--input", "{}", "--json")
    asked = home.run("decision", "evaluate", "asks", "--input", "{}", "--json")
    for done in (dry, asked):
        value = json.loads(done.stdout)
        assert (done.exit_code, value["blocked"]) == (1, True)
        assert value["selected_targets"] == ["human"]
        assert value["withheld_targets"] == value["approval_required"] == ["deploy"]
    tried = json.loads(dry.stdout)
    assert (tried["would_route_to"], tried["would_block"]) == (["human"], True)
    screen = home.run("decision", "evaluate", "asks", "--input", "{}").stdout
    assert "Chose: human" in screen
    assert "Waits for approval of deploy" in screen
    words = ("decision", "evaluate", "asks", "--input", "{}", "--approve", "deploy", "--json")
    done = home.run(*words)
    value = json.loads(done.stdout)
    assert (done.exit_code, value["blocked"]) == (0, False)
    assert (value["selected_targets"], value["withheld_targets"]) == (["deploy"], [])


def test_a_weighted_choice_says_where_the_unit_fell(home: Home) -> None:
    context = '{"request": {"id": "r-7"}}'
    value = home.json("decision", "evaluate", "canary", "--input", context)
    assert value["weighted"]["method"] == "wb1"
    assert value["weighted"]["total_weight"] == 1000
    assert [each["weight"] for each in value["evaluation_details"]] == [66.6, 33.4]
    assert (
        home.json("decision", "evaluate", "canary", "--input", context)["weighted"]
        == (value["weighted"])
    )


@pytest.mark.req(323)
def test_without_a_value_the_default_is_taken_and_says_what_is_missing(home: Home) -> None:
    value = home.json("decision", "evaluate", "quality-gate", "--input", "{}")
    assert (value["selected_labels"], value["is_default"]) == (["default"], True)
    assert value["input_missing"] == ["artifact.quality_score"]


def test_a_blocked_choice_goes_to_its_escalation_and_ends_with_1(home: Home) -> None:
    for words in (("evaluate",), ("dry-run",)):
        done = home.run("decision", *words, "guarded", "--input", '{"kind": "a"}', "--json")
        value = json.loads(done.stdout)
        assert (done.exit_code, value["blocked"]) == (1, True)
        assert value["selected_targets"] == ["human"]
        assert value["guardrails"][0]["check_name"] == "no_disabled_targets"
        assert value["guardrails"][0]["passed"] is False


@pytest.mark.req(344)
def test_a_dry_run_leaves_no_file_no_entry_and_no_cached_answer(home: Home) -> None:
    before = home.files()
    value = home.json("decision", "dry-run", "quality-gate", "--input", GOOD)
    assert (value["dry_run"], value["would_route_to"]) == (True, ["stage-deploy"])
    assert value["would_block"] is False
    assert home.files() == before
    home.json("decision", "evaluate", "quality-gate", "--input", GOOD)
    kept = home.files()
    home.run("decision", "dry-run", "quality-gate", "--input", GOOD)
    assert home.files() == kept
    assert len(home.json("decision", "log")) == 1


def test_a_dry_run_ends_with_2_where_the_definition_is_wrong(home: Home) -> None:
    home.run("decision", "evaluate", "quality-gate", "--input", GOOD)
    path = home.path / "decisions" / "gate.yaml"
    path.write_text(GATE.replace("input >= 0.8", "input = 0.8"))
    done = home.run("decision", "dry-run", "quality-gate", "--input", GOOD)
    assert (done.exit_code, "`=` has no meaning here" in done.stderr) == (2, True)
    done = home.run("decision", "evaluate", "quality-gate", "--input", GOOD)
    assert (done.exit_code, "warning: " in done.stderr) == (0, True), "the last good one serves"


def test_check_shows_a_caret_below_what_is_wrong(home: Home) -> None:
    path = home.path / "decisions" / "gate.yaml"
    path.write_text(GATE.replace("input >= 0.8", "input = 0.8"))
    done = home.run("decision", "check")
    assert done.exit_code == 2
    assert "  input = 0.8\n        ^\n" in done.stdout
    assert home.json("decision", "check")["ok"] is False


def test_check_looks_at_the_workflows_too_and_shows_examples_of_gaps(home: Home) -> None:
    (home.path / "workflows").mkdir()
    path = home.path / "workflows" / "w.yaml"
    path.write_text("workflow: {id: w, stages: [{id: a, decision: quality-gate}]}")
    done = home.run("decision", "check")
    assert done.exit_code == 2
    assert "config.unknown_value: `stage-deploy` is not a known target" in done.stdout
    path.write_text("workflow: {id: w, stages: [{id: a, decision: gone}]}")
    assert "there is no decision `gone`" in home.run("decision", "check").stdout
    path.unlink()
    (home.path / "decisions" / "t.yaml").write_text(
        "decision: {id: t, type: rule_table, variables: {n: number}, default: {target: z}, "
        "rules: [{condition: 'n > 1.5', target: x}, {condition: 'n > 3', target: y}]}"
    )
    text = home.run("decision", "check").stdout
    assert "branches.rule_shadowed" in text
    assert "for example {" in text
    codes = [each["code"] for each in home.json("decision", "check")["warnings"]]
    assert "branches.gap" in codes


def test_what_only_follows_from_a_broken_file_is_not_told(home: Home) -> None:
    (home.path / "workflows").mkdir()
    stages = "{id: a, decision: t}, {id: b, decision: gone}"
    (home.path / "workflows" / "w.yaml").write_text(f"workflow: {{id: w, stages: [{stages}]}}")
    for path in (home.path / "decisions").glob("*.yaml"):
        path.unlink()

    def told(decisions: str, key: str = "code") -> list[str]:
        (home.path / "decisions" / "t.yaml").write_text(decisions)
        return [each[key] for each in home.json("decision", "check")["problems"]]

    case = "cases: [{condition: 'true', target: x}]"
    good = f"decision: {{id: t, type: switch, default: {{target: a}}, {case}}}"
    assert told(good.replace("type: switch", "type: swich, extra: ")) == [
        *["config.unknown_value", "config.empty_value", "config.unknown_key"],
        *["config.unknown_value"] * 2,
    ]
    assert told("decision: [") == ["config.syntax"]
    (home.path / "sensors").mkdir()
    (home.path / "sensors" / "s.yaml").write_text("sensor: {id: s, type: manual, targets: {x: 3}}")
    assert told(good, "message") == [
        "`t` can lead to `x`, which is no stage here",
        "there is no decision `gone`",
    ]


@pytest.mark.parametrize(
    "given", ["", "{", "[]", "3", '{"a": 1, "a": 2}', '{"a": 9007199254740993}', "@nowhere.json"]
)
def test_a_context_that_cannot_be_used_ends_with_2_and_records_nothing(
    home: Home, given: str
) -> None:
    done = home.run("decision", "evaluate", "quality-gate", "--input", given)
    assert done.exit_code == 2
    assert not (home.path / "ledger.db").exists()


def test_a_context_comes_from_a_file_or_standard_input_too(home: Home, tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text(GOOD)
    for given in (f"@{tmp_path / 'c.json'}", "-"):
        done = home.run("decision", "evaluate", "quality-gate", "--input", given, text=GOOD)
        assert (done.exit_code, "Chose: stage-deploy" in done.stdout) == (0, True)


@pytest.mark.req(336, 337, 338)
def test_log_and_distribution_tell_what_was_recorded(home: Home) -> None:
    for number, score in enumerate(("0.9", "0.1", "0.95")):
        given = f'{{"artifact": {{"quality_score": {score}}}}}'
        words = ("--workflow-id", f"w{number % 2}", "--stage-id", "check")
        home.run("decision", "evaluate", "quality-gate", "--input", given, *words)
    home.run("decision", "evaluate", "guarded", "--input", "{}")
    entries = home.json("decision", "log")
    assert len(entries) == 4
    assert len(home.json("decision", "log", "--decision-id", "quality-gate")) == 3
    assert len(home.json("decision", "log", "--workflow-id", "w0")) == 2
    since = entries[2]["timestamp"].replace("Z", "+00:00")
    found = home.json("decision", "log", "--workflow-id", "w0", "--since", since)
    assert [each["timestamp"] for each in found] == [entries[2]["timestamp"]]
    assert home.run("decision", "log", "--since", "yesterday").exit_code == 2
    assert "stage-rework" in home.run("decision", "log").stdout
    assert home.json("decision", "distribution", "quality-gate") == {
        "decision_id": "quality-gate", "total": 3, "labels": {"Fail": 1, "Pass": 2},
    }  # fmt: skip
    text = home.run("decision", "distribution", "quality-gate").stdout
    assert f"Pass         2   66.7%  {'█' * 27}" in text
    assert home.json("decision", "distribution", "canary")["total"] == 0
    assert home.run("decision", "distribution", "nobody").exit_code == 2
    assert home.run("replay", "--all").stdout == "4 of 4 decisions identical\n"


def test_before_anything_is_recorded_there_is_nothing_to_tell(home: Home) -> None:
    before = home.files()
    assert home.json("decision", "log") == []
    assert home.json("decision", "distribution", "quality-gate")["total"] == 0
    assert home.json("decision", "cache", "clear") == {"removed": 0}
    assert home.json("decision", "cache", "status")["entries"] == 0
    assert home.files() == before


@pytest.mark.req(330, 331)
def test_the_cache_can_be_looked_at_and_emptied(home: Home) -> None:
    home.run("decision", "evaluate", "quality-gate", "--input", GOOD)
    value = home.json("decision", "cache", "status")
    assert (value["entries"], value["decisions"][0]["decision_id"]) == (1, "quality-gate")
    assert "24h" in home.run("decision", "cache", "status").stdout
    assert home.json("decision", "cache", "invalidate", "canary")["removed"] == 0
    assert home.json("decision", "cache", "invalidate", "quality-gate")["removed"] == 1
    home.run("decision", "evaluate", "quality-gate", "--input", GOOD)
    assert home.run("decision", "cache", "clear").stdout == "1 answer forgotten\n"


@pytest.mark.req(347)
def test_lineage_shows_where_an_artifact_led(home: Home, tmp_path: Path) -> None:
    home.run("decision", "evaluate", "quality-gate", "--input", GOOD)
    text = home.run("decision", "lineage", "doc").stdout
    assert text.splitlines()[0] == "artifact:doc"
    assert text.splitlines()[2] == "  to    target:stage-deploy"
    value = home.json("decision", "lineage", "doc")
    assert value["about"][0]["impact"]["affected_decisions"] == ["quality-gate"]
    for form, start in (
        ("mermaid", "flowchart"),
        ("dot", "digraph"),
        ("svg", "<svg"),
        ("json", "{"),
    ):
        done = home.run("decision", "lineage", "quality-gate", "--format", form)
        assert done.stdout.startswith(start)
    way = home.json("decision", "lineage", "doc", "--to", "stage-deploy")["path"]
    assert (way[0], way[-1]) == ("artifact:doc", "target:stage-deploy")
    assert home.run("decision", "lineage", "nobody").exit_code == 2


def test_a_table_from_csv_becomes_a_file_of_decisions(home: Home, tmp_path: Path) -> None:
    table = tmp_path / "risk.csv"
    table.write_text('age,kind,target,output\n<18,car,reject,0.5\n">=18","car,bike",accept,1\n')
    target = home.path / "decisions" / "risk.yaml"
    words = ("decision", "import", str(table), "--default", "ask")
    assert "condition:" in home.run(*words).stdout
    assert home.run(*words, "--output", str(target)).exit_code == 0
    assert home.run(*words, "--output", str(target)).exit_code == 2, "nothing is overwritten"
    given = '{"age": 30, "kind": "bike"}'
    value = home.json("decision", "dry-run", "risk", "--input", given)
    assert value["would_route_to"] == ["accept"]
    (tmp_path / "x.txt").write_text("")
    assert home.run("decision", "import", str(tmp_path / "x.txt")).exit_code == 2
