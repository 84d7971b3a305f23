"""Who sees and keeps what: finds give way to their kinds, raw values need a logged opt-in."""

import hashlib
import hmac
from decimal import Decimal

import msgspec
import pytest

from pointsman.brainstate.created import StartingAttention, created
from pointsman.brainstate.events import Inputs, Insertion, NewGoal, NodeFailed
from pointsman.brainstate.reading import canonical_text
from pointsman.brainstate.redaction import for_record, found_in, redacted_view
from pointsman.brainstate.snapshot import BRAINSTATE_FORM
from pointsman.brainstate.state import BrainState, ResourceBudget
from pointsman.brainstate.tick import inserted, ticked
from pointsman.brainstate.trace import TRACE_FORM
from pointsman.brainstate.view import JSON, shown
from pointsman.signals.detectors import detect

MAIL = "anna.muster@example.com"
IBAN = "DE89370400440532013000"
CARD = 4111111111111111
PASSWORD = "hV7!kq92Lm3x"
SECRETS = (MAIL, IBAN, str(CARD))


def _mac(data: bytes) -> str:
    return hmac.new(b"key", data, hashlib.sha256).hexdigest()


def _insertion(value: object, name: str | None = None) -> Insertion:
    return Insertion("fact", canonical_text(value), wm_id=name)


def _state() -> BrainState:
    goal = NewGoal(
        "g", "answer", deliverable=f"mail to {MAIL}",
        metadata=canonical_text({"who": {"iban": IBAN}, MAIL: 1, "plain": "kept"}),
    )  # fmt: skip
    state, _ = created("seed", (goal,), StartingAttention(), ResourceBudget(4000, 2), {})
    state = inserted(state, [_insertion(f"write to {MAIL}"), _insertion("plain fact")])
    wm = (_insertion(f"write to {MAIL}"), _insertion([CARD, {"x": [IBAN]}], MAIL))
    state, _ = ticked(state, Inputs(wm=wm, events=(NodeFailed("agent:a", f"no mail {MAIL}"),)))
    return state


@pytest.mark.req(388)
def test_a_redacted_view_holds_no_personal_data_anywhere() -> None:
    state = _state()
    full = JSON.encode(shown(state)).decode()
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
    assert view.attention == shown(state).attention
    assert view.constants == shown(state).constants
    assert view.cwm.topic == "redacted"
    assert view.wm[-1].wm_id == state.wm[-1].wm_id


@pytest.mark.req(388)
def test_a_view_without_finds_is_the_full_one() -> None:
    state = _state()
    assert redacted_view(state, lambda _: []) == shown(state)


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
def test_a_find_is_kept_as_digest_and_kinds_only() -> None:
    value = {"note": f"{MAIL} and {IBAN}"}
    kept = for_record(value, found_in(value, detect), is_opted_in=False, mac=_mac)
    assert kept.value is None
    assert kept.withheld is not None
    assert kept.kinds == kept.withheld.kinds == ("email", "iban")
    assert kept.withheld.digest == _mac(canonical_text(value).encode())
    written = msgspec.json.encode(kept).decode()
    assert MAIL not in written
    assert IBAN not in written


@pytest.mark.req(387)
def test_a_logged_opt_in_keeps_the_value_and_says_so() -> None:
    value = {"note": MAIL}
    kept = for_record(value, found_in(value, detect), is_opted_in=True, mac=_mac)
    assert kept.value == canonical_text(value)
    assert (kept.withheld, kept.kinds, kept.is_opted_in) == (None, ("email",), True)


@pytest.mark.req(386)
def test_a_value_without_a_find_is_kept_whole() -> None:
    value = {"note": "plain", "n": [1, Decimal("0.5"), True, None]}
    kept = for_record(value, found_in(value, detect), is_opted_in=False, mac=_mac)
    assert (kept.value, kept.withheld, kept.kinds) == (canonical_text(value), None, ())


@pytest.mark.req(386)
@pytest.mark.parametrize(
    "value", [MAIL, [MAIL], {"a": {"b": [MAIL]}}, {MAIL: 1}, CARD, [[CARD]], {"password": PASSWORD}]
)
def test_finds_are_looked_for_in_members_keys_numbers_and_the_whole(value: object) -> None:
    assert found_in(value, detect)  # type: ignore[arg-type]


@pytest.mark.req(386)
def test_traces_of_ticks_quote_no_value_and_no_reason() -> None:
    state, _ = created("seed", (), StartingAttention(), ResourceBudget(4000, 2), {})
    item = _insertion(f"write to {MAIL}")
    inputs = Inputs(wm=(item, item), events=(NodeFailed("agent:a", MAIL),))
    after, trace = ticked(state, inputs)
    assert "anna" in after.cwm.topic + after.cwm.items[0].value
    assert b"anna" not in TRACE_FORM.encode(trace)


@pytest.mark.req(388)
def test_what_is_secret_only_by_its_key_is_hidden_with_it() -> None:
    goal = NewGoal("g", "answer", metadata=canonical_text({"password": PASSWORD, "ok": True}))
    state, _ = created("seed", (goal,), StartingAttention(), ResourceBudget(4000, 2), {})
    state = inserted(state, [_insertion({"password": PASSWORD})])
    view = redacted_view(state, detect)
    assert view.goals[0].metadata == {"redacted": "[password_assignment]"}
    assert view.wm[0].value == "[password_assignment]"


def test_keys_hidden_alike_stay_apart() -> None:
    other = "otto.normal@example.com"
    goal = NewGoal("g", "answer", metadata=canonical_text({MAIL: 1, other: 2}))
    state, _ = created("seed", (goal,), StartingAttention(), ResourceBudget(4000, 2), {})
    metadata = redacted_view(state, detect).goals[0].metadata
    assert sorted(str(value) for value in metadata.values()) == ["1", "2"]
    assert all(key.startswith("[email]") for key in metadata)
