"""What was recorded, over HTTP: decisions, what left, backtests, bundles and feedback."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.gateway.conftest import Town
from tests.gateway.house import Running
from tests.gateway.town import ADMIN

from pointsman import offline_verifier
from pointsman.learning.feedback import FEEDBACK, FEEDBACK_FORM
from pointsman.storage.stores.patterns.patterns import PatternStore
from pointsman.turns.learning.fingerprint import Fingerprint

POLICY = "schema_version: 1\nglobal_default: house:llama\n"


def test_decisions_of_every_room_are_listed_newest_first(live: Running) -> None:
    live.chat("one")
    live.chat("two", headers={"x-pointsman-privacy": "local"})
    live.post("/api/route/preview", {"message": "three"})
    found = live.get("/api/decisions").json()["decisions"]
    assert [each["at"] for each in found] == sorted((e["at"] for e in found), reverse=True)
    assert {each["room"] for each in found} == {"turn", "placement"}
    turns = live.get("/api/decisions?kind=turn&limit=2").json()["decisions"]
    assert [each["is_preview"] for each in turns] == [True, False]
    assert turns[0]["outcome"]["chosen_model"] == "open:big"
    since = turns[0]["at"]
    later = live.get(f"/api/decisions?since={since}").json()["decisions"]
    assert {each["at"] for each in later} == {since}


@pytest.mark.parametrize(
    "query", ["kind=nothing", "limit=0", "limit=abc", "limit=", "since=now", "limit=1&limit=2"]
)
def test_a_query_that_cannot_be_meant_is_refused(live: Running, query: str) -> None:
    assert live.get(f"/api/decisions?{query}").status_code == 400


DECISIONS = """
decision:
  id: gate
  type: binary
  input: "{{ artifact.score }}"
  cases:
    - {condition: "input >= 0.8", label: good, target: ship}
    - {condition: "input < 0.8", label: poor, target: rework}
  default: {target: rework}
"""


def test_a_workflow_decision_is_evaluated_and_recorded(live: Running) -> None:
    (live.home / "decisions").mkdir()
    (live.home / "decisions" / "gate.yaml").write_text(DECISIONS)
    body = {"input": {"artifact": {"score": 0.8}}, "workflow_id": "w"}
    told = live.post("/api/decisions/gate/evaluate", body)
    assert told.status_code == 200, told.text
    assert told.json()["selected_targets"] == ["ship"]
    row = live.get("/api/decisions?kind=branch").json()["decisions"][0]
    assert row["decision_id"] == told.json()["evaluation_id"]
    assert live.post("/api/decisions/nothing/evaluate", body).status_code == 404
    (live.home / "decisions" / "other.yaml").write_text("decision: {id: other}")
    wrong = live.post("/api/decisions/other/evaluate", body)
    assert wrong.status_code == 400
    assert "other.yaml" in wrong.json()["user_message"]
    assert live.post("/api/decisions/gate/evaluate", {"input": []}).status_code == 400


GUARDED = """
decision:
  id: guard
  type: binary
  cases: [{condition: "true", target: deploy}]
  default: {target: rest}
  guardrails: [{type: requires_approval, targets: [deploy], escalation_target: human}]
