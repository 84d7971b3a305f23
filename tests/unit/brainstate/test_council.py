"""The council's rule-based vote: declared rules, one vote, always the same."""

import json
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from pointsman.errors import DocumentError
from pointsman.governance.council import (
    AXES,
    BUILT_IN,
    VOTE_FORM,
    AgentOutput,
    ConfidenceAtLeast,
    ContainsAny,
    ContainsNone,
    CouncilQuestion,
    CouncilRule,
    CouncilRules,
    CouncilVote,
    Delivers,
    EvidenceAtLeast,
    FindsNone,
    IsFinished,
    IsJson,
    LengthBetween,
    MentionsQuestion,
    RuleVoter,
    council_approval,
    passes_check,
    rule_problems,
)
from pointsman.kernel.json_text import read_json
from pointsman.kernel.number import ONE, billionths
from pointsman.kernel.schema import conform
from pointsman.signals.detectors import detect

QUESTION = CouncilQuestion("How large is the proton radius?", "answer")
GOOD = AgentOutput("agent:a", "The proton radius is 0.84 fm.", billionths("0.9"), "answer")


def _vote(output: AgentOutput = GOOD, rules: CouncilRules = BUILT_IN) -> CouncilVote:
    return RuleVoter(rules).vote("v1", QUESTION, output)


def _with(**changes: Any) -> AgentOutput:
    return msgspec.structs.replace(GOOD, **changes)


def test_a_good_output_is_approved_on_every_axis() -> None:
    vote = _vote()
    assert vote.approve
    assert [getattr(vote, axis) for axis in AXES] == [ONE] * 4
    assert vote.suggested_changes == ()
    assert vote.explain == (
        "approved: correctness 1, relevance 1, safety 1, coherence 1; every axis needs 0.7; "
        "broken: none"
    )


@pytest.mark.parametrize(
    ("changes", "axis", "rule"),
    [
        ({"confidence": billionths("0.699999999")}, "correctness", "`confident`"),
        ({"confidence": None}, "correctness", "`confident`"),
        ({"deliverable": "poem"}, "relevance", "`delivers`"),
        ({"found_kinds": ("email",)}, "safety", "`no_sensitive_data` (veto)"),
        ({"is_finished": False}, "coherence", "`finished` (veto)"),
        ({"error": "timeout"}, "coherence", "`finished` (veto)"),
        ({"text": " \n"}, "coherence", "`says_something` (veto)"),
    ],
)
def test_a_broken_rule_lowers_its_axis_rejects_and_suggests(
    changes: dict[str, Any], axis: str, rule: str
) -> None:
    vote = _vote(_with(**changes))
    assert not vote.approve
    assert getattr(vote, axis) < ONE
    assert [getattr(vote, each) for each in AXES if each != axis] == [ONE] * 3
    assert len(vote.suggested_changes) == 1
    assert vote.explain.startswith("rejected: ")
    assert vote.explain.endswith(f"broken: {rule}")


def test_what_a_detector_finds_rejects_an_output() -> None:
    text = "write to anna.muster@example.com"
    kinds = tuple(sorted({hit.kind for hit in detect(text)}))
    vote = _vote(_with(text=text, found_kinds=kinds))
    assert not vote.approve
    assert "anna" not in vote.explain


def test_a_veto_rejects_where_the_score_would_do() -> None:
    rules = CouncilRules(
        (
            CouncilRule("many", "safety", ContainsNone(("never",)), weight=9),
            CouncilRule("one", "safety", ContainsNone(("proton",)), is_veto=True),
        )
    )
    vote = _vote(rules=rules)
    assert (vote.safety, vote.approve) == (billionths("0.9"), False)
    plain = [msgspec.structs.replace(each, is_veto=False) for each in rules.rules]
    assert _vote(rules=CouncilRules(tuple(plain))).approve


def test_scores_are_weighed_exactly_and_compared_at_the_threshold() -> None:
    rules = tuple(
        CouncilRule(str(number), "relevance", ContainsAny((term,)))
        for number, term in enumerate(("proton", "RADIUS", "electron"))
    )
    at = CouncilRules(rules, approve_at=Decimal("0.666666667"))
    assert (_vote(rules=at).relevance, _vote(rules=at).approve) == (billionths("0.666666667"), True)
    assert not _vote(rules=CouncilRules(rules, approve_at=Decimal("0.666666668"))).approve


