"""Personal data and secrets do not last: what is kept is their kind and a keyed digest."""

from contextlib import closing

import pytest
from tests.unit.governance.chamber import ANN, COUNCIL, QUORUM, Chamber

from pointsman.approvals.proposal import ActionProposal
from pointsman.errors import SemPrivate
from pointsman.governance.action import OptIn
from pointsman.kernel.document import Json
from pointsman.signals.withholding import Withholding

KEY = b"k" * 32
MAIL = "bob.miller@example.com"
CARD = "4111111111111111"


def kept(value: Json, seed: str = "seed", *, keeps: bool = False) -> Json:
    return Withholding(KEY, seed, keeps=keeps).value(value, "payload").value


@pytest.mark.req(386)
def test_a_field_with_personal_data_goes_by_kind_and_digest() -> None:
    found = Withholding(KEY, "seed").value({"who": f"write to {MAIL}", "n": 3}, "payload")
    assert isinstance(found.value, dict)
    said = found.value["who"]
    assert isinstance(said, str)
    assert said.startswith("[email hmac-sha256:")
    assert MAIL not in said
    assert found.value["n"] == 3
    (finding,) = found.found
    assert (finding.place, finding.kind, finding.is_kept) == ("payload.who", "pii.email", False)
    assert finding.reason
    assert MAIL not in finding.reason


def test_what_holds_nothing_stays_as_it_is() -> None:
    value: Json = {"a": [1, "two", None, True, {"b": "three"}]}
    assert kept(value) == value


@pytest.mark.parametrize(
    "value",
    [MAIL, [MAIL], {"a": {"b": [MAIL]}}, {MAIL: 1}, int(CARD), {"card": int(CARD)}, f"pay {CARD}"],
)
def test_nothing_hides_in_lists_keys_or_numbers(value: Json) -> None:
    text = repr(kept(value))
    assert MAIL not in text
    assert CARD not in text


def test_one_value_has_one_digest_in_a_job_and_another_in_another() -> None:
    assert kept(MAIL, "a") == kept(MAIL, "a") != kept(MAIL, "b")
    assert Withholding(b"x" * 32, "a").value(MAIL, "p").value != kept(MAIL, "a")


def test_the_seed_cannot_be_mistaken_for_part_of_the_value() -> None:
    one, other = "bob@example.co", "bob@example.com"
    assert Withholding(KEY, "mX")._digest(one) != Withholding(KEY, "X")._digest(other)


@pytest.mark.req(387)
def test_an_opt_in_keeps_it_and_says_that_it_did() -> None:
    found = Withholding(KEY, "seed", keeps=True).value(MAIL, "payload")
    assert found.value == MAIL
    assert [each.is_kept for each in found.found] == [True]


def test_a_detector_that_fails_lets_nothing_through() -> None:
    def broken(_text: str) -> tuple[()]:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        Withholding(KEY, find=broken).value("text", "payload")


@pytest.mark.req(386)
def test_no_byte_of_it_reaches_ledger_or_memory(chamber: Chamber) -> None:
    payload: Json = {"namespace": "people", "key": "b", "value": {"mail": MAIL, "card": int(CARD)}}
    wanted = ActionProposal("sem_write", payload, f"asked by {MAIL}", (f"mail of {MAIL}",))
    state = chamber.approvals.request(wanted, ANN)
    request = state.request
    for by in COUNCIL[:QUORUM]:
        said = f"told {MAIL}"
        chamber.approvals.vote(request.request_id, "approve", request.action_hash, by, said)
    assert chamber.approvals.state(request.request_id).status == "executed"
    assert {each.kind for each in request.found} == {"pii.email", "pii.payment_card"}
    chamber.close()
    for path in chamber.path.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert MAIL.encode() not in data, path
            assert CARD.encode() not in data, path


@pytest.mark.req(387)
def test_a_logged_opt_in_lets_it_be_kept(chamber: Chamber) -> None:
    payload: Json = {"namespace": "people", "key": "b", "value": MAIL}
    wanted = ActionProposal("sem_write", payload, opt_in="the user said so in the session")
    state = chamber.approvals.request(wanted, ANN)
    assert state.request.opt_in == OptIn(ANN, "the user said so in the session")
    assert [each.is_kept for each in state.request.found] == [True]
    assert b"the user said so" in chamber.entries("event.action.requested")[0].payload
    chamber.carried(state)
    with closing(chamber.memory()) as memory:
        assert memory.get("people", "b").value == f'"{MAIL}"'.encode()


def test_personal_data_does_not_name_what_an_action_is_about(chamber: Chamber) -> None:
    with pytest.raises(SemPrivate) as raised:
        chamber.asked({"namespace": "people", "key": MAIL, "value": 1})
    assert MAIL not in str(raised.value)
