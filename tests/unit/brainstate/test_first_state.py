"""A job's first state: what is filled in, what is warned of, and how it is named."""

import hashlib
from decimal import Decimal

import msgspec
import pytest

from pointsman.brainstate.constants import (
    DEFAULTS,
    FRACTIONS,
    WRITTEN,
    Constants,
    DefaultUsed,
    GivenConstants,
    fill_defaults,
    read_constants,
)
from pointsman.brainstate.events import NewGoal
from pointsman.brainstate.journal import BASE, event_id, seeded_instant, wm_id
from pointsman.brainstate.reading import StartingAttention, create_state
from pointsman.brainstate.state import BRAINSTATE_FORM, EMPTY_CWM, BrainState, ResourceBudget
from pointsman.brainstate.view import constants_view
from pointsman.errors import IntegrityFailure
from pointsman.kernel.instant import instant_text
from pointsman.kernel.number import Billionths, billionths
from pointsman.kernel.signing import SigningKey

BUDGET = ResourceBudget(2048, 3)
ALL_SAID = StartingAttention(Billionths(1), Billionths(2), Billionths(3))
GOALS = (
    NewGoal("g", "answer", priority=billionths("0.8")),
    NewGoal("h", "plan", user_specified=billionths("1")),
)
EVERY_CONSTANT = {name: getattr(DEFAULTS, name) for name in Constants.__struct_fields__}


def _first(counter: int = 0) -> BrainState:
    state, _ = create_state("seed", GOALS, StartingAttention(), BUDGET, {}, counter)
    return state


@pytest.mark.req(371, 400)
def test_every_constant_that_is_not_given_is_written_in_with_a_warning() -> None:
    state, warnings = create_state("seed", (), ALL_SAID, BUDGET, {"a_gain": 7})
    assert state.constants == msgspec.structs.replace(DEFAULTS, a_gain=Billionths(7))
    assert state.warnings == warnings
    names = [each.name for each in warnings]
    assert "a_gain" not in names
    assert len(names) == len(Constants.__struct_fields__) - 2
    assert DefaultUsed("a_decay", "0.05") in warnings
    assert DefaultUsed("PROMOTION_WINDOW", "4") in warnings


@pytest.mark.req(400)
def test_nothing_is_warned_of_where_everything_is_given() -> None:
    goal = NewGoal("g", "answer", priority=Billionths(5))
    _, warnings = create_state("seed", (goal,), ALL_SAID, BUDGET, EVERY_CONSTANT)
    assert warnings == ()


@pytest.mark.req(400)
def test_attention_that_is_not_given_is_a_half_with_a_warning() -> None:
    state, warnings = create_state("seed", (), StartingAttention(), BUDGET, EVERY_CONSTANT)
    mind = state.attention
    assert mind.attention_gain == billionths("0.5")
    assert mind.explore_bias == billionths("0.15")
    assert mind.reward_signal == 0
    assert warnings == (
        DefaultUsed("attention.attention_gain", "0.5"),
        DefaultUsed("attention.explore_bias", "0.15"),
        DefaultUsed("attention.reward_signal", "0"),
    )


@pytest.mark.req(377, 400)
def test_half_a_priority_is_warned_of_by_the_goal() -> None:
    _, warnings = create_state("seed", GOALS, ALL_SAID, BUDGET, EVERY_CONSTANT)
    assert warnings == (DefaultUsed("goals.h.heuristic_score", "0.5"),)


@pytest.mark.req(389)
def test_a_first_state_has_goals_budget_constants_and_an_empty_memory() -> None:
    state = _first()
    assert (state.wm, state.cwm, state.recent_failures) == ((), EMPTY_CWM, ())
    assert (state.tick, state.tokens_consumed) == (0, 0)
    assert state.resource_budget == BUDGET
    assert [goal.goal_id for goal in state.goals] == ["g", "h"]
    assert [goal.status for goal in state.goals] == ["active", "active"]


