"""Modules and their trust, folded from the events of the ledger."""

from contextlib import closing
from pathlib import Path

import pytest
from msgspec import Raw
from tests.unit.agency.fleet import COUNCIL, OPERATOR, Fleet, opened
from tests.unit.agency.fleet_told import judge

from pointsman.agents.file.agents_file import GivenModule, GivenSelfRep
from pointsman.agents.modules.event import (
    ModuleAptSet,
    ModuleStatusSet,
    RouterConfigSet,
    SelfRepEvent,
    selfrep_payload,
)
from pointsman.app import Pointsman
from pointsman.approvals.proposal import ActionProposal
from pointsman.errors import NotFound
from pointsman.kernel.canonical import canonical_json
from pointsman.kernel.entry import Draft
from pointsman.kernel.number import Billionths, billionths


def tell(fleet: Fleet, event: SelfRepEvent) -> None:
    kind, body = selfrep_payload(event)
    draft = Draft(kind, fleet.ids.new_id(), event.request_id, fleet.clock.now(), body)
    fleet.pointsman.decision_recorder.recorder().record(draft)


def test_trust_goes_down_by_events_of_the_ledger_and_each_counts_once(fleet: Fleet) -> None:
    fleet.agency.record_selfrep()
    judge(fleet, "agent:a")
    judge(fleet, "agent:a")
    found = fleet.agency.live().module("agent:a")
    assert found is not None
    assert (found.apt, found.status) == (billionths("0.6491"), "degraded")
    judge(fleet, "agent:a", seed="other")
    judge(fleet, "nobody", index=5)
    found = fleet.agency.live().module("agent:a")
    assert found is not None
    assert found.metrics.consecutive_failures == 2
    assert fleet.agency.problems == ()


def test_events_fold_the_same_at_once_and_one_by_one(folder: Path) -> None:
    with opened(folder) as fleet:
        fleet.agency.record_selfrep()
        for index, node in enumerate(["agent:a", "agent:b", "agent:a", "agent:c"]):
            judge(fleet, node, index=index, at=index)
            step = fleet.agency.live()
        tell(fleet, ModuleStatusSet("r-1", "agent:c", "quarantined", "lies"))
        tell(fleet, ModuleStatusSet("r-1", "agent:c", "healthy", "told twice"))
        last = fleet.agency.live()
        assert last != step
    with opened(folder) as again:
        assert again.agency.live() == last
        found = last.module("agent:c")
        assert found is not None
        assert (found.status, found.status_reason) == ("quarantined", "lies")


def test_an_entry_that_is_late_by_its_instant_has_all_folded_again(folder: Path) -> None:
    with opened(folder) as fleet, closing(Pointsman(folder, clock=fleet.clock)) as other:
        other.decision_recorder.recorder()
        early = fleet.clock.now()
        fleet.clock.advance(seconds=60)
        tell(fleet, ModuleAptSet("r-2", "agent:a", Billionths(500_000_000), "by hand"))
        fleet.agency.live()
        kind, body = selfrep_payload(ModuleAptSet("r-1", "agent:a", Billionths(1), "before it"))
        other.decision_recorder.recorder().record(Draft(kind, "e-1", "r-1", early, body))
        found = fleet.agency.live().module("agent:a")
        assert found is not None
        assert found.apt == 500_000_000


@pytest.mark.req(68)
def test_changed_constants_rule_from_then_on_under_another_id(fleet: Fleet) -> None:
    before = fleet.agency.decide(fleet.job())
    changes = Raw(canonical_json({"max_attempts": 1}))
    tell(fleet, RouterConfigSet("r-1", changes))
    assert fleet.agency.in_force().policy.router_config.max_attempts == 1
    after = fleet.agency.decide(fleet.job())
    assert (
        after.router_snapshot_id == fleet.agency.in_force().policy_id != before.router_snapshot_id
    )


def test_an_event_that_cannot_be_taken_in_is_told_and_passed_over(fleet: Fleet) -> None:
    fleet.agency.record_selfrep()
    tell(fleet, ModuleStatusSet("r-1", "agent:gone", "offline", ""))
    tell(fleet, ModuleAptSet("r-2", "agent:a", Billionths(1), ""))
    (told,) = fleet.agency.problems
    assert "there is no module `agent:gone`" in told
    found = fleet.agency.live().module("agent:a")
    assert found is not None
    assert found.apt == 1


def test_what_the_agents_cannot_take_is_refused_when_asked_for(fleet: Fleet) -> None:
    wanted = ActionProposal("set_module_status", {"node_id": "agent:x", "status": "quarantined"})
    with pytest.raises(NotFound, match="no module `agent:x`"):
        fleet.pointsman.approvals.request(wanted, OPERATOR)


def test_an_approved_quarantine_takes_a_module_out(fleet: Fleet) -> None:
    wanted = ActionProposal("set_module_status", {"node_id": "agent:a", "status": "quarantined"})
    state = fleet.pointsman.approvals.request(wanted, OPERATOR)
    assert fleet.agency.decide(fleet.job()).outcome.selected_agent == "agent:a"
    assert fleet.approve(state.request.request_id) == "executed"
    assert fleet.agency.decide(fleet.job()).outcome.selected_agent == "agent:b"
    assert len(COUNCIL) == 3


def test_given_modules_are_frozen_with_what_was_filled_in(fleet: Fleet) -> None:
    kept = fleet.agency.record_selfrep(GivenSelfRep({"agent:z": GivenModule()}))
    assert "modules.agent:z.apt: default 0.5" in kept.warnings
    assert [each.node_id for each in fleet.agency.selfrep(kept.id).modules] == ["agent:z"]


PAIR = {
    "modules": {
        "agent:a": {"apt": "0.85", "status": "healthy"},
        "agent:b": {"apt": "0.8", "status": "healthy"},
        "memory:m": {"type": "memory", "apt": "1", "status": "healthy"},
    },
}


def test_a_first_success_never_puts_an_agent_behind_one_that_was_never_tried(
    tmp_path: Path,
) -> None:
    with opened(tmp_path, PAIR) as fleet:
        fleet.answers()
        statuses = []
        for number in range(3):
            before = {each.node_id: each.status for each in fleet.agency.live().modules}
            statuses.append((before["agent:a"], before["agent:b"], before["memory:m"]))
            fleet.run(job_id=f"job-{number}", job_seed=f"seed-{number}")
        assert [name for name, _ in fleet.called] == ["agent:a"] * 3
        assert statuses == [
            ("degraded", "degraded", "healthy"),
            ("degraded", "degraded", "healthy"),
            ("healthy", "degraded", "healthy"),
        ]


def test_a_record_that_the_file_tells_of_counts(tmp_path: Path) -> None:
    told = {"apt": "0.8", "status": "healthy", "metrics": {"total_calls": 2}}
    with opened(tmp_path, {"modules": {"agent:a": told}}) as fleet:
        assert fleet.agency.live().modules[0].status == "healthy"
