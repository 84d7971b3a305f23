"""What the dashboard asks for beside lists: records, replays, policies, workflow decisions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.house import Running
from tests.web.conftest import turns
from tests.web.scene import ROUTING, command, in_memory, scene

BROKEN = ROUTING.replace("use: openai:gpt-5-mini", "use: openai:gpt-5-mimi", 1)


@pytest.fixture(scope="module")
def live() -> Iterator[Running]:
    with in_memory() as folder, scene(folder / "home") as running:
        yield running


@pytest.fixture
def admin(live: Running) -> dict[str, str]:
    return {"authorization": f"Bearer {live.admin}"}


def test_a_record_holds_facts_policy_and_what_followed(
    live: Running, admin: dict[str, str]
) -> None:
    fell = next(each for each in turns(live) if each["fallbacks"])
    told = live.get(f"/api/turns/{fell['turn_id']}/record", **admin).json()
    assert told["message"]["text"] == "Architecture of the search index"
    assert told["facts"]["message"]["digest"] == fell["digest"]
    assert told["policy"]["rules"][1]["name"] == "deep for architecture"
    kinds = [each["kind"] for each in told["linked"]]
    assert kinds == ["outcome", "decision.turn.fallback", "outcome", "event.feedback.given"]


def test_a_turn_that_no_model_may_take_is_listed_as_refused(live: Running) -> None:
    (row,) = turns(live, state="refused")
    assert (row["chosen_model"], row["placement"]["gate"], row["rejected"]) == ("", "local", 1)


def test_the_text_of_a_message_is_for_admins(live: Running) -> None:
    told = live.get("/api/turns/last/record").json()["message"]
    assert told["text"] is None
    assert told["characters"] > 0


def test_a_replay_of_one_turn_runs_every_decision_about_it(live: Running) -> None:
    fell = next(each for each in turns(live) if each["fallbacks"])
    told = live.post(f"/api/turns/{fell['turn_id']}/replay", b"").json()["decisions"]
    assert [each["kind"] for each in told] == ["turn", "turn.fallback"]
    assert {each["verdict"] for each in told} == {"identical"}
    assert all(each["recorded_bytes"] > 100 for each in told)
    assert live.post("/api/turns/nobody/replay", b"").status_code == 404


def test_a_check_says_the_same_as_the_command(
    live: Running, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = (ROUTING, BROKEN, "schema_version: 1\nrules: [", "nonsense: true\n")
    for number, text in enumerate(texts):
        home = tmp_path / str(number)
        home.mkdir(mode=0o700)
        (home / "models.yaml").write_bytes((live.home / "models.yaml").read_bytes())
        (home / "routing.yaml").write_text(text)
        capsys.readouterr()
        command("init", "--home", str(home))
        capsys.readouterr()
        command("rules", "check", "--home", str(home), "--json")
        said = json.loads(capsys.readouterr().out)
        told = live.post("/api/policies/routing.yaml/check", {"text": text}).json()
        places = [f"{e['source']}:{e['line']}:{e['column']}" for e in told["problems"]]
        assert places == [each["place"].rpartition("/")[2] for each in said["problems"]]
        for name in ("code", "message", "hint"):
            assert [e[name] for e in told["problems"]] == [e[name] for e in said["problems"]]
        if not told["problems"]:
            assert told["warnings"] == said["warnings"]
            assert told["privacy"]["holds"] == said["privacy"]["holds"]
            assert told["policy_id"] == said["policy_id"]


def test_models_and_placement_are_checked_too(live: Running) -> None:
    models = "schema_version: 1\nproviders: {a: {kind: nothing}}\n"
    told = live.post("/api/policies/models.yaml/check", {"text": models}).json()
    assert (told["ok"], told["problems"][0]["line"]) == (False, 2)
    told = live.post("/api/policies/placement.yaml/check", {"text": "rules: 1\n"}).json()
    assert not told["ok"]
    assert live.post("/api/policies/other.yaml/check", {"text": ""}).status_code == 404


def test_a_dry_run_decides_under_the_edited_policy_and_records_nothing(live: Running) -> None:
    before = len(turns(live))
    changed = ROUTING.replace("use: openai:gpt-5-mini", "use: house:llama-3.2", 1)
    body = {"text": changed, "facts": {"message": "/commit it"}}
    told = live.post("/api/policies/routing.yaml/try", body).json()
    assert told["chosen_model"] == "house:llama-3.2"
    now = live.post("/api/policies/routing.yaml/try", {**body, "text": ROUTING}).json()
    assert now["chosen_model"] == "openai:gpt-5-mini"
    assert len(turns(live)) == before
    wrong = live.post("/api/policies/routing.yaml/try", {**body, "text": BROKEN})
    assert wrong.status_code == 400


def test_a_preview_decides_as_the_dry_run_of_the_same_file(live: Running) -> None:
    facts = {"message": "Design review of the API"}
    tried = live.post("/api/policies/routing.yaml/try", {"text": ROUTING, "facts": facts}).json()
    shown = live.post("/api/route/preview", facts).json()
    assert [tried[name] for name in ("chain", "policy_id")] == [
        shown[name] for name in ("chain", "policy_id")
    ]


def events(text: str) -> list[tuple[str, Any]]:
    blocks = [block.split("\n") for block in text.split("\n\n") if "data: " in block]
    return [(name[7:], json.loads(data[6:])) for name, data in blocks]


def test_a_backtest_tells_how_far_it_is_and_what_comes_out(live: Running) -> None:
    changed = ROUTING.replace("use: openai:gpt-5-mini", "use: house:llama-3.2", 1)
    plain = live.post("/api/backtest", {"policy": changed}).json()
    told = live.post("/api/backtest", {"policy": changed}, accept="text/event-stream")
    assert told.headers["content-type"].startswith("text/event-stream")
    *progress, (name, result) = events(told.text)
    assert {each for each, _ in progress} == {"progress"}
    assert progress[-1][1]["done"] == progress[-1][1]["total"]
    assert (name, result) == ("result", plain)
    assert {(e["before"], e["after"]): e["count"] for e in result["shifts"]} == {
        ("openai:gpt-5-mini", "house:llama-3.2"): 6
    }
    wrong = live.post("/api/backtest", {"policy": BROKEN}, accept="text/event-stream")
    assert wrong.status_code == 400


def test_a_workflow_decision_tells_its_definition_distribution_and_log(live: Running) -> None:
    listed = live.get("/api/workflow-decisions").json()["decisions"]
    assert {each["id"]: each["evaluations"] for each in listed} == {
        "quality_gate": 40,
        "reviewer": 40,
    }
    told = live.get("/api/workflow-decisions/reviewer").json()
    assert told["expected"] == {"model": 0.7, "human": 0.3}
    assert sum(told["distribution"].values()) == told["total"] == 40
    assert len(told["log"]) == 40
    graph = live.get("/api/workflow-decisions/reviewer/lineage").json()
    assert {each["type"] for each in graph["nodes"]} == {"artifact", "decision", "target"}
    assert live.get("/api/workflow-decisions/nothing").status_code == 404


def test_a_dry_run_of_a_workflow_decision_records_nothing(live: Running) -> None:
    body = {"input": {"artifact": {"score": 0.95}}}
    told = live.post("/api/workflow-decisions/quality_gate/dry-run", body).json()
    assert (told["would_route_to"], told["dry_run"]) == (["publish"], True)
    assert live.get("/api/workflow-decisions/quality_gate").json()["total"] == 40
    kept = live.get("/api/workflow-decisions/quality_gate").json()["cache"]["entries"]
    assert kept > 0
    gone = live.client.delete("/api/workflow-decisions/quality_gate/cache").json()
    assert gone == {"decision_id": "quality_gate", "removed": kept}


def test_the_ledger_tells_its_chains_and_how_far_they_are_signed(live: Running) -> None:
    told = live.get("/api/ledger").json()
    assert [each["name"] for each in told["chains"]] == ["cli", "serve"]
    assert told["chains"][0]["signed"] == told["chains"][0]["entries"]
    assert told["chains"][0]["checkpoints"][0]["size"] == told["chains"][0]["entries"]
    assert told["state"]["writable"]
    newest = told["chains"][1]["latest"][0]
    assert newest["hash"] == told["chains"][1]["head"]