"""


def test_before_the_first_key_only_the_admin_approves_with_the_call_itself(live: Running) -> None:
    (live.home / "decisions").mkdir()
    (live.home / "decisions" / "guard.yaml").write_text(GUARDED)
    path, body = "/api/decisions/guard/evaluate", {"input": {}, "approved": ["deploy"]}
    refused = live.post(path, body)
    assert (refused.status_code, refused.json()["error_code"]) == (403, "PERMISSION_DENIED")
    assert not live.get("/api/decisions?kind=branch").json()["decisions"]
    asked = live.post(path, {"input": {}}).json()
    assert (asked["selected_targets"], asked["blocked"]) == (["human"], True)
    assert asked["withheld_targets"] == asked["approval_required"] == ["deploy"]
    told = live.post(path, body, authorization=f"Bearer {live.admin}").json()
    assert (told["selected_targets"], told["blocked"]) == (["deploy"], False)
    assert told["withheld_targets"] == []


def test_what_left_is_told_and_proved(live: Running) -> None:
    live.chat("this leaves")
    live.chat("this stays", "llama")
    live.outcomes(2)
    told = live.get("/api/audit/egress").json()
    assert (told["turns"], told["left"], told["proved"]) == (2, 1, True)
    assert told["rows"][0]["model"] == "open:big"
    assert "this leaves" not in json.dumps(told)


def test_a_backtest_says_what_another_policy_would_change(live: Running) -> None:
    live.chat("one")
    told = live.post("/api/backtest", {"policy": POLICY}).json()
    assert (told["turns"], told["changed_count"]) == (1, 1)
    assert told["shifts"] == [{"before": "open:big", "after": "house:llama", "count": 1}]
    wrong = live.post("/api/backtest", {"policy": "schema_version: 1\nglobal_default: nobody\n"})
    assert wrong.status_code == 400
    assert "routing.yaml:2" in wrong.json()["user_message"]


def test_a_backtest_forecasts_several_policies_and_outages(live: Running) -> None:
    live.chat("one")
    live.outcomes(1)
    body = {"policy": POLICY, "others": {"as now": "schema_version: 1\nglobal_default: open:big\n"}}
    told = live.post("/api/backtest", body).json()
    assert told["forecast"]["support"]["unsupported"] == {"no turn of house:llama is recorded": 1}
    same = told["others"]["as now"]
    (cost, *_) = same["forecast"]["measures"]
    assert (cost["name"], cost["turns"], cost["before"]) == ("cost_usd", 1, cost["after"])
    out = live.post("/api/backtest", {**body, "out": ["house"], "without": ["open:big"]}).json()
    assert out["models_after"] == out["others"]["as now"]["models_after"] == {"": 1}
    wrong = live.post("/api/backtest", {"policy": POLICY, "out": ["none such"]})
    assert wrong.status_code == 400


def test_the_entry_that_moved_turns_is_found(live: Running) -> None:
    live.chat("one")
    policy = live.home / "routing.yaml"
    policy.write_text(POLICY)
    live.post("/api/policies/reload", {}, **ADMIN)
    live.chat("two")
    flip = "turns moved from open:big to house:llama"
    told = live.post("/api/bisect", {"flip": flip}).json()
    assert (told["turns"], told["causes"][0]["part"]) == (2, "policy")
    wrong = live.post("/api/bisect", {"flip": "turns moved"})
    assert wrong.status_code == 400


def test_a_bundle_is_downloaded_and_verified_elsewhere(live: Running, tmp_path: Path) -> None:
    live.chat("a sentence of mine")
    assert live.post("/api/export", b"").status_code == 401
    told = live.post("/api/export", b"", **ADMIN)
    assert told.status_code == 200
    assert told.headers["content-disposition"].endswith('"pointsman-ledger.jsonl"')
    bundle = tmp_path / "bundle.jsonl"
    bundle.write_bytes(told.content)
    script = Path(offline_verifier.__file__)
    done = subprocess.run(
        [sys.executable, str(script), str(bundle)], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert told.headers["x-pointsman-signed-by"].encode() in told.content
    assert b"a sentence of mine" not in told.content


def test_feedback_is_recorded_beside_its_turn(live: Running) -> None:
    turn = live.chat("one").headers["x-pointsman-turn"]
    told = live.post("/api/feedback", {"turn_id": turn, "thumbs": "up", "comment": "just right"})
    assert told.status_code == 200
    assert (told.json()["score"], told.json()["pattern"]) == (1.0, "counted")
    entry = live.entries(FEEDBACK)[0]
    assert entry.ref == turn
    feedback = FEEDBACK_FORM.decode(entry.payload)
    assert feedback.comment is not None
    assert feedback.comment.chars == len("just right")
    assert b"just right" not in entry.payload


def test_feedback_moves_the_score_of_a_pattern(live: Running) -> None:
    turn = live.chat("one").headers["x-pointsman-turn"]
    store = PatternStore(live.parts.pointsman.home.patterns)
    now = live.parts.pointsman.clock.now()
    store.record(
        Fingerprint(),
        b"",
        model="open:big",
        turn_id=turn,
        cost_microusd=1,
        latency_ms=1,
        pricing_version="",
        at=now,
    )
    told = live.post("/api/feedback", {"turn_id": turn, "score": 0.25}).json()
    assert told["pattern"] == "counted"
    assert store.report()[0].mean_success == 250_000_000
    verdict = {"turn_id": turn, "score": 0.75, "eval_id": "suite-7"}
    said = [live.post("/api/feedback", verdict).json()["pattern"] for _ in range(2)]
    assert said == ["counted", "known"]
    unsure = {"turn_id": turn, "score": 0, "eval_id": "suite-8", "confidence": 0.3}
    assert live.post("/api/feedback", unsure).json()["pattern"] == "unsure"
    assert store.report()[0].mean_success == 750_000_000
    store.close()


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"turn_id": "nobody", "score": 1}, 404),
        ({"turn_id": "last", "score": 1}, 404),
        ({"turn_id": "x"}, 400),
        ({"turn_id": "x", "score": 1, "thumbs": "up"}, 400),
        ({"turn_id": "x", "score": 1.5}, 400),
        ({"turn_id": "x", "score": 1, "more": 1}, 400),
    ],
)
def test_feedback_on_nothing_or_in_no_measure_is_refused(
    town: Town, live: Running, body: dict[str, object], status: int
) -> None:
    live.chat("one")
    assert live.post("/api/feedback", body).status_code == status
    assert live.entries(FEEDBACK) == []
