"""A shown state read back, at the bounds of what is allowed."""

from typing import Any

import pytest
from msgspec.structs import replace

from pointsman.brainstate.events import NOTHING, Insertion, NewGoal
from pointsman.brainstate.read_state import read_state
from pointsman.brainstate.reading import StartingAttention, create_state
from pointsman.brainstate.seeded import seeded_instant
from pointsman.brainstate.state import BrainState, ResourceBudget
from pointsman.brainstate.tick import insert_items, tick_state
from pointsman.brainstate.view import JSON, state_view
from pointsman.errors import DocumentError
from pointsman.kernel.instant import Instant
from pointsman.kernel.json_text import read_json
from pointsman.kernel.number import Billionths

ITEM = Insertion("fact", '"x"', ttl_ticks=9, token_estimate=25)


def _state(**changes: Any) -> BrainState:
    goal = NewGoal(
        "g", "answer", priority=Billionths(1), deadline_ts=Instant(5), metadata='{"a":"d:0.5"}'
    )
    state, _ = create_state("seed", (goal,), StartingAttention(), ResourceBudget(100, 3), {})
    state, _ = tick_state(insert_items(state, [ITEM, ITEM]), NOTHING)
    return replace(insert_items(state, [ITEM, Insertion("fact", '"y"')]), **changes)


def _read_back(state: BrainState) -> BrainState:
    return read_state(read_json(JSON.encode(state_view(state)), "state"))


@pytest.mark.req(355)
def test_a_state_between_two_ticks_with_a_full_memory_reads_back() -> None:
    state = _state()
    assert state.cwm.tokens_used == 25
    assert state.cwm.items[0].last_reference_tick == state.tick
    assert state.wm[0].created_at_tick == state.tick
    assert _read_back(state) == state


@pytest.mark.req(355)
def test_a_goal_with_everything_set_reads_back() -> None:
    goal = replace(
        _state().goals[0], status="paused", paused_because="preempted", is_delivered=True,
        final_confidence=Billionths(3), wm_ttl_ticks=4, attempts=1, repair_loops=2,
    )  # fmt: skip
    state = _state(goals=(goal,))
    assert _read_back(state) == state


@pytest.mark.req(357)
def test_an_item_made_at_the_next_free_counter_is_refused() -> None:
    state = _state()
    item = replace(state.wm[0], created_at=seeded_instant(state.sequence))
    with pytest.raises(DocumentError, match="made at or after"):
        _read_back(replace(state, wm=(item,)))
    last = replace(state.wm[0], created_at=seeded_instant(state.sequence - 1))
    assert _read_back(replace(state, wm=(last,))).wm == (last,)
