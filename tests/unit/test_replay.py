"""Replay of single decisions, with a room made for the test."""

import pytest
from msgspec import Raw, Struct
from tests.absent_texts import no_texts

from pointsman.errors import MissingSnapshot, UnknownDecision
from pointsman.kernel.canonical import Form, content_id
from pointsman.kernel.content import Sealed, Texts
from pointsman.kernel.instant import Instant
from pointsman.kernel.record import Aside, DecisionRecord, Names, decision_draft
from pointsman.kernel.replay import (
    Decided,
    Difference,
    PureDecider,
    Registry,
    Replayed,
    Replayer,
    Verdict,
    no_snapshots,
)


class Limit(Struct, frozen=True):
    most: int


class Count(Struct, frozen=True):
    value: int


class Result(Struct, frozen=True):
    passes: bool


def _decide(policy: Limit, facts: Count) -> Decided:
    return Decided(Form(Result).encode(Result(facts.value <= policy.most)), b"[]")


def _as_is(policy: Limit) -> Limit:
    return policy


def _as_stored(policy: Limit, facts: Count, texts: Texts) -> Count:
    return facts


DECIDER = PureDecider("branch", 1, (Form(Limit), Form(Count)), _as_is, _decide, _as_stored)
POLICY = Form(Limit).encode(Limit(5))
FACTS = Form(Count).encode(Count(3))


def _payload(outcome: bytes = b'{"passes":true}', version: int = 1) -> bytes:
    record = DecisionRecord(
        kind="branch",
        decision_version=version,
        policy_id=content_id(POLICY),
        facts_id=content_id(FACTS),
        snapshot_ids={},
        outcome=Raw(outcome),
        trace=Raw(b"[]"),
    )
    aside = Aside(1, "t", "", is_preview=False, product_version="0")
    return decision_draft(Names("d", "w", Instant(0)), record, aside, FACTS).payload


def _replayer(policies: dict[str, bytes]) -> Replayer:
    def policy(name: str) -> bytes:
        if name not in policies:
            raise MissingSnapshot("gone")
        return policies[name]

    return Replayer(Registry([DECIDER]), policy, no_texts)


REPLAYER = _replayer({content_id(POLICY): POLICY})


def test_the_same_bytes_are_identical() -> None:
    assert REPLAYER.replay("d", _payload(), FACTS) == Replayed("d", "branch", Verdict.IDENTICAL)


def test_other_bytes_are_a_divergence_shown_field_by_field() -> None:
    found = REPLAYER.replay("d", _payload(b'{"passes":false}'), FACTS)
    assert found.verdict is Verdict.DIVERGED
    assert found.code == "REPLAY_DIVERGENCE"
    assert found.differences == (Difference("outcome.passes", recorded=False, found=True),)


def test_a_policy_is_read_once_for_many_decisions() -> None:
    asked: list[str] = []

    def policy(name: str) -> bytes:
        asked.append(name)
        return POLICY

    replayer = Replayer(Registry([DECIDER]), policy, no_texts)
    for _ in range(3):
        assert replayer.replay("d", _payload(), FACTS).verdict is Verdict.IDENTICAL
    assert asked == [content_id(POLICY)]


@pytest.mark.parametrize(
    ("policies", "facts", "payload", "code"),
    [
        ({}, FACTS, _payload(), "MISSING_SNAPSHOT"),
        ({content_id(POLICY): POLICY}, None, _payload(), "MISSING_SNAPSHOT"),
        ({content_id(POLICY): b'{"most":9}'}, FACTS, _payload(), "INTEGRITY_FAILURE"),
        ({content_id(POLICY): POLICY}, b'{"value":4}', _payload(), "INTEGRITY_FAILURE"),
        ({content_id(POLICY): POLICY}, FACTS, b"{}", "INTEGRITY_FAILURE"),
        ({content_id(POLICY): POLICY}, FACTS, _payload(version=2), "UNKNOWN_DECISION"),
    ],
    ids=["no policy", "no facts", "policy changed", "facts changed", "payload", "version"],
)
def test_what_stands_in_the_way_is_told_not_raised(
    policies: dict[str, bytes], facts: bytes | None, payload: bytes, code: str
) -> None:
    found = _replayer(policies).replay("d", payload, facts)
    assert (found.verdict, found.code) == (Verdict.UNABLE, code)
    assert found.reason


def test_a_kind_nobody_registered_is_named() -> None:
    with pytest.raises(UnknownDecision, match="`turn` decisions of version 3"):
        Registry([DECIDER]).decider("turn", 3)


def test_texts_reach_the_room_that_opens_its_facts() -> None:
    class Said(Struct, frozen=True):
        text: str | Sealed

    def opened(_policy: Limit, facts: Said, texts: Texts) -> Said:
        return Said(texts(facts.text)) if isinstance(facts.text, Sealed) else facts

    def decide(_policy: Limit, facts: Said) -> Decided:
        assert isinstance(facts.text, str)
        return Decided(Form(Result).encode(Result(len(facts.text) == 2)), b"[]")

    decider = PureDecider("branch", 1, (Form(Limit), Form(Said)), _as_is, decide, opened)
    facts = Form(Said).encode(Said(Sealed("hmac-sha256:00", 2)))
    run = decider.under(POLICY)
    assert run(facts, lambda _seal: "hi").outcome == b'{"passes":true}'


def test_a_snapshot_that_is_not_at_hand_is_named() -> None:
    with pytest.raises(MissingSnapshot, match="sha256:gone"):
        no_snapshots("sha256:gone")
