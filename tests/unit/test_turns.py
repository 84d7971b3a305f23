"""The turns room: decide, explain, facts and the override token."""

from unicodedata import east_asian_width

import msgspec
import pytest
from tests.absent_texts import no_texts

from pointsman.kernel.columns import WIDTH
from pointsman.kernel.content import Sealed
from pointsman.kernel.instant import Instant
from pointsman.testing import a_policy, some_facts
from pointsman.turns.decide import DECIDER, decide
from pointsman.turns.explain import to_screen
from pointsman.turns.facts import FACTS_FORM, with_seal
from pointsman.turns.policy import POLICY_FORM, RoutingRule
from pointsman.turns.rules.condition import Condition
from pointsman.turns.trace import Banner, Evaluation, Shown, TurnOutcome, TurnTrace

SEAL = Sealed("hmac-sha256:" + "0" * 64, 5)
HEIGHT = 24


def _shown(outcome: TurnOutcome, trace: TurnTrace, **changes: object) -> Shown:
    shown = Shown(
        turn_id="01HZ",
        session_id="",
        decision_id="01HY",
        at=Instant(0),
        policy_id="sha256:" + "a" * 64,
        facts_id="sha256:" + "b" * 64,
        decision_version=1,
        is_preview=False,
        elapsed_us=80,
        outcome=outcome,
        trace=trace,
    )
    return msgspec.structs.replace(shown, **changes)


@pytest.mark.req(100)
def test_the_same_policy_and_facts_give_the_same_bytes() -> None:
    policy = POLICY_FORM.form.encode(a_policy().policy)
    facts = FACTS_FORM.encode(with_seal(some_facts(), SEAL))
    first, second = (DECIDER.under(policy)(facts, no_texts) for _ in range(2))
    assert first == second


@pytest.mark.req(119, 246, 247)
def test_the_chain_has_seven_slots_in_fixed_order() -> None:
    _, trace = decide(a_policy(), some_facts())
    assert [each.policy for each in trace.chain] == [
        "per_message_override",
        "manual_sticky",
        "rule",
        "pattern",
        "delegate_request",
        "workspace_default",
        "global_default",
    ]
    silent = trace.chain[:-1]
    assert {each.verdict for each in silent} == {"not_applicable"}
    assert all(each.candidate_model is None and each.reason for each in silent)


@pytest.mark.req(155, 156)
def test_hard_failure_names_what_was_tried_and_uses_no_other_model() -> None:
    outcome, _ = decide(
        a_policy("acme:a", "acme:a"), some_facts(availability={"acme": "unavailable"})
    )
    assert (outcome.chosen_model, outcome.winner_index) == ("", -1)
    assert outcome.banners == (
        Banner(
            "turns.no_model",
            "No model available for this turn. acme provider currently unavailable. Tried: acme:a"
            " (provider_unavailable). Other configured providers: embedded. Choose one with /model"
            " <id>, or see /rules check.",
        ),
    )


def test_hard_failure_says_that_a_provider_is_at_its_limit() -> None:
    outcome, _ = decide(
        a_policy("acme:a", "acme:a"), some_facts(availability={"acme": "rate_limited"})
    )
    assert outcome.banners[0].text.startswith(
        "No model available for this turn. acme is at its limit of requests or tokens a minute."
        " Tried: acme:a (provider_unavailable)."
    )


def test_a_policy_without_a_default_says_that_nothing_was_tried() -> None:
    outcome, trace = decide(a_policy(None), some_facts())
    assert trace.chain[-1].verdict == "not_applicable"
    assert "Tried: nothing." in outcome.banners[0].text


@pytest.mark.req(109)
def test_a_default_outside_the_registry_is_not_configured() -> None:
    _, trace = decide(a_policy("acme:gone"), some_facts())
    assert trace.chain[-1].validation_failure == "not_configured"


@pytest.mark.req(102, 254)
def test_the_why_screen_shows_turn_choice_and_numbered_chain_on_one_screen() -> None:
    shown = _shown(*decide(a_policy(), some_facts()), is_preview=True, session_id="sess_42")
    lines = to_screen(shown).splitlines()
    assert lines[0] == "Turn 01HZ · session sess_42 · 1970-01-01T00:00:00.000000Z · preview"
    assert lines[1] == "Chose: embedded:smollm2-135m   (global default)"
    assert lines[4] == "  [1] PER_MESSAGE_OVERRIDE   not_applicable  no @model token in message"
    assert lines[10] == "  [7] GLOBAL_DEFAULT         chose           embedded:smollm2-135m"
    assert len(lines) <= HEIGHT
    assert max(map(len, lines)) <= WIDTH


