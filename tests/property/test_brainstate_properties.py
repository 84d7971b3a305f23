"""What holds for every state and every input."""

import random
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from tests.models import brainstate_runs as runs

from pointsman.brainstate.constants import FRACTIONS
from pointsman.brainstate.events import INPUTS_FORM, TickInputs
from pointsman.brainstate.hints import HINTS_FORM, routing_hints
from pointsman.brainstate.state import BRAINSTATE_FORM, BrainState
from pointsman.brainstate.tick import insert_items, tick_state
from pointsman.brainstate.trace import TRACE_FORM, TickTrace
from pointsman.brainstate.view import JSON, state_view
from pointsman.kernel.document import DocumentLimits
from pointsman.kernel.number import ONE

ROOT = Path(__file__).parents[2]
SEEDS = range(10_000, 10_100)
REPLAYED = range(500)
LARGE = DocumentLimits(bytes=2**20)
PINNED = "a2935cd084267cb262dae29c2bd5e2e6557fadb7a222c7e6e87c7da64c641edd"

Tick = tuple[BrainState, TickInputs, BrainState, TickTrace]


@pytest.fixture(scope="module")
def ticks() -> list[Tick]:
    """Give many ticks: the state before, the inputs, the state after, the trace."""
    found: list[Tick] = []
    for seed in SEEDS:
        source = random.Random(seed)
        state = runs.first(source)
        for _ in range(runs.TICKS):
            inputs = runs.given_inputs(source, state)
            after, trace = tick_state(state, inputs)
            found.append((state, inputs, after, trace))
            state = after
    return found


@pytest.mark.req(358)
def test_modulators_and_priorities_stay_between_nothing_and_one(ticks: list[Tick]) -> None:
    for _, _, after, _ in ticks:
        mind = after.attention
        shares = [mind.attention_gain, mind.explore_bias, mind.reward_signal]
        shares += [goal.priority for goal in after.goals]
        assert all(0 <= share <= ONE for share in shares)


@pytest.mark.req(362)
def test_no_expired_item_is_in_memory(ticks: list[Tick]) -> None:
    for _, _, after, _ in ticks:
        assert all(item.ttl_ticks >= 1 for item in after.wm)
        assert all(after.tick - item.promoted_at_tick <= item.ttl_ticks for item in after.cwm.items)


@pytest.mark.req(356)
def test_working_memory_is_newest_first(ticks: list[Tick]) -> None:
    for _, _, after, _ in ticks:
        made = [item.created_at for item in after.wm]
        assert made == sorted(made, reverse=True)


@pytest.mark.req(367)
def test_consolidated_memory_keeps_within_its_share_of_the_budget(ticks: list[Tick]) -> None:
    for _, _, after, _ in ticks:
        most = after.resource_budget.token_budget // after.constants.cwm_budget_divisor
        assert after.cwm.tokens_used == sum(item.token_estimate for item in after.cwm.items) <= most


def test_no_two_items_in_memory_share_an_id(ticks: list[Tick]) -> None:
    for _, _, after, _ in ticks:
        names = [item.wm_id for item in (*after.wm, *after.cwm.items)]
        assert len({*names}) == len(names)


@pytest.mark.req(366)
def test_consolidated_memory_changes_only_by_promotion_new_goal_reference_or_expiry(
    ticks: list[Tick],
) -> None:
    causes = {"cwm_recomputed", "cwm_expired", "cwm_referenced"}
    kept = 0
    for before, _, after, trace in ticks:
        if not causes & {each.event_type for each in trace.happenings}:
            assert after.cwm is before.cwm
            kept += 1
    assert kept > 100


@pytest.mark.req(359, 371, 403)
def test_budget_constants_and_warnings_never_change(ticks: list[Tick]) -> None:
    for before, _, after, _ in ticks:
        assert after.resource_budget is before.resource_budget
        assert after.constants is before.constants
        assert after.warnings is before.warnings
        assert (after.brainstate_id, after.job_seed) == (before.brainstate_id, before.job_seed)


@pytest.mark.req(361)
def test_a_tick_leaves_the_state_it_was_given_as_it_was(ticks: list[Tick]) -> None:
    for before, inputs, after, trace in ticks[::7]:
        bytes_before = BRAINSTATE_FORM.form.encode(before)
        again, trace_again = tick_state(before, inputs)
        assert BRAINSTATE_FORM.form.encode(before) == bytes_before
        assert (again, trace_again) == (after, trace)


