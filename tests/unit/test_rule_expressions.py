"""Expressions over facts where a predicate stands: what they mean, and what is proved of them."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET
from tests.models.chain_model import EXPRESSIONS
from tests.unit.test_review import policy, rule

from pointsman.testing import some_facts
from pointsman.turns.compiled import compile_policy
from pointsman.turns.decide import decide
from pointsman.turns.explain import evaluation_value
from pointsman.turns.proofs.claims import Claim, ClaimedDecision, ClaimedTurns, Prover
from pointsman.turns.rules.condition import When, condition
from pointsman.turns.rules.fact_formula import expression_condition, lower_expressions
from pointsman.turns.rules.review import Concern, condition_text, review


def said(text: str, *, wanted: bool = True) -> str | None:
    found = expression_condition(text, wanted=wanted)
    return None if found is None else condition_text(found)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("estimated_input_tokens >= 10.5", "estimated_input_tokens_gt 10"),
        ("10 > estimated_input_tokens", "estimated_input_tokens_lt 10"),
        ("cost_today_usd >= 5", "cost_today_exceeds_usd 4.999999"),
        ("local_time < '06:30'", "time_of_day_between 00:00-06:30"),
        ("tenant in ['a', 'b']", 'tenant_is "a", "b"'),
        ("tool_names contains 'x'", 'tool_names_include "x"'),
        ("has_images == false", "has_images false"),
        ("not (has_images and agent != 'g')", '(has_images false or agent_is "g")'),
        ("agent == 'G'", "not (always)"),
        ("length(message) > 3", None),
        ("is_worker", None),
        ("team_budget_left_usd > 3", None),
    ],
)
def test_comparisons_are_said_again_in_predicates(text: str, says: str | None) -> None:
    assert said(text) == says


def test_what_an_expression_denies_for_certain_is_said_too() -> None:
    assert said("estimated_input_tokens > 10", wanted=False) == "estimated_input_tokens_lt 11"
    found = lower_expressions(condition(When(not_=When(expr="has_images"))))
    assert condition_text(found) == "not (not (has_images false))"


def test_most_expressions_of_the_naive_model_are_looked_into() -> None:
    assert sum(said(text) is not None for text in EXPRESSIONS) >= 15


def test_a_rule_without_an_answer_is_passed_over_and_says_why() -> None:
    ready = compile_policy(policy(rules=[
        rule("a", {"expr": "estimated_input_tokens / length(tool_names) > 3"}),
        rule("b", {"expr": "workspace_path starts_with '/w'", "has_images": True}),
        rule("c", {"expr": "true"}, "ollama:own"),
    ]))  # fmt: skip
    _, trace = decide(ready, ready.complete(some_facts()))
    slot = trace.chain[2]
    assert (slot.rule_name, slot.candidate_model) == ("c", "ollama:own")
    assert evaluation_value(slot)["passed_over"] == slot.passed_over
    ((name, reason),) = [(each.rule_name, each.reason) for each in slot.passed_over or ()]
    assert name == "a"
    assert reason.startswith("its expression has no answer: a division by zero")


def test_a_chain_in_which_every_expression_is_answered_keeps_its_bytes() -> None:
    ready = compile_policy(policy(rules=[rule("a", {"expr": "has_images"})]))
    _, trace = decide(ready, some_facts())
    assert trace.chain[2].passed_over is UNSET


def test_the_facts_that_expressions_read_are_gathered() -> None:
    ready = compile_policy(policy(rules=[
        rule("a", {"not": {"expr": "tenant == 'x' and message contains 'y'"}}),
        rule("b", {"expr": "length(tool_names) > 1"}),
    ]))  # fmt: skip
    assert (ready.asks_caller, ready.asks_tool_names, ready.reads_text) == (True, True, True)


def test_a_review_sees_through_an_expression() -> None:
    found = review(policy(rules=[
        rule("a", {"estimated_input_tokens_gt": 100}),
        rule("b", {"expr": "estimated_input_tokens > 200 and tenant == 'x'"}, "ollama:own"),
        rule("c", {"expr": "has_images and not has_images"}),
        rule("d", {"expr": "estimated_input_tokens >= 9000"}, "acme:small"),
    ]))  # fmt: skip
    assert [(each.code, each.rule_name) for each in found] == [
        (Concern.CONTRADICTION, "c"), (Concern.UNFIT, "d"),
        (Concern.SHADOWED, "b"), (Concern.SHADOWED, "d"),
    ]  # fmt: skip


def prove(claim: Claim, *rules: Any) -> tuple[bool, str]:
    answer = Prover(compile_policy(policy(rules=rules, global_default="ollama:own"))).answer(claim)
    return answer.holds, answer.unknown


CALM: dict[str, Any] = {"chosen_by_hand": False, "similar_turns": False, "delegate_tier": "none"}
CLOUD = ClaimedDecision(location="cloud")


def test_a_proof_looks_into_comparisons_and_takes_the_rest_for_open() -> None:
    never = Claim(when=ClaimedTurns(tenant_is="x", **CALM), never=CLOUD)
    assert prove(never, rule("a", {"expr": "tenant != 'x'"})) == (True, "")
    assert prove(never, rule("a", {"expr": "tenant != 'y'"})) == (False, "")
    # It may hold as far as the proof sees; the turn that is found does not bear it out.
    text = "tenant != 'x' and length(tenant) < 0 or length(tenant) > 7 and tenant == 'x'"
    assert prove(never, rule("a", {"expr": text})) == (False, f"not looked into: {text}")
    text = "length(message) > 3 and tenant != 'x'"
    assert prove(never, rule("a", {"expr": text})) == (True, "")
