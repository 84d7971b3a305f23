"""Ticks of a job's state: recorded, sealed, and what they wish for."""

from contextlib import closing
from typing import Any

import msgspec
import pytest
from tests.unit.agency.fleet import OPERATOR, Fleet, a_caller, wish
from tests.unit.agency.fleet_told import calls

from pointsman.brainstate.events import Insertion, TickInputs
from pointsman.errors import InputError
from pointsman.jobs.entries import TICK, TICK_FORM
from pointsman.kernel.content import Sealed
from pointsman.storage.stores.entries import ContentReader


def sealed_text(fleet: Fleet, seal: Sealed) -> Any:
    home = fleet.pointsman.home
    with closing(ContentReader(home.content, home.content_key())) as content:
        return msgspec.json.decode(content.text(seal))


@pytest.mark.req(350, 361, 390, 391)
def test_a_tick_is_an_entry_with_its_inputs_and_both_snapshots(fleet: Fleet) -> None:
    name = fleet.state()
    inputs = TickInputs(council_approval=True, wm=(Insertion("fact", '"x"'),))
    made = fleet.agency.tick(name, inputs, a_caller("trace-3"))
    (entry,) = fleet.entries(TICK)
    told = TICK_FORM.decode(entry.payload)
    assert (told.brainstate_before, told.brainstate_after) == (name, made.id)
    assert (told.trace_id, told.by, told.kinds) == ("trace-3", OPERATOR, ())
    assert sealed_text(fleet, told.sealed)["inputs"]["council_approval"] is True
    assert msgspec.json.decode(told.trace)["happenings"], "what happened is recorded in clear"
    assert fleet.agency.brainstate(made.id) == made.state
    assert fleet.agency.brainstate(name).tick == 0
    assert fleet.agency.tick(name, inputs).id == made.id


@pytest.mark.req(386)
def test_personal_data_in_inputs_is_sealed_not_written(fleet: Fleet) -> None:
    fleet.agency.tick(fleet.state(), TickInputs(wm=(Insertion("user_hint", '"jane@example.com"'),)))
    (entry,) = fleet.entries(TICK)
    told = TICK_FORM.decode(entry.payload)
    assert b"jane" not in entry.payload
    assert (told.kinds, bytes(told.trace)) == (("email",), b"null")
    assert sealed_text(fleet, told.sealed)["inputs"]["wm"][0]["value"] == '"jane@example.com"'


@pytest.mark.req(353, 354, 383, 384, 399)
def test_a_wish_becomes_a_request_and_is_done_only_after_the_council_agreed(fleet: Fleet) -> None:
    made = fleet.agency.tick(fleet.state(), wish(), a_caller())
    (name,) = made.action_requests
    state = fleet.pointsman.approvals.state(name)
    assert (state.status, state.request.requester) == ("pending", OPERATOR)
    assert (state.request.origin.source, state.request.origin.node_id) == ("brainstate", "agent:a")
    assert state.request.seeded_at is not None
    assert fleet.written() == 0
    assert fleet.approve(name) == "executed"
    assert fleet.written() == 1


def test_the_same_tick_asks_once_and_another_under_its_seed_asks_for_itself(fleet: Fleet) -> None:
    name = fleet.state()
    first = fleet.agency.tick(name, wish()).action_requests
    assert fleet.agency.tick(name, wish()).action_requests == first
    other = fleet.agency.tick(name, wish('{"key":"sea","namespace":"facts","value":2}'))
    assert other.action_requests != first
    assert len(fleet.pointsman.approvals.list_since()) == 2


def test_a_wish_that_cannot_be_asked_for_refuses_the_tick(fleet: Fleet) -> None:
    with pytest.raises(InputError):
        fleet.agency.tick(fleet.state(), wish('{"key":"sky"}'))
    assert fleet.entries(TICK) == []
    assert calls(fleet)[-1][0] == "brainstate.tick"


@pytest.mark.req(352)
def test_ticks_leave_the_modules_alone(fleet: Fleet) -> None:
    before = fleet.agency.live()
    fleet.agency.tick(fleet.state(), wish())
    assert fleet.agency.live() == before