@pytest.mark.req(357)
def test_ids_and_instants_come_from_the_seed_and_a_counter() -> None:
    state, later = _first(), _first(41)
    assert (state.brainstate_id, later.brainstate_id) == ("bs:seed:0", "bs:seed:41")
    assert instant_text(state.timestamp) == "2025-01-01T00:00:00.000000Z"
    assert instant_text(later.timestamp) == "2025-01-01T00:00:41.000000Z"
    made = [instant_text(goal.created_at)[17:19] for goal in later.goals]
    assert made == ["42", "43"]
    assert later.last_updated == later.goals[-1].created_at
    assert seeded_instant(later.sequence) > later.last_updated
    assert seeded_instant(0) == BASE


@pytest.mark.req(357)
def test_names_are_hashes_of_seed_and_counter() -> None:
    assert wm_id("s:1", 2) == hashlib.sha256(b"s:1:2").hexdigest()
    assert event_id("s", 12, "promotion") == hashlib.sha256(b"s:12:promotion").hexdigest()


@pytest.mark.req(389)
def test_a_snapshot_is_named_by_its_content_signed_and_verified() -> None:
    state, key = _first(), SigningKey(bytes(32))
    snapshot = BRAINSTATE_FORM.make(state, "ledger", key)
    assert snapshot.id == BRAINSTATE_FORM.id(state) == BRAINSTATE_FORM.id(_first())
    assert BRAINSTATE_FORM.id(_first(1)) != snapshot.id
    assert BRAINSTATE_FORM.load(snapshot, "ledger", [key]) == state
    broken = msgspec.structs.replace(
        snapshot, body=snapshot.body.replace(b'"max_depth_allowed":3', b'"max_depth_allowed":4')
    )
    with pytest.raises(IntegrityFailure):
        BRAINSTATE_FORM.load(broken, "ledger", [key])


def test_a_stored_state_without_a_constant_is_refused_not_filled_in() -> None:
    body = BRAINSTATE_FORM.form.encode(_first())
    with pytest.raises(IntegrityFailure):
        BRAINSTATE_FORM.form.decode(body.replace(b'"a_decay":50000000,', b""))


@pytest.mark.req(403)
def test_constants_given_under_their_written_names_are_read_exactly() -> None:
    given = GivenConstants(promotion_window=9, a_decay=Decimal("0.123456789"))
    assert read_constants(given) == {"promotion_window": 9, "a_decay": 123_456_789}
    constants, _ = fill_defaults(read_constants(given))
    assert read_constants(constants_view(constants)) == {
        name: getattr(constants, name) for name in Constants.__struct_fields__
    }


@pytest.mark.req(371)
def test_document_004_spells_its_constants_as_we_do() -> None:
    spelled = {
        "DEFAULT_WM_TTL", "PROMOTION_REFERENCES", "PROMOTION_WINDOW", "a_decay", "a_gain",
        "e_decay", "e_gain", "CONFIDENCE_THRESHOLD", "user_priority_weight",
        "system_priority_weight", "min_token_threshold",
    }  # fmt: skip
    assert spelled <= {*WRITTEN.values()}
    assert {*WRITTEN} == {*Constants.__struct_fields__}


@pytest.mark.req(363, 365, 369, 370, 373, 374, 376, 377, 379)
def test_the_defaults_are_those_of_document_004() -> None:
    texts = {each.name: each.value for each in fill_defaults({})[1]}
    wanted = {
        "DEFAULT_WM_TTL": "3", "PROMOTION_REFERENCES": "2", "PROMOTION_WINDOW": "4",
        "a_decay": "0.05", "a_gain": "0.25", "e_decay": "0.03", "e_gain": "0.15",
        "CONFIDENCE_THRESHOLD": "0.7", "max_attempts": "3", "preemption_margin": "0.2",
        "user_priority_weight": "0.8", "system_priority_weight": "0.2", "council_weight": "0.8",
        "user_weight": "0.2", "prefer_high_apt_at": "0.6", "allow_explore_at": "0.2",
        "quick_answer_below": "0.2", "cwm_budget_divisor": "4", "cwm_ttl": "10",
        "default_attention_gain": "0.5",
    }  # fmt: skip
    assert {name: texts[name] for name in wanted} == wanted
    assert len(FRACTIONS) == 18