@pytest.mark.req(357)
def test_no_id_and_no_instant_is_given_twice(ticks: list[Tick]) -> None:
    for before, _, after, trace in ticks:
        names = [each.event_id for each in trace.happenings]
        instants = [each.timestamp_seeded for each in trace.happenings]
        assert len({*names}) == len(names)
        assert instants == sorted({*instants})
        assert not instants or before.last_updated < instants[0]
        assert after.last_updated > max(instants, default=before.last_updated)
        assert before.sequence < after.sequence


def test_no_id_made_here_is_promoted_twice(ticks: list[Tick]) -> None:
    seen: dict[str, set[str]] = {}
    for before, _, after, trace in ticks:
        if before.tick == 0:
            seen.pop(before.brainstate_id, None)
        ids = seen.setdefault(before.brainstate_id, set())
        leaving = [x.subject for x in trace.happenings if x.event_type == "promotion"]
        made = {each for each in leaving if len(each) == len(PINNED)}
        assert not ids & made
        assert not {*leaving} & {item.wm_id for item in after.wm}
        ids |= made


@pytest.mark.req(353, 360, 383, 399)
def test_a_wish_changes_nothing_but_the_trace(ticks: list[Tick]) -> None:
    wished = 0
    for before, inputs, after, trace in ticks:
        actions = [x for x in inputs.events if x.__struct_config__.tag == "action"]
        assert len(trace.wishes) == len(actions)
        if not actions:
            continue
        wished += 1
        others = tuple(x for x in inputs.events if x not in actions)
        without, _ = tick_state(before, msgspec.structs.replace(inputs, events=others))
        same = {"sequence": after.sequence, "last_updated": after.last_updated}
        assert msgspec.structs.replace(without, **same) == after
    assert wished > 20


@pytest.mark.req(355)
def test_every_state_is_shown_and_keeps_its_bytes(ticks: list[Tick]) -> None:
    for _, inputs, after, trace in ticks[::5]:
        shown = msgspec.json.decode(JSON.encode(state_view(after)))
        assert [each["goal_id"] for each in shown["goals"]] == [x.goal_id for x in after.goals]
        assert [each["wm_id"] for each in shown["WM"]] == [x.wm_id for x in after.wm]
        assert shown["CWM"]["tokens_used"] == after.cwm.tokens_used
        assert BRAINSTATE_FORM.form.decode(BRAINSTATE_FORM.form.encode(after)) == after
        assert INPUTS_FORM.decode(INPUTS_FORM.encode(inputs)) == inputs
        assert TRACE_FORM.decode(TRACE_FORM.encode(trace)) == trace
        assert HINTS_FORM.decode(HINTS_FORM.encode(routing_hints(after))) == routing_hints(after)


@pytest.mark.req(382)
def test_the_depth_never_exceeds_what_the_snapshot_allows(ticks: list[Tick]) -> None:
    for _, _, after, _ in ticks:
        hints = routing_hints(after)
        assert 0 <= hints.max_depth_allowed <= after.resource_budget.max_depth_allowed


def test_items_inserted_between_ticks_are_those_a_tick_would_insert(ticks: list[Tick]) -> None:
    for before, inputs, _, _ in ticks[::3]:
        between = insert_items(before, inputs.wm)
        within, _ = tick_state(before, TickInputs(wm=inputs.wm))
        names = {item.wm_id for item in between.wm}
        assert {item.wm_id for item in within.wm} <= names
        assert (between.tick, between.goals) == (before.tick, before.goals)


def test_every_fraction_among_the_constants_is_known_as_one() -> None:
    state = runs.first(random.Random(1))
    for name in FRACTIONS:
        assert 0 <= getattr(state.constants, name) <= ONE


@pytest.mark.slow
@pytest.mark.req(350, 390, 398)
def test_five_hundred_jobs_replay_byte_for_byte_from_their_records() -> None:
    assert not list(runs.differing(REPLAYED))


@pytest.mark.slow
@pytest.mark.req(350, 398)
def test_courses_are_byte_equal_across_processes_and_hash_seeds() -> None:
    script = Path(runs.__file__)
    found = {
        subprocess.run(
            [sys.executable, script, "0", "30"],
            env={"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            timeout=120,
        ).stdout
        for seed in ("0", "1", "4294967295")
    }
    assert found == {runs.digest(range(30)).encode()}


def test_the_digest_of_the_courses_is_pinned() -> None:
    # A change here is a change of outcome: it needs a new decision version.
    assert runs.digest(range(12)) == PINNED
