"""Decision records and what is linked to them."""

import pytest
from msgspec import Raw

from pointsman.errors import IntegrityFailure
from pointsman.kernel.canonical import content_id
from pointsman.kernel.instant import Instant
from pointsman.kernel.record import (
    Aside,
    DecisionRecord,
    Names,
    OutcomeRecord,
    decision_draft,
    outcome_draft,
    read_recorded,
)

FACTS = b'{"n":1}'
RECORD = DecisionRecord(
    kind="branch",
    decision_version=1,
    policy_id=content_id(b"{}"),
    facts_id=content_id(FACTS),
    snapshot_ids={"prices": content_id(b"[]")},
    outcome=Raw(b'{"target":"a"}'),
    trace=Raw(b"[]"),
)
ASIDE = Aside(
    elapsed_us=80, trace_id="t", session_id="s", is_preview=False, product_version="0.1.0"
)
NAMES = Names("d1", "w1", Instant(5))


def test_a_decision_is_recorded_with_its_facts_attached() -> None:
    draft = decision_draft(NAMES, RECORD, ASIDE, FACTS)
    assert (draft.kind, draft.id, draft.ref, draft.at) == ("decision.branch", "d1", "w1", 5)
    assert draft.attachments == (FACTS,)


def test_a_recorded_decision_reads_back_with_the_bytes_a_replay_compares() -> None:
    draft = decision_draft(NAMES, RECORD, ASIDE, FACTS)
    decision, record, aside = read_recorded(draft.payload)
    assert b'"outcome":{"target":"a"}' in decision
    assert (record.kind, record.facts_id, aside) == ("branch", RECORD.facts_id, ASIDE)


def test_elapsed_time_and_trace_id_stand_outside_the_replayed_bytes() -> None:
    other = Aside(elapsed_us=9, trace_id="u", session_id="", is_preview=True, product_version="9")
    first = read_recorded(decision_draft(NAMES, RECORD, ASIDE, FACTS).payload)[0]
    second = read_recorded(decision_draft(NAMES, RECORD, other, FACTS).payload)[0]
    assert first == second


def test_a_further_decision_about_the_same_thing_says_what_it_is() -> None:
    draft = decision_draft(NAMES, RECORD, ASIDE, FACTS, "fallback")
    assert (draft.kind, draft.ref) == ("decision.branch.fallback", "w1")
    assert draft.payload == decision_draft(NAMES, RECORD, ASIDE, FACTS).payload


def test_an_outcome_is_an_entry_of_its_own_linked_to_the_decision() -> None:
    names = Names("a1", "d1", Instant(6))
    outcome = outcome_draft(names, OutcomeRecord("done", Raw(b"{}")))
    assert (outcome.kind, outcome.ref) == ("outcome", "d1")
    assert outcome.payload == b'{"detail":{},"status":"done"}'


def test_a_payload_of_another_shape_is_an_integrity_failure() -> None:
    with pytest.raises(IntegrityFailure):
        read_recorded(b'{"decision":{"kind":"branch"},"aside":{}}')
