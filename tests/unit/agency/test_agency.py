"""The agents' service over a real ledger: snapshots, choices, and who asked for them."""

import json
from contextlib import closing
from pathlib import Path

import apsw
import msgspec
import pytest
from tests.unit.agency.fleet import FLEET, Fleet, a_caller, opened
from tests.unit.agency.fleet_told import calls, judge

from pointsman.agents.facts import FACTS_FORM
from pointsman.app import Pointsman
from pointsman.errors import (
    IntegrityFailure,
    MissingSnapshot,
    NotFound,
    PermissionDenied,
    RouterNoSnapshot,
)
from pointsman.governance.action import Actor
from pointsman.jobs.privacy import find_kinds, privacy_verdict
from pointsman.storage.stores.entries import ContentReader, LedgerReader

NOWHERE = "sha256:" + "0" * 64


@pytest.mark.req(1, 7, 16, 49, 50, 51)
def test_a_choice_is_recorded_with_its_snapshots_and_trace(fleet: Fleet) -> None:
    job = fleet.job(trace_id="trace-9")
    shown = fleet.agency.decide(job)
    assert shown.outcome.selected_agent == "agent:a"
    (entry,) = fleet.entries("decision.agent")
    recorded = msgspec.json.decode(entry.payload)
    assert (entry.id, entry.ref) == (shown.decision_id, "job-1")
    assert recorded["aside"]["trace_id"] == shown.trace_id == "trace-9"
    assert recorded["decision"]["policy_id"] == shown.router_snapshot_id
    assert recorded["decision"]["snapshot_ids"] == {
        "selfrep": job.selfrep_snapshot_id,
        "brainstate": job.brainstate_snapshot_id,
    }
    assert fleet.agency.find_route("job-1") == fleet.agency.find_route("last") == shown
    again = fleet.agency.decide(job)
    assert (again.outcome, again.trace, again.facts_id) == (
        shown.outcome,
        shown.trace,
        shown.facts_id,
    )
    assert fleet.pointsman.replay_all().is_clean


@pytest.mark.req(2, 5, 19, 64)
def test_what_changes_after_the_snapshots_changes_nothing(fleet: Fleet) -> None:
    job = fleet.job()
    before = fleet.agency.decide(job)
    worse = msgspec.json.decode(json.dumps(FLEET))
    worse["modules"]["agent:a"] = {"apt": "0.1", "status": "quarantined"}
    worse["router_config"] = {"weight_avail": "0.1", "min_score": "0.9"}
    fleet.write(worse)
    judge(fleet, "agent:a")
    after = fleet.agency.decide(job)
    assert after.outcome == before.outcome
    assert after.router_snapshot_id == before.router_snapshot_id
    anew = fleet.agency.decide(fleet.job())
    assert anew.outcome.selected_agent != "agent:a"
    assert anew.router_snapshot_id != before.router_snapshot_id


@pytest.mark.req(61)
@pytest.mark.parametrize("name", [NOWHERE, "no id at all", "x" * 150])
def test_an_id_that_names_nothing_is_told_so(fleet: Fleet, name: str) -> None:
    job = fleet.job()
    for broken in (
        msgspec.structs.replace(job, selfrep_snapshot_id=name),
        msgspec.structs.replace(job, brainstate_snapshot_id=name),
        msgspec.structs.replace(job, router_snapshot_id=name),
    ):
        with pytest.raises(RouterNoSnapshot, match="no snapshot of") as caught:
            fleet.agency.decide(broken)
        assert caught.value.code == "ROUTER_NO_SNAPSHOT"
    for call in (fleet.agency.brainstate, fleet.agency.query, fleet.agency.selfrep):
        with pytest.raises(RouterNoSnapshot):
            call(name)
    assert fleet.entries("decision.agent") == []


def test_a_snapshot_of_another_kind_is_none(fleet: Fleet) -> None:
    job = fleet.job()
    with pytest.raises(RouterNoSnapshot, match="names a snapshot of `brainstate`"):
        fleet.agency.selfrep(job.brainstate_snapshot_id)


def test_a_home_without_a_ledger_has_no_snapshot(folder: Path) -> None:
    with Pointsman(folder) as pointsman:
        with pytest.raises(RouterNoSnapshot):
            pointsman.agency.snapshots.selfrep(NOWHERE)
        with pytest.raises(NotFound, match="nothing is recorded yet"):
            pointsman.agency.find_route()


@pytest.mark.req(68)
def test_a_request_may_name_the_constants_it_is_decided_under(fleet: Fleet) -> None:
    first = fleet.agency.decide(fleet.job())
    fleet.write({**FLEET, "router_config": {"weight_goal": "0.9"}})
    second = fleet.agency.decide(fleet.job())
    assert second.router_snapshot_id != first.router_snapshot_id
    old = fleet.agency.decide(fleet.job(router_snapshot_id=first.router_snapshot_id))
    assert old.router_snapshot_id == first.router_snapshot_id


def test_a_stored_snapshot_that_was_changed_is_not_used(folder: Path) -> None:
    with opened(folder) as fleet:
        name = fleet.state()
    with closing(apsw.Connection(str(fleet.pointsman.home.database))) as database:
        rows = database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for (trigger,) in rows:
            database.execute(f"DROP TRIGGER {trigger}")
        database.execute(
            "UPDATE attachments SET body = CAST(replace(CAST(body AS TEXT), '1000', '9') AS BLOB)"
            " WHERE instr(body, 'token_budget')"
        )
    with opened(folder) as again, pytest.raises(IntegrityFailure):
        again.agency.brainstate(name)


