"""`/jobs` over a real port: agents that are real functions, a reroute, the log, and the replay."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.house import Running, running, write_home
from tests.gateway.test_keys_over_http import bearer, made

from pointsman.jobs.entries import CALL, CALL_FORM

AGENTS = {
    "schema_version": 1,
    "modules": {
        "agent:breaks": {"type": "agent", "status": "healthy", "apt": 0.95},
        "agent:works": {"type": "agent", "status": "healthy", "apt": 0.8},
    },
    "run": {
        "agent:breaks": {"python": "crew:breaks"},
        "agent:works": {"python": "crew:works"},
    },
}
CREW = """
def breaks(work):
    raise RuntimeError("out of order")


def works(work):
    return {"text": "two levels, and kim.lee@example.org knows more", "confidence": 0.9}
"""


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    home = write_home(
        tmp_path_factory.mktemp("jobs") / "home",
        agents=AGENTS,
        pointsman={"workflow": {"python": ["crew"]}},
    )
    (home / "crew.py").write_text(CREW)
    with running(home) as found:
        yield found


@pytest.fixture(scope="module")
def keys(live: Running) -> dict[str, dict[str, str]]:
    roles = ("viewer", "operator", "admin", "council", "auditor")
    return {role: made(live, name=f"the {role}", role=role, tenant="acme") for role in roles}


@pytest.fixture(scope="module", autouse=True)
def job(live: Running, keys: dict[str, dict[str, str]]) -> dict[str, Any]:
    """The first job, run by the operator: later ones find the trust it left behind."""
    body = {"query_text": "what is a qubit", "job_id": "job-1", "trace_id": "trace-of-a-job"}
    told = live.post("/jobs", body, **keys["operator"])
    assert told.status_code == 200, told.text
    return dict(told.json())


@pytest.mark.req(41, 43, 52, 60)
def test_an_agent_that_fails_is_left_out_and_the_next_one_answers(job: dict[str, Any]) -> None:
    first, second = job["log"]["iteration_trace"]
    assert (first["agent_id"], first["status"]) == ("agent:breaks", "exception")
    assert (second["agent_id"], second["excluded"]) == ("agent:works", ["agent:breaks"])
    assert job["selected_agent"] == "agent:works"
    assert job["text"].startswith("two levels")
    assert job["log"]["final_output"]["confidence"] == 0.9
    assert job["trace_id"] == job["log"]["trace_id"] == "trace-of-a-job"
    assert job["log"]["created_at_seeded"].startswith("2025-01-01T")


@pytest.mark.req(7, 44, 64)
def test_an_auditor_gets_the_verdict_and_not_what_was_said(
    live: Running, keys: dict[str, dict[str, str]], job: dict[str, Any]
) -> None:
    told = live.post(f"/jobs/{job['log_id']}/replay", b"", **keys["auditor"])
    assert told.status_code == 200, told.text
    assert (told.json()["verdict"], told.json()["is_identical"]) == ("identical", True)
    assert told.json()["iterations"] == 2
    assert "two levels" not in told.text
    shown = live.get("/jobs/job-1", **keys["auditor"])
    assert (shown.status_code, shown.json()["text"]) == (200, None)
    assert "two levels" not in shown.text
    assert shown.json()["redacted"] is True


@pytest.mark.req(388)
def test_what_an_agent_said_is_for_admins_and_the_council(
    live: Running, keys: dict[str, dict[str, str]], job: dict[str, Any]
) -> None:
    for role, own in keys.items():
        told = live.get(f"/jobs/{job['log_id']}", **own)
        assert told.status_code == 200
        assert ("kim.lee" in told.text) == (role in {"admin", "council"}), role
        rows = live.get("/jobs", **own).json()["jobs"]
        assert job["log_id"] in [each["log_id"] for each in rows]


@pytest.mark.parametrize("role", ["viewer", "auditor"])
def test_those_who_only_look_run_no_jobs(
    live: Running, keys: dict[str, dict[str, str]], role: str
) -> None:
    told = live.post("/jobs", {"query_text": "q"}, **keys[role])
    assert (told.status_code, told.json()["error_code"]) == (403, "PERMISSION_DENIED")


@pytest.mark.req(40)
def test_a_job_that_nobody_takes_is_an_error_with_its_log(
    live: Running, keys: dict[str, dict[str, str]]
) -> None:
    body = {"query_text": "q", "candidate_list": ["agent:breaks"]}
    told = live.post("/jobs", body, **keys["operator"])
    value = told.json()
    assert (told.status_code, value["error_code"]) == (400, "ROUTER_NO_MATCH")
    assert (value["severity"], value["job_status"]) == ("info", "no_match")
    assert live.post(f"/jobs/{value['log_id']}/replay", b"", **keys["operator"]).json()[
        "is_identical"
    ]


@pytest.mark.req(47)
def test_a_job_with_personal_data_is_blocked(
    live: Running, keys: dict[str, dict[str, str]]
) -> None:
    body = {"query_text": "who is kim.lee@example.org"}
    told = live.post("/jobs", body, **keys["operator"])
    assert (told.status_code, told.json()["error_code"]) == (403, "PRIVACY_BLOCKED")
    assert "kim.lee" not in told.text


@pytest.mark.req(392)
def test_calls_about_jobs_leave_an_entry_with_their_trace(
    live: Running, keys: dict[str, dict[str, str]], job: dict[str, Any]
) -> None:
    before = len(live.entries(CALL))
    unknown = {"query_text": "q", "selfrep_snapshot_id": "unheard-of", "trace_id": "in-vain"}
    live.post("/jobs", unknown, **keys["operator"])
    live.get(f"/jobs/{job['log_id']}", **keys["operator"])
    live.get("/jobs/unheard-of", **keys["operator"])
    live.post("/jobs/job-1/replay", b"", **keys["auditor"])
    told = [CALL_FORM.decode(each.payload) for each in live.entries(CALL)[before:]]
    ends = [(each.call, each.result) for each in told if each.call.startswith("jobs.")]
    assert ends == [
        ("jobs.run", "ROUTER_NO_SNAPSHOT"),
        ("jobs.get", "done"),
        ("jobs.get", "input.not_found"),
        ("jobs.replay", "done"),
    ]
    assert all(each.trace_id for each in told)
    assert next(each.trace_id for each in told if each.call == "jobs.run") == "in-vain"


HOSTILE: list[bytes] = [
    b"",
    b"[]",
    b"{}",
    b"[" * 5000,
    json.dumps({"query_text": ""}).encode(),
    json.dumps({"query_text": 1}).encode(),
    json.dumps({"query_text": "q", "surprise": 1}).encode(),
    json.dumps({"query_text": "q", "selfrep": {"modules": {"a": {"apt": 2}}}}).encode(),
    json.dumps({"query_text": "q", "brainstate": {"goals": 1}}).encode(),
    b'{"query_text": "q", "brainstate": {"attention": {"attention_gain": 1e400}}}',
    json.dumps(
        {"query_text": "q", "selfrep": {"modules": {}}, "selfrep_snapshot_id": "x"}
    ).encode(),
]


@pytest.mark.parametrize("body", HOSTILE, ids=range(len(HOSTILE)))
def test_a_job_that_cannot_be_read_is_told_in_one_clear_error(
    live: Running, keys: dict[str, dict[str, str]], body: bytes
) -> None:
    told = live.post("/jobs", body, **keys["operator"])
    assert told.status_code == 400, told.text
    assert told.json()["error_code"].startswith("input.")


def test_this_machine_runs_jobs_before_the_first_key(tmp_path: Path) -> None:
    home = write_home(
        tmp_path / "home", agents=AGENTS, pointsman={"workflow": {"python": ["crew"]}}
    )
    (home / "crew.py").write_text(CREW)
    with running(home) as live:
        body = {"query_text": "what is a qubit", "candidate_list": ["agent:works"]}
        told = live.post("/jobs", body)
        assert told.status_code == 200, told.text
        name = told.json()["log_id"]
        assert live.get(f"/jobs/{name}").json()["text"] is None
        assert live.get(f"/jobs/{name}", **bearer(live.admin)).json()["text"]
