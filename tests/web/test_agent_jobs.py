"""The agents' page on jobs that ran: a reroute, a request for an action, and votes on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.house import Running, running, write_home
from tests.gateway.test_keys_over_http import bearer, made
from tests.web.conftest import has_count
from tests.web.scene import in_memory

pytestmark = pytest.mark.slow

AGENTS = {
    "schema_version": 1,
    "modules": {
        "agent:hasty": {"display_name": "Hasty", "status": "healthy", "apt": 0.95},
        "agent:scribe": {"display_name": "Scribe", "status": "healthy", "apt": 0.8},
    },
    "run": {
        "agent:hasty": {"python": "crew:hasty"},
        "agent:scribe": {"python": "crew:scribe"},
    },
}
CREW = """
def hasty(work):
    raise RuntimeError("out of order")


def scribe(work):
    note = {"namespace": "facts", "key": "checkpoint", "value": {"every": 256}}
    wish = {"action_type": "sem_write", "payload": note}
    return {"text": "every 256 entries", "confidence": 0.9, "actions": [wish]}
"""


@pytest.fixture(scope="module")
def live() -> Iterator[Running]:
    """A gateway whose agents did a job, and whose council has begun to vote."""
    with in_memory() as folder:
        settings = {"workflow": {"python": ["crew"]}, "telemetry": {"logs": "off"}}
        home = write_home(folder / "home", agents=AGENTS, pointsman=settings)
        (home / "crew.py").write_text(CREW)
        with running(home) as found:
            _worked(found)
            yield found


def _worked(live: Running) -> None:
    operator = made(live, name="the operator", role="operator")
    job = {"query_text": "how often is a checkpoint signed", "job_id": "checkpoints-1"}
    told = live.post("/jobs", job, **operator)
    assert told.status_code == 200, told.text
    blocked = {"query_text": "who is kim.lee@example.org", "job_id": "private-1"}
    assert live.post("/jobs", blocked, **operator).status_code == 403
    (request,) = live.get("/actions", **bearer(live.admin)).json()["actions"]
    for name, vote in (("mira", "approve"), ("noor", "reject")):
        body = {"vote": vote, "action_hash": request["action_hash"]}
        voter = made(live, name=name, role="council")
        said = live.post(f"/actions/{request['request_id']}/votes", body, **voter)
        assert said.status_code == 200, said.text


def test_the_history_tells_every_iteration_and_what_was_asked_for(live: Running) -> None:
    told = live.get("/api/agents/history", **bearer(live.admin)).json()
    private, job = told["jobs"]
    assert (private["job_id"], private["status"]) == ("private-1", "privacy_blocked")
    assert (job["job_id"], job["status"], job["agent_id"]) == (
        "checkpoints-1", "done", "agent:scribe"
    )  # fmt: skip
    assert [(each["agent_id"], each["status"]) for each in job["iterations"]] == [
        ("agent:hasty", "exception"), ("agent:scribe", "done")
    ]  # fmt: skip
    (request,) = live.get("/actions", **bearer(live.admin)).json()["actions"]
    assert job["action_requests"] == [request["request_id"]]
    assert (request["tally"]["approve"], request["tally"]["reject"]) == (1, 1)
    points = [(each["node_id"], each["event"]) for each in told["points"]]
    assert points[0] == ("agent:hasty", "as_written")
    assert {name for name, _ in points} == {"agent:hasty", "agent:scribe"}
    hasty = [each["apt"] for each in told["points"] if each["node_id"] == "agent:hasty"]
    assert (hasty[0], hasty[-1] < hasty[0]) == (0.95, True)


def test_a_job_is_shown_with_its_reroute_and_its_request_with_its_votes(
    open_page: Callable[..., Any], seen: Callable[[Any, str], Path]
) -> None:
    page = open_page("#/agents")
    has_count(page.locator(".jobs > li"), 2)
    job = page.locator(".jobs > li").filter(has_text="checkpoints-1")
    assert "2 iterations · agent:scribe" in job.inner_text()
    job.locator("summary").click()
    rows = job.locator("tbody tr")
    has_count(rows, 2)
    assert "agent:hasty" in rows.nth(0).inner_text()
    assert "not asked" in rows.nth(0).inner_text()
    assert "agent:scribe" in rows.nth(1).inner_text()
    assert "1 of 1 approve" in rows.nth(1).inner_text()
    job.get_by_text("asked for 1 action").wait_for()
    assert page.locator(".jobs").get_by_text("privacy blocked").is_visible()
    request = page.locator(".requests li")
    has_count(request, 1)
    assert "sem:facts/checkpoint" in request.inner_text()
    assert "1 of 3 approve, 1 reject, 0 abstain" in request.inner_text()
    assert "agent:scribe" in request.inner_text(), "who wishes it"
    has_count(page.locator("svg.spark"), 2)
    assert page.get_by_text("d ago").count() == 0, "it is of today, whatever the jobs' own time"
    job.scroll_into_view_if_needed()
    seen(page, "agents-jobs")