@pytest.mark.req(47, 386)
@pytest.mark.parametrize(
    ("query", "kind"),
    [
        ("write to jane.doe@example.com", "pii.email"),
        ("open now postgres://bob:s3cr3tPw9x@db.example/x", "secret.basic_auth_url"),
        ("pay DE89 3704 0044 0532 0130 00", "pii.iban"),
    ],
)
def test_a_private_query_is_blocked_and_its_text_is_kept_nowhere(
    fleet: Fleet, query: str, kind: str
) -> None:
    shown = fleet.agency.decide(fleet.job(query))
    assert (shown.outcome.error_code, shown.outcome.selected_agent) == ("PRIVACY_BLOCKED", None)
    assert shown.trace.privacy_reason == f"the query holds {kind}"
    (entry,) = fleet.entries("decision.agent")
    with closing(LedgerReader(fleet.pointsman.home.database)) as ledger:
        (stored,) = ledger.with_id(entry.id)
        facts = ledger.attachments(stored)[0]
    word = query.split()[2]
    assert word.encode() not in entry.payload + facts
    seal = FACTS_FORM.decode(facts).query
    home = fleet.pointsman.home
    reader = ContentReader(home.content, home.content_key())
    with closing(reader), pytest.raises(MissingSnapshot, match="was not kept"):
        reader.text(seal)  # type: ignore[arg-type] # it is sealed
    assert fleet.pointsman.replay_all().is_clean


@pytest.mark.req(47)
def test_a_home_may_let_kinds_or_groups_through(fleet: Fleet) -> None:
    query = "write to jane.doe@example.com"
    fleet.write({**FLEET, "privacy": {"let_through": ["email"]}})
    assert fleet.agency.decide(fleet.job(query)).outcome.selected_agent == "agent:a"
    fleet.write({**FLEET, "privacy": {"let_through": ["pii"]}})
    assert fleet.agency.decide(fleet.job(query)).outcome.selected_agent == "agent:a"
    fleet.write({**FLEET, "privacy": {"let_through": ["secret", "iban"]}})
    assert fleet.agency.decide(fleet.job(query)).outcome.error_code == "PRIVACY_BLOCKED"
    fleet.write({**FLEET, "privacy": {"let_through": ["emial"]}})
    assert "did you mean `email`?" in fleet.agency.problems[0]


def test_a_detector_that_fails_blocks() -> None:
    def broken(_text: str) -> tuple[()]:
        raise ValueError

    verdict = privacy_verdict("hello", ("pii", "secret", "detector_failed"), broken)
    assert (verdict.is_blocked, verdict.reason) == (True, "the query holds detector_failed")
    assert find_kinds("nothing in it") == ()


@pytest.mark.req(45, 46)
def test_a_role_of_this_house_is_nobodys_to_claim(fleet: Fleet) -> None:
    fleet.write(
        {
            **FLEET,
            "roles": {
                "operator": {"modules": ["agent:b"]},
                "admin": {},
                "clerk": {"modules": ["agent:c"]},
            },
        }
    )
    chosen = {
        role: fleet.agency.decide(fleet.job(user_role=role), a_caller()).outcome.selected_agent
        for role in (None, "operator", "clerk")
    }
    assert chosen == {None: "agent:b", "operator": "agent:b", "clerk": "agent:c"}
    with pytest.raises(PermissionDenied, match="`admin` is not yours"):
        fleet.agency.decide(fleet.job(user_role="admin"), a_caller())
    admin = Actor("admin", "admin", "admin")
    shown = fleet.agency.decide(fleet.job(user_role="operator"), a_caller(actor=admin))
    assert shown.outcome.selected_agent == "agent:b"


def test_a_caller_may_be_kept_to_some_modules(fleet: Fleet) -> None:
    caller = msgspec.structs.replace(a_caller(), permitted=("agent:c",))
    assert fleet.agency.decide(fleet.job(), caller).outcome.selected_agent == "agent:c"


@pytest.mark.req(351, 389)
def test_a_first_state_has_goals_budget_and_constants_and_an_empty_memory(fleet: Fleet) -> None:
    name = fleet.state(goals=[{"goal_id": "g1", "type": "answer", "priority": "0.5"}])
    state = fleet.agency.brainstate(name)
    assert [each.goal_id for each in state.goals] == ["g1"]
    assert (state.resource_budget.token_budget, state.wm, state.cwm.items) == (1000, (), ())
    assert any(each.name == "a_decay" for each in state.warnings)
    with closing(LedgerReader(fleet.pointsman.home.database)) as ledger:
        snapshot = ledger.snapshot(name)
    assert len(snapshot.signature) == 64


@pytest.mark.req(391, 392)
def test_every_call_leaves_an_entry_with_its_trace(fleet: Fleet) -> None:
    caller = a_caller("trace-7")
    name = fleet.state()
    fleet.agency.brainstate(name, caller)
    fleet.agency.query(name, caller)
    selfrep = fleet.agency.record_selfrep(None, caller).id
    fleet.agency.selfrep(selfrep, caller)
    with pytest.raises(RouterNoSnapshot):
        fleet.agency.query(NOWHERE, caller)
    assert [each for each in calls(fleet) if each[1] == "trace-7"] == [
        ("brainstate.get", "trace-7", "done"),
        ("brainstate.query", "trace-7", "done"),
        ("selfrep.create_snapshot", "trace-7", "done"),
        ("selfrep.get", "trace-7", "done"),
        ("brainstate.query", "trace-7", "ROUTER_NO_SNAPSHOT"),
    ]


@pytest.mark.parametrize("job_id", ["grüße", "x" * 200, "tab\there"])
def test_a_job_of_any_name_is_found_again(fleet: Fleet, job_id: str) -> None:
    shown = fleet.agency.decide(fleet.job(job_id=job_id))
    assert fleet.agency.find_route(job_id) == shown
    assert shown.job_id == job_id