@pytest.mark.req(102)
def test_a_rejection_is_shown_with_its_cause() -> None:
    shown = _shown(*decide(a_policy(), some_facts(configured=())))
    screen = to_screen(shown)
    assert "Chose: no model" in screen
    assert "[not_configured]" in screen
    assert "No model available for this turn." in screen


def test_a_long_decision_is_told_whole_and_never_too_wide() -> None:
    chain = tuple(
        Evaluation(
            "rule",
            "rejected",
            f"p:{number}{'m' * 90}",
            f"because{number} " * 60,
            validation_failure="not_configured",
        )
        for number in range(30)
    )
    outcome = TurnOutcome("", -1, (Banner("x", "tried " * 90),))
    screen = to_screen(_shown(outcome, TurnTrace(chain)))
    lines = screen.splitlines()
    assert len(lines) > HEIGHT
    assert max(map(len, lines)) <= WIDTH
    assert [screen.count(f"because{n} ") + screen.count(f"because{n}\n") for n in range(30)] == (
        [60] * 30
    )
    assert screen.count("tried") == 90
    assert "…" not in screen


def test_text_from_outside_cannot_move_the_cursor_of_the_why_screen() -> None:
    chain = (Evaluation("rule", "chose", "p:m", "x", rule_name="\x1b[2J\u202e"),)
    screen = to_screen(_shown(TurnOutcome("p:\x1b[31m", 0, ()), TurnTrace(chain)))
    assert "\x1b" not in screen
    assert "\u202e" not in screen
    assert "\\u001b" in screen


def test_facts_are_recorded_sealed() -> None:
    stored = with_seal(some_facts("hello"), SEAL)
    assert b"hello" not in FACTS_FORM.encode(stored)
    assert FACTS_FORM.decode(FACTS_FORM.encode(stored)) == stored


@pytest.mark.req(151, 152)
def test_an_outage_has_a_banner_until_the_state_is_healthy_again() -> None:
    policy = a_policy(
        "acme:b", "acme:a", "acme:b", rules=(RoutingRule("r", Condition(), "acme:a"),)
    )
    during, _ = decide(policy, some_facts(availability={"acme:a": "unavailable"}))
    after, _ = decide(policy, some_facts(availability={"acme:a": "healthy"}))
    assert [each.code for each in during.banners] == ["turns.model_unavailable"]
    assert during.banners[0].text == (
        "acme:a currently unavailable. Routing fell through to acme:b."
    )
    assert (after.chosen_model, after.banners) == ("acme:a", ())


def test_a_limit_that_is_used_up_has_a_banner_of_its_own_words() -> None:
    policy = a_policy("b:b", "acme:a", "b:b", rules=(RoutingRule("r", Condition(), "acme:a"),))
    limited, _ = decide(policy, some_facts(availability={"acme": "rate_limited"}))
    tried, _ = decide(policy, some_facts(availability={"acme": "half_open"}))
    assert [each.code for each in limited.banners] == ["turns.provider_unavailable"]
    assert limited.banners[0].text == (
        "acme is at its limit of requests or tokens a minute."
        " Routing fell through to b:b (global default)."
    )
    assert (tried.chosen_model, tried.banners) == ("acme:a", ())


def _columns(line: str) -> int:
    return sum(2 if east_asian_width(char) in "WF" else 1 for char in line)


@pytest.mark.parametrize("letter", ["界", "é", "x", "\U0001f600"])
def test_no_line_is_wider_than_the_screen_in_any_script(letter: str) -> None:
    chain = (Evaluation("rule", "chose", "p:" + letter * 70, letter * 200, rule_name="r"),)
    screen = to_screen(_shown(TurnOutcome("p:" + letter * 90, 0, ()), TurnTrace(chain)))
    widths = [_columns(line) for line in screen.splitlines()]
    assert max(widths) <= WIDTH
    assert max(widths) >= WIDTH - 2
