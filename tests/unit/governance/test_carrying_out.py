"""Approved requests are carried out once: races, deaths in between, stores that fail."""

import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.unit.governance.chamber import ANN, NOTE, ROOT, Chamber

from pointsman.agents.modules.event import SELFREP
from pointsman.app import Pointsman
from pointsman.errors import ActionRefused, PermissionDenied, SemWriteFail
from pointsman.governance.action import VOTE_WINDOW, ActionRefusal
from pointsman.governance.state import ActionState
from pointsman.testing import CountedIds, FrozenClock

MORTAL = Path(__file__).with_name("mortal.py")


def approved(
    chamber: Chamber, payload: object = NOTE, kind: str = "sem_write"
) -> ActionState:  # fmt: skip
    """Have a request approved, with nobody there to carry it out."""
    state = chamber.asked(payload, kind)  # type: ignore[arg-type]
    real = chamber.approvals._execute
    chamber.approvals._execute = lambda record, _by: record  # type: ignore[method-assign]
    try:
        return chamber.carried(state)
    finally:
        chamber.approvals._execute = real  # type: ignore[method-assign]


def raced(who: Pointsman, name: str, found: list[str], gate: threading.Barrier) -> None:
    gate.wait()
    try:
        found.append(who.approvals.execute(name, ROOT).status)
    except ActionRefused as error:
        found.append(error.reason)


def test_four_threads_on_two_chains_that_race_carry_it_out_once(chamber: Chamber) -> None:
    with Pointsman(chamber.path, clock=FrozenClock(), ids=CountedIds("other")) as second:
        for _ in range(20):
            name, before = approved(chamber).request.request_id, chamber.written()
            found: list[str] = []
            gate = threading.Barrier(4)
            threads = [
                threading.Thread(target=raced, args=(who, name, found, gate))
                for who in (chamber.pointsman, second) * 2
            ]
            for each in threads:
                each.start()
            for each in threads:
                each.join()
            assert sorted(found) == [ActionRefusal.OTHER_CLAIM] * 3 + ["executed"]
            assert chamber.written() == before + 1


@pytest.mark.parametrize(("point", "is_written"), [("before", False), ("after", True)])
def test_who_dies_between_claim_and_outcome_leaves_it_to_a_human(
    chamber: Chamber, point: str, is_written: bool
) -> None:
    state = approved(chamber)
    name = state.request.request_id
    words = [sys.executable, str(MORTAL), str(chamber.path), name, point]
    done = subprocess.run(words, check=False, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    left = chamber.approvals.state(name)
    assert left.status == "executing"
    assert (chamber.written() == 1) == is_written
    with pytest.raises(ActionRefused):
        chamber.approvals.execute(name, ROOT)
    assert chamber.approvals.resume_all() == [], "what was begun is not begun again by itself"
    chamber.clock.advance(microseconds=2 * VOTE_WINDOW)
    assert chamber.approvals.expire() == [], "time does not say what happened"
    with pytest.raises(PermissionDenied):
        chamber.approvals.settle(name, ANN, "again")
    assert chamber.approvals.settle(name, ROOT, "again").status == "executed"
    assert chamber.written() == 1, "done again is done once"


def test_what_was_left_open_can_be_written_off(chamber: Chamber) -> None:
    state = approved(chamber)
    name = state.request.request_id
    with pytest.raises(ActionRefused):
        chamber.approvals.settle(name, ROOT, "off")
    chamber.approvals.claim([name], ROOT, "lost")
    ended = chamber.approvals.settle(name, ROOT, "off", "nobody knows")
    assert (ended.status, ended.note) == ("failed", "written off: nobody knows")
    assert chamber.written() == 0


def test_a_store_that_fails_leaves_the_request_begun_and_not_failed(
    chamber: Chamber, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_args: object) -> None:
        raise SemWriteFail("the disk is full")

    monkeypatch.setattr("pointsman.approvals.effects.write_version", full)
    state = chamber.asked()
    with pytest.raises(SemWriteFail):
        chamber.carried(state)
    monkeypatch.undo()
    name = state.request.request_id
    assert chamber.approvals.state(name).status == "executing"
    assert chamber.approvals.settle(name, ROOT, "again").status == "executed"


def test_a_crash_before_the_claim_loses_nothing(chamber: Chamber) -> None:
    state = approved(chamber)
    (found,) = chamber.approvals.resume_all()
    assert (found.request.request_id, found.status) == (state.request.request_id, "executed")
    assert chamber.written() == 1
    assert chamber.approvals.resume_all() == []


def test_an_effect_that_is_carried_out_again_finds_what_it_did(chamber: Chamber) -> None:
    quarantine = {"node_id": "agent:a", "status": "quarantined"}
    for payload, kind in ((quarantine, "set_module_status"), (NOTE, "sem_write")):
        name = approved(chamber, payload, kind).request.request_id
        assert chamber.approvals.claim([name], ROOT, "mine")
        effects = chamber.pointsman.effects
        assert effects.carry_out(name, "mine") == effects.carry_out(name, "mine")
        assert chamber.approvals.settle(name, ROOT, "again").status == "executed"
    assert len(chamber.entries(SELFREP)) == 1
    assert chamber.written() == 1


@pytest.mark.req(360)
def test_no_effect_happens_without_a_claim_in_the_ledger(chamber: Chamber) -> None:
    effects, state = chamber.pointsman.effects, approved(chamber)
    name = state.request.request_id
    with pytest.raises(ActionRefused):
        effects.carry_out(name, "made up")
    assert chamber.approvals.claim([name], ROOT, "mine")
    with pytest.raises(ActionRefused):
        effects.carry_out(name, "made up")
    assert chamber.written() == 0


def test_claims_are_made_for_all_or_for_none(chamber: Chamber) -> None:
    ready, open_ = approved(chamber), chamber.asked()
    names = [ready.request.request_id, open_.request.request_id]
    assert not chamber.approvals.claim(names, ROOT, "mine")
    assert chamber.approvals.state(names[0]).status == "approved"
