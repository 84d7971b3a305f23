"""Who sees and keeps what: finds give way to their kinds, raw values need a logged opt-in."""

import pytest

from pointsman.brainstate.events import Insertion, NewGoal, NodeFailed, TickInputs
from pointsman.brainstate.reading import StartingAttention, canonical_text, create_state
from pointsman.brainstate.redaction import find_sensitive, redacted_view
from pointsman.brainstate.state import BRAINSTATE_FORM, BrainState, ResourceBudget
from pointsman.brainstate.tick import insert_items, tick_state
from pointsman.brainstate.trace import TRACE_FORM
from pointsman.brainstate.view import JSON, state_view
from pointsman.signals.detectors import detect

MAIL = "anna.muster@example.com"
IBAN = "DE89370400440532013000"
CARD = 4111111111111111
PASSWORD = "hV7!kq92Lm3x"
SECRETS = (MAIL, IBAN, str(CARD))


def _insertion(value: object, name: str | None = None) -> Insertion:
    return Insertion("fact", canonical_text(value), wm_id=name)


def _state() -> BrainState:
    goal = NewGoal(
        "g", "answer", deliverable=f"mail to {MAIL}",
        metadata=canonical_text({"who": {"iban": IBAN}, MAIL: 1, "plain": "kept"}),
    )  # fmt: skip
    state, _ = create_state("seed", (goal,), StartingAttention(), ResourceBudget(4000, 2), {})
    state = insert_items(state, [_insertion(f"write to {MAIL}"), _insertion("plain fact")])
    wm = (_insertion(f"write to {MAIL}"), _insertion([CARD, {"x": [IBAN]}], MAIL))
    state, _ = tick_state(
        state, TickInputs(wm=wm, events=(NodeFailed("agent:a", f"no mail {MAIL}"),))
    )
    return state


@pytest.mark.req(388)
def test_a_redacted_view_holds_no_personal_data_anywhere() -> None:
    state = _state()
    full = JSON.encode(state_view(state)).decode()
    view = JSON.encode(redacted_view(state, detect)).decode()
    for secret in SECRETS:
        assert secret in full
        assert secret not in view
    assert "anna" not in view
    assert "muster" not in view


@pytest.mark.req(388)
def test_a_redacted_view_keeps_what_is_not_personal() -> None:
    state = _state()
    view = redacted_view(state, detect)
    assert [item.value for item in view.wm][-1] == "plain fact"
    assert view.goals[0].metadata["plain"] == "kept"
    assert view.attention == state_view(state).attention
    assert view.constants == state_view(state).constants
    assert view.cwm.topic == "redacted"
    assert view.wm[-1].wm_id == state.wm[-1].wm_id


@pytest.mark.req(388)
def test_a_view_without_finds_is_the_full_one() -> None:
    state = _state()
    assert redacted_view(state, lambda _: []) == state_view(state)


@pytest.mark.req(390)
def test_redaction_leaves_the_stored_state_whole() -> None:
    state = _state()
    before = BRAINSTATE_FORM.form.encode(state)
    redacted_view(state, detect)
    assert BRAINSTATE_FORM.form.encode(state) == before


def test_a_detector_that_breaks_shows_nothing() -> None:
    def broken(_: str) -> list[object]:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        redacted_view(_state(), broken)  # type: ignore[arg-type]


@pytest.mark.req(386)
@pytest.mark.parametrize(
    "value", [MAIL, [MAIL], {"a": {"b": [MAIL]}}, {MAIL: 1}, CARD, [[CARD]], {"password": PASSWORD}]
)
def test_finds_are_looked_for_in_members_keys_numbers_and_the_whole(value: object) -> None:
    assert find_sensitive(value, detect)  # type: ignore[arg-type]


@pytest.mark.req(386)
def test_traces_of_ticks_quote_no_value_and_no_reason() -> None:
    state, _ = create_state("seed", (), StartingAttention(), ResourceBudget(4000, 2), {})
    item = _insertion(f"write to {MAIL}")
    inputs = TickInputs(wm=(item, item), events=(NodeFailed("agent:a", MAIL),))
    after, trace = tick_state(state, inputs)
    assert "anna" in after.cwm.topic + after.cwm.items[0].value
    assert b"anna" not in TRACE_FORM.encode(trace)


@pytest.mark.req(388)
def test_what_is_secret_only_by_its_key_is_hidden_with_it() -> None:
    goal = NewGoal("g", "answer", metadata=canonical_text({"password": PASSWORD, "ok": True}))
    state, _ = create_state("seed", (goal,), StartingAttention(), ResourceBudget(4000, 2), {})
    state = insert_items(state, [_insertion({"password": PASSWORD})])
    view = redacted_view(state, detect)
    assert view.goals[0].metadata == {"redacted": "[password_assignment]"}
    assert view.wm[0].value == "[password_assignment]"


def test_keys_hidden_alike_stay_apart() -> None:
    other = "otto.normal@example.com"
    goal = NewGoal("g", "answer", metadata=canonical_text({MAIL: 1, other: 2}))
    state, _ = create_state("seed", (goal,), StartingAttention(), ResourceBudget(4000, 2), {})
    metadata = redacted_view(state, detect).goals[0].metadata
    assert sorted(str(value) for value in metadata.values()) == ["1", "2"]
    assert all(key.startswith("[email]") for key in metadata)