@pytest.mark.parametrize(
    ("check", "changes", "kept"),
    [
        (ConfidenceAtLeast(Decimal("0.9")), {}, True),
        (ConfidenceAtLeast(Decimal("0.900000001")), {}, False),
        (EvidenceAtLeast(Decimal("0.5")), {"claims": 3, "claims_with_evidence": 1}, False),
        (EvidenceAtLeast(Decimal("0.5")), {"claims": 2, "claims_with_evidence": 1}, True),
        (EvidenceAtLeast(Decimal(1)), {}, True),
        (MentionsQuestion(Decimal("0.6")), {}, True),
        (MentionsQuestion(Decimal("0.7")), {}, False),
        (MentionsQuestion(Decimal(1)), {"text": "LARGE, proton; Radius"}, True),
        (Delivers(), {"deliverable": ""}, False),
        (ContainsAny(("PROTON",)), {}, True),
        (ContainsAny(()), {}, False),
        (ContainsNone(("quark", "fm")), {}, False),
        (ContainsNone(("quark",)), {}, True),
        (FindsNone(("email",)), {"found_kinds": ("iban",)}, True),
        (FindsNone(("email", "iban")), {"found_kinds": ("iban",)}, False),
        (LengthBetween(0, 5), {}, False),
        (LengthBetween(3, 3), {"text": " abc\n"}, True),
        (IsFinished(), {}, True),
        (IsJson(), {}, False),
        (IsJson(), {"text": ' {"a": [1, null]} '}, True),
        (IsJson(), {"text": "[" * 100_000}, False),
        (IsJson(), {"text": "\ud800"}, False),
    ],
)
def test_a_check_is_kept_or_broken(check: Any, changes: dict[str, Any], *, kept: bool) -> None:
    assert passes_check(check, QUESTION, _with(**changes)) is kept


def test_a_question_without_long_words_is_mentioned_by_anything() -> None:
    assert passes_check(MentionsQuestion(Decimal(1)), CouncilQuestion("is it so?"), GOOD)


def test_words_of_four_letters_are_mentioned_and_shorter_ones_are_not_asked_for() -> None:
    assert not passes_check(MentionsQuestion(Decimal(1)), CouncilQuestion("the mass"), GOOD)
    assert passes_check(MentionsQuestion(Decimal(1)), CouncilQuestion("the sun"), GOOD)


def test_a_question_that_wants_no_deliverable_takes_any() -> None:
    assert passes_check(Delivers(), CouncilQuestion("x"), GOOD)


def test_without_rules_nothing_speaks_against_an_output() -> None:
    assert _vote(_with(text=""), CouncilRules(())).approve


def test_a_vote_has_the_same_bytes_every_time() -> None:
    first = VOTE_FORM.encode(RuleVoter().vote("v1", QUESTION, GOOD))
    assert VOTE_FORM.encode(RuleVoter().vote("v1", QUESTION, GOOD)) == first
    assert VOTE_FORM.decode(first) == _vote()


@pytest.mark.req(401)
def test_votes_come_to_an_approval_by_more_than_half_and_to_nothing_without_any() -> None:
    yes, no = _vote(), _vote(_with(text=""))
    assert council_approval([]) is None
    assert council_approval([yes]) is True
    assert council_approval([yes, no]) is False
    assert council_approval([yes, no, yes]) is True


def _read_rules(text: str) -> CouncilRules:
    return conform(read_json(text.encode(), "council"), CouncilRules, rule_problems)


def test_rules_are_read_from_json() -> None:
    text = (
        '{"approve_at": 0.80, "rules": [{"id": "a", "axis": "safety", "is_veto": true,'
        ' "check": {"check": "contains_none", "terms": ["x"]}, "suggestion": "no x"}]}'
    )
    rules = _read_rules(text)
    assert rules.rules[0].check == ContainsNone(("x",))
    assert rules.approve_at == Decimal("0.8")


def test_rules_with_mistakes_are_refused_all_at_once() -> None:
    length = {"check": "length_between", "min_chars": 5, "max_chars": 3}
    one = {"id": "a", "axis": "coherence", "check": length}
    text = json.dumps({"rules": [one, one]})
    with pytest.raises(DocumentError) as caught:
        _read_rules(text)
    assert [str(each.code) for each in caught.value.problems] == [
        "config.out_of_range",
        "config.invalid_value",
        "config.out_of_range",
    ]


@pytest.mark.parametrize(
    "rule",
    [
        {"id": "a", "axis": "beauty", "check": {"check": "finished"}},
        {"id": "a", "axis": "safety", "check": {"check": "feels_good"}},
        {"id": "a", "axis": "safety", "check": {"check": "finished", "mood": 1}},
        {"id": "a", "axis": "safety", "check": {"check": "finished"}, "weight": 0},
    ],
)
def test_a_rule_nobody_knows_is_refused(rule: dict[str, Any]) -> None:
    with pytest.raises(DocumentError):
        _read_rules(json.dumps({"rules": [rule]}))
