"""Placement policies made by hand: what a file could never say is still decided, and closed."""

import pytest
from msgspec.structs import replace
from tests.absent_texts import no_texts

from pointsman.kernel.instant import Instant
from pointsman.placement.compiled import compile_policy
from pointsman.placement.decide import DECIDER, decide
from pointsman.placement.facts import FACTS_FORM, CountedBy, Failed, LocalModel, PlacementFacts
from pointsman.placement.policy import BUILT_IN, POLICY_FORM, placement_policy
from pointsman.placement.rules.policy_rule import GivenPolicyCondition, GivenPolicyRule, exact_rules
from pointsman.placement.rules.table import INVARIANTS, Sensitive

FACTS = PlacementFacts(
    "q", "s", "hello", "auto", None, "", Instant(0), LocalModel("o:l", None, (), True), "c:m",
    "online", 5, CountedBy("given", False),
)  # fmt: skip
POLICY = placement_policy(BUILT_IN)


def test_a_table_with_a_gap_lets_nothing_through() -> None:
    outcome, trace = decide(compile_policy(replace(POLICY, rules=POLICY.rules[:2])), FACTS)
    assert (outcome.error_code, outcome.rule_id, outcome.gate) == (
        "E-ROUTE-001",
        "NO_RULE",
        "closed",
    )
    assert trace.steps[-1].outcome == "threw"


def test_a_failure_table_with_a_gap_lets_nothing_through() -> None:
    failed = replace(FACTS, failed=Failed("cloud", "AUTO_CLOUD", False))
    policy = replace(POLICY, failure_rules=POLICY.failure_rules[:2])
    outcome, _ = decide(compile_policy(policy), failed)
    assert (outcome.error_code, outcome.rule_id, outcome.gate) == (
        "E-ROUTE-001",
        "NO_RULE",
        "closed",
    )


@pytest.mark.req(97)
def test_what_means_the_same_has_one_name() -> None:
    shuffled = replace(
        BUILT_IN,
        invariants=INVARIANTS[::-1],
        sensitive=Sensitive(("secret", "iban", "secret")),
    )
    straight = replace(BUILT_IN, sensitive=Sensitive(("iban", "secret")))
    assert POLICY_FORM.id(placement_policy(shuffled)) == POLICY_FORM.id(placement_policy(straight))


def test_rules_are_asked_by_priority_then_id_and_disabled_ones_not_at_all() -> None:
    given = (
        GivenPolicyRule("b", "warn"),
        GivenPolicyRule("a", "warn", priority=200),
        GivenPolicyRule("c", "warn", enabled=False),
        GivenPolicyRule("a2", "warn", name="named"),
    )
    rules = exact_rules(given)
    assert [rule.id for rule in rules] == ["a2", "b", "a"]
    assert [rule.message for rule in rules] == ["named", "b", "a"]


def test_the_spellings_of_the_first_version_mean_the_same() -> None:
    old = GivenPolicyCondition("content", "notContains", "a")
    new = GivenPolicyCondition("content", "not_contains", "a")
    assert exact_rules((GivenPolicyRule("r", "forceLocal", (old,)),)) == exact_rules(
        (GivenPolicyRule("r", "force_local", (new,)),)
    )


def test_of_equal_actions_the_first_in_order_is_named() -> None:
    rules = exact_rules(
        (
            GivenPolicyRule("late", "force_local", priority=2, message="second"),
            GivenPolicyRule("early", "force_local", priority=1, message="first"),
            GivenPolicyRule("weak", "force_cloud", priority=0, message="weaker"),
        )
    )
    outcome, _ = decide(compile_policy(replace(POLICY, policy_rules=rules)), FACTS)
    assert outcome.reason == "policy rule `early`: first"


def test_prompts_and_warnings_are_all_kept_in_order() -> None:
    rules = exact_rules(
        (
            GivenPolicyRule("b", "require_confirmation", message="sure?"),
            GivenPolicyRule("a", "require_confirmation", message="really?"),
            GivenPolicyRule("c", "warn", message="careful"),
        )
    )
    outcome, trace = decide(compile_policy(replace(POLICY, policy_rules=rules)), FACTS)
    assert (trace.prompts, trace.warnings) == (("really?", "sure?"), ("careful",))
    assert (outcome.requires_confirmation, outcome.rule_id) == (True, "AUTO_LOCAL")


def test_a_policy_that_reads_no_text_is_replayed_without_it() -> None:
    stored = FACTS_FORM.encode(FACTS)
    decided = DECIDER.under(POLICY_FORM.form.encode(POLICY))(stored, no_texts)
    assert b'"rule_id":"AUTO_LOCAL"' in decided.outcome


def test_questions_of_other_sizes_on_one_side_of_the_limit_keep_their_own_count() -> None:
    compiled = compile_policy(POLICY)
    limit = POLICY.token_threshold
    for count in (0, 5, limit - 1, limit, limit + 1, limit + 900):
        _, trace = decide(compiled, replace(FACTS, token_count=count))
        assert trace.inputs.token_count == count
        assert trace.inputs.is_within_limit is (count <= limit)
