"""What is shown of a request, to whom."""

import json

import msgspec
import pytest
from tests.unit.governance.chamber import ANN, COUNCIL, Chamber

from pointsman.approvals.view import ActionFields, VoteFields, action_value, to_proposal
from pointsman.errors import DocumentError
from pointsman.kernel.document import Document
from pointsman.kernel.instant import SECOND
from pointsman.kernel.json_text import read_json
from pointsman.kernel.schema import conform

BODY = b"""{"action_type": "sem_write", "justification": "see ticket 12345678",
 "payload": {"namespace": "n", "key": "k", "value": {"share": 0.25}}, "window_s": 60}"""


def read(body: bytes) -> Document:
    return read_json(body, "the body")


def asked(chamber: Chamber) -> str:
    document = read(BODY)
    given = conform(document, ActionFields)
    assert isinstance(document.value, dict)
    wanted = to_proposal(given, document.value["payload"], "trace-1")
    assert (wanted.window, wanted.origin.trace_id) == (60 * SECOND, "trace-1")
    return chamber.approvals.request(wanted, ANN).request.request_id


def shown(chamber: Chamber, name: str, access: str) -> dict[str, object]:
    record = chamber.approvals.record(name)
    value = action_value(record, chamber.clock.now(), access)  # type: ignore[arg-type]
    return json.loads(msgspec.json.encode(value))  # type: ignore[no-any-return]


def test_a_full_view_has_the_payload_as_it_was_written(chamber: Chamber) -> None:
    name = asked(chamber)
    chamber.vote(chamber.approvals.state(name), COUNCIL[0])
    value = shown(chamber, name, "allowed")
    assert value["payload"] == {"namespace": "n", "key": "k", "value": {"share": 0.25}}
    assert value["requester_name"] == "ann"
    assert value["votes"] == [
        {"vote_id": chamber.entries("event.action.voted")[0].id, "member_id": "key-c0",
         "vote": "approve"}
    ]  # fmt: skip
    assert value["tally"] == {"approve": 1, "reject": 0, "abstain": 0, "needed": 3}


@pytest.mark.req(388)
def test_a_redacted_view_has_neither_payload_nor_names(chamber: Chamber) -> None:
    name = asked(chamber)
    chamber.vote(chamber.approvals.state(name), COUNCIL[0])
    value = shown(chamber, name, "redacted")
    assert (value["payload"], value["requester_name"], value["votes"]) == (None, None, [])
    assert value["justification"] == "see ticket [number]"
    assert value["payload_id"]
    assert value["status"] == "pending"


def test_a_view_tells_the_status_of_its_instant(chamber: Chamber) -> None:
    name = asked(chamber)
    chamber.clock.advance(seconds=60)
    assert shown(chamber, name, "allowed")["status"] == "expired"


@pytest.mark.parametrize(
    "body",
    [
        b'{"action_type": "make_coffee", "payload": {}}',
        b'{"action_type": "sem_write", "payload": {}, "requester": "the queen"}',
        b'{"action_type": "sem_write", "payload": {}, "window_s": 0}',
    ],
)
def test_a_body_names_no_requester_and_no_unknown_action(body: bytes) -> None:
    with pytest.raises(DocumentError):
        conform(read(body), ActionFields)


def test_a_vote_says_what_it_is_about() -> None:
    with pytest.raises(DocumentError):
        conform(read(b'{"vote": "approve"}'), VoteFields)
    with pytest.raises(DocumentError):
        conform(read(b'{"vote": "maybe", "action_hash": "sha256:0"}'), VoteFields)
