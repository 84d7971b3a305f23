"""What a review warns of, what it leaves alone, and what the proof about privacy says."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from pointsman.testing import some_facts
from pointsman.turns.compiled import compile_policy
from pointsman.turns.decide import decide
from pointsman.turns.facts import Override
from pointsman.turns.learning.pattern_row import PatternRow
from pointsman.turns.policy import RoutingRule, TurnPolicy, Workspace, read_policy, turn_policy
from pointsman.turns.registry.models import Model, read_models, registry
from pointsman.turns.rules.condition import Condition, TimeWindow
from pointsman.turns.rules.review import MOST_COMPARED, Concern, condition_text, local_proof, review

MODELS = b"""
schema_version: 1
providers: {acme: {kind: openai}, ollama: {kind: ollama}}
models:
  acme:big:
    {location: cloud, tier: deep, price: {input: 3, output: 15}, aliases: [big],
     capabilities: {supports_images: false}}
  acme:small: {location: cloud, capabilities: {max_context_tokens: 8000}}
  ollama:own: {location: local, tier: balanced, aliases: [own]}
"""
KNOWN = registry(read_models(MODELS, "models.yaml"), lambda _name: None)


def policy(**routing: Any) -> TurnPolicy:
    text = msgspec.json.encode({"schema_version": 1, **routing})
    return turn_policy(read_policy(text, "routing.yaml", KNOWN, "/home/me"), KNOWN, "/home/me")


def rule(name: str, when: Any, use: str = "acme:big") -> dict[str, Any]:
    return {"name": name, "when": when, "use": use}


def found(*rules: Any, **routing: Any) -> list[tuple[Concern, str | None, str | None]]:
    return [(each.code, each.rule_name, each.by) for each in review(policy(rules=rules, **routing))]


def test_rules_that_have_nothing_to_do_with_each_other_give_no_warning() -> None:
    assert found(rule("a", {"message_matches": "x"}), rule("b", {"message_matches": "y"})) == []


@pytest.mark.parametrize(
    "always",
    [
        {},
        {"all_of": [{}]},
        {"any_of": [{"has_images": True}, {}]},
        {"time_of_day_between": ["08:00", "08:00"]},
        {"not": {"estimated_input_tokens_lt": 0}},
    ],
)
def test_a_rule_behind_one_that_always_matches_is_unreachable(always: Any) -> None:
    rules = (
        rule("a", {"has_images": False}),
        rule("all", always),
        rule("b", {"message_matches": "y"}),
    )
    assert found(*rules) == [(Concern.UNREACHABLE, "b", "all")]


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ({"message_matches": "x"}, {"message_matches": "x"}),
        ({"message_matches": "x"}, {"message_matches": "x", "has_images": False}),
        ({"message_matches": "x"}, {"all_of": [{"all_of": [{"message_matches": "x"}]}]}),
        ({"any_of": [{"message_matches": "x"}]}, {"message_matches": "x"}),
        ({"not": {"not": {"message_matches": "x"}}}, {"message_matches": "x"}),
        (
            {"any_of": [{"message_matches": "x"}, {"message_matches": "y"}]},
            {
                "any_of": [{"message_matches": "y"}, {"message_matches": "x"}],
                "has_images": False,
            },
        ),
        ({"estimated_input_tokens_gt": 10}, {"estimated_input_tokens_gt": 20}),
        ({"estimated_input_tokens_lt": 20}, {"estimated_input_tokens_lt": 10}),
        ({"cost_today_exceeds_usd": 5}, {"cost_today_exceeds_usd": "7.50"}),
        ({"message_contains_any": ["Fix", "bug"]}, {"message_contains_any": "fix"}),
        ({"time_of_day_between": ["22:00", "06:00"]}, {"time_of_day_between": ["23:00", "05:00"]}),
    ],
)
def test_a_rule_is_shadowed_when_an_earlier_one_asks_for_no_more(earlier: Any, later: Any) -> None:
    assert found(rule("a", earlier), rule("b", later)) == [(Concern.SHADOWED, "b", "a")]


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ({"message_matches": "x", "has_images": False}, {"message_matches": "x"}),
        ({"estimated_input_tokens_gt": 20}, {"estimated_input_tokens_gt": 10}),
        ({"message_contains_any": ["fix"]}, {"message_contains_any": ["fix", "bug"]}),
        (
            {"skills_matching_message_includes": ["SQL"]},
            {"skills_matching_message_includes": "sql"},
        ),
        ({"time_of_day_between": ["09:00", "17:00"]}, {"time_of_day_between": ["08:00", "10:00"]}),
        ({"has_images": False}, {"has_images": True, "message_matches": "x"}),
        ({"key_is": ["ci"]}, {"key_is": ["ci", "bob"]}),
        ({"team_budget_remaining_lt": 5}, {"team_budget_remaining_lt": 6}),
    ],
)
def test_a_rule_that_can_match_alone_is_not_shadowed(earlier: Any, later: Any) -> None:
    codes = [code for code, _, _ in found(rule("a", earlier), rule("b", later))]
    assert Concern.SHADOWED not in codes


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ({"team_budget_remaining_lt": 6}, {"team_budget_remaining_lt": 5}),
        ({"key_is": ["ci", "bob"]}, {"key_is": "bob", "tenant_is": "acme"}),
        ({"agent_is": "Aider"}, {"agent_is": "aider"}),
        ({"tool_names_include": ["shell", "look"]}, {"tool_names_include": "look"}),
    ],
)
def test_a_longer_list_and_a_higher_limit_ask_for_less(earlier: Any, later: Any) -> None:
    team = [{"name": "team", "limit_usd": 50, "each": "tenant"}]
    rules = rule("a", earlier, "ollama:own"), rule("b", later, "ollama:own")
    found = [each for each in review(policy(rules=rules, budgets=team)) if each.rule_name]
    assert [(each.code, each.rule_name) for each in found] == [(Concern.SHADOWED, "b")]


def test_two_keys_of_a_rule_may_be_the_name_and_the_id_of_one() -> None:
    assert found(rule("a", {"key_is": "ci", "all_of": [{"key_is": "k7"}]})) == []


def test_a_rule_about_a_tenants_budget_needs_one() -> None:
    asked = rule("a", {"any_of": [{"team_budget_remaining_lt": 5}]}, "ollama:own")
    assert found(asked) == [(Concern.CONTRADICTION, "a", None)]
    day = [{"name": "day", "limit_usd": 5}]
    codes = [code for code, _, _ in found(asked, budgets=day)]
    assert Concern.CONTRADICTION in codes


def test_a_condition_is_told_in_the_words_of_the_file() -> None:
    asked = {"team_budget_remaining_lt": 5, "agent_is": "Aider", "cost_today_exceeds_usd": 2}
    (made,) = policy(rules=[rule("a", asked)]).rules
    assert condition_text(made.when) == (
        'agent_is "aider" and cost_today_exceeds_usd 2 and team_budget_remaining_lt 5'
    )


def test_a_fallback_rule_is_told_when_it_acts() -> None:
    asked = {"message_matches": "architecture"}
    same = review(policy(rules=[rule("a", asked), rule("b", asked)]))
    other = review(policy(rules=[rule("a", asked), rule("b", asked, "ollama:own")]))
    assert same[0].message.endswith("`b` uses the same model and changes nothing")
    assert other[0].message.endswith("`b` acts only when acme:big is rejected")


def test_the_first_rule_in_the_way_is_named() -> None:
    rules = [rule(name, {"message_matches": "x"}) for name in "abc"]
    assert found(*rules) == [
        (Concern.SHADOWED, "b", "a"),
        (Concern.SHADOWED, "c", "a"),
    ]


@pytest.mark.parametrize(
    "asked",
    [
        {"estimated_input_tokens_gt": 10, "estimated_input_tokens_lt": 11},
        {"estimated_input_tokens_lt": 0},
        {"all_of": [{"has_images": True}, {"has_images": False}]},
        {"all_of": [{"has_tool_calls_in_history": True}, {"has_tool_calls_in_history": False}]},
        {
            "all_of": [
                {"time_of_day_between": ["08:00", "12:00"]},
                {"time_of_day_between": ["12:00", "18:00"]},
            ]
        },
        {"message_matches": "x", "not": {"message_matches": "x"}},
        {"tenant_is": ["a", "b"], "all_of": [{"tenant_is": "c"}]},
        {"agent_is": "Aider", "not": {"agent_is": ["aider", "codex"]}},
        {"not": {}},
        {"cost_today_exceeds_usd": 9, "not": {"cost_today_exceeds_usd": 5}},
        {
            "any_of": [
                {"estimated_input_tokens_lt": 0},
                {"estimated_input_tokens_lt": 0, "has_images": False},
            ]
        },
    ],
)
def test_a_rule_that_can_never_match_is_told_and_is_in_nobodys_way(asked: Any) -> None:
    rules = rule("never", asked, "ollama:own"), rule("b", {"message_matches": "y"})
    assert found(*rules) == [(Concern.CONTRADICTION, "never", None)]


def test_one_token_count_between_two_limits_is_enough() -> None:
    asked = {"estimated_input_tokens_gt": 10, "estimated_input_tokens_lt": 12}
    assert found(rule("a", asked)) == []


def test_a_model_that_cannot_take_what_its_rule_is_for_is_told() -> None:
    assert found(
        rule("pictures", {"has_images": True}),
        rule("long", {"estimated_input_tokens_gt": 8000}, "acme:small"),
        rule("short", {"estimated_input_tokens_gt": 7999}, "acme:small"),
    ) == [(Concern.UNFIT, "pictures", None), (Concern.UNFIT, "long", None)]


def split(name: str, when: Any, *models: str) -> dict[str, Any]:
    return {"name": name, "when": when, "split": dict.fromkeys(models, 1)}


def test_every_model_of_a_split_is_looked_at() -> None:
    pictures = split("pictures", {"has_images": True}, "own", "big")
    assert found(pictures) == [(Concern.UNFIT, "pictures", None)]
    proof = local_proof(policy(rules=[pictures], global_default="ollama:own"))
    named = [each.model for each in proof.reachable if each.slot == "rule"]
    assert (proof.holds, named) == (True, ["ollama:own"])
    bare = local_proof(policy(global_default="ollama:own")).explanation
    assert (bare[:6], proof.explanation[:6]) == ("8 of 8", "9 of 9")


def test_a_rule_behind_a_split_for_every_turn_is_unreachable_and_no_list_of_defaults() -> None:
    rules = split("all", {}, "big", "own"), rule("b", {}, "ollama:own")
    assert found(*rules) == [(Concern.UNREACHABLE, "b", "all")]
    told = review(policy(rules=rules))[0].message
    assert told.endswith("`b` acts only when acme:big or ollama:own is rejected")


def test_workspace_rules_come_before_global_ones() -> None:
    own = {"rules": [rule("own", {}, "ollama:own")]}
    findings = review(policy(rules=[rule("a", {"message_matches": "x"})], workspaces={"/w": own}))
    assert [(each.workspace, each.rule_name, each.by) for each in findings] == [("/w", "a", "own")]


def test_global_pairs_are_told_once_however_many_workspaces_there_are() -> None:
    rules = rule("a", {"message_matches": "x"}), rule("b", {"message_matches": "x"})
    spaces = {f"/w{number}": {"default": "acme:big"} for number in range(3)}
    assert found(*rules, workspaces=spaces) == [(Concern.SHADOWED, "b", "a")]


def test_budgets_need_prices_and_a_default_that_is_free() -> None:
    budgets = [{"name": "day", "limit_usd": 5}]
    codes = [code for code, _, _ in found(budgets=budgets, global_default="acme:big")]
    assert codes == [Concern.UNPRICED, Concern.NOT_FREE]
    assert [code for code, _, _ in found(budgets=budgets)] == [Concern.UNPRICED]
    assert found(global_default="acme:small") == []


@pytest.mark.parametrize(("rate", "is_free"), [("0", True), ("0.5", False)])
def test_a_default_whose_cache_writes_cost_is_not_free(rate: str, is_free: bool) -> None:
    price = {"input": "0", "output": "0", "cache_write": rate}
    models = {"schema_version": 1, "models": {"acme:own": {"location": "cloud", "price": price}},
              "providers": {"acme": {"kind": "openai"}}}  # fmt: skip
    known = registry(read_models(msgspec.json.encode(models), "models.yaml"), lambda _name: None)
    budgets = [{"name": "day", "limit_usd": 5}]
    text = msgspec.json.encode(
        {"schema_version": 1, "budgets": budgets, "global_default": "acme:own"}
    )
    asked = turn_policy(read_policy(text, "routing.yaml", known, "/"), known, "/")
    assert [each.code for each in review(asked)] == ([] if is_free else [Concern.NOT_FREE])


def test_a_tier_without_a_model_matters_only_to_those_who_delegate() -> None:
    models = {name: model for name, model in KNOWN.items() if model.tier != "balanced"}
    tiers = {tier: name for tier, name in policy().tiers.items() if tier != "balanced"}
    bare = replace(policy(), models=models, tiers=tiers)
    assert review(bare) == ()
    can = replace(models["acme:big"], can_delegate=True)
    findings = review(replace(bare, models={**models, "acme:big": can}))
    assert [each.code for each in findings] == [Concern.NO_TIER_MODEL]
    assert "`balanced`" in findings[0].message


def test_five_thousand_rules_are_reviewed() -> None:
    rules = tuple(
        RoutingRule(f"r{n}", Condition(message_matches=f"x{n}", has_images=False), "acme:big")
        for n in range(5_000)
    )
    last = RoutingRule("last", Condition(message_matches="x7", has_images=False), "ollama:own")
    findings = review(replace(policy(), rules=(*rules, last)))
    assert [(each.rule_name, each.by) for each in findings] == [("last", "r7")]


def test_deep_nesting_costs_no_more_than_its_size() -> None:
    asked = Condition(message_matches="x")
    for level in range(28):
        asked = Condition(message_matches=f"x{level}", not_=asked)
    assert review(replace(policy(), rules=(RoutingRule("deep", asked, "acme:big"),))) == ()


def test_only_the_first_rules_are_compared_where_limits_alone_differ() -> None:
    rules = tuple(
        RoutingRule(f"r{n}", Condition(estimated_input_tokens_gt=9_000 - n), "acme:big")
        for n in range(2 * MOST_COMPARED)
    )
    first, last = (
        RoutingRule(name, Condition(estimated_input_tokens_gt=tokens), "acme:big")
        for name, tokens in (("seen", 9_000), ("missed", 9_000 - MOST_COMPARED))
    )
    findings = review(replace(policy(), rules=(*rules, first, last)))
    assert [(each.rule_name, each.by) for each in findings] == [("seen", "r0")]


def test_a_condition_reads_as_one_line() -> None:
    window = {"time_of_day_between": ["22:00", "06:00"]}
    asked = policy(
        rules=[
            rule(
                "a", {"message_matches": 'a"b', "any_of": [window, {"not": {"has_images": True}}]}
            ),
            rule("b", {"cost_today_exceeds_usd": "5.50", "file_extensions_in_context": ".SQL"}),
            rule("c", {"all_of": [{"estimated_input_tokens_gt": 9}]}),
            rule("d", {}),
        ]
    )
    assert [condition_text(each.when) for each in asked.rules] == [
        'message_matches "a\\"b" and (time_of_day_between 22:00-06:00 or not (has_images true))',
        'file_extensions_in_context ".sql" and cost_today_exceeds_usd 5.5',
        "estimated_input_tokens_gt 9",
        "always",
    ]


def test_no_cloud_model_is_reachable_when_a_turn_must_stay_local() -> None:
    proof = local_proof(
        policy(
            global_default="acme:big",
            tiers={"fast": "acme:small"},
            rules=[rule("a", {}, "acme:big"), rule("b", {}, "ollama:own")],
            workspaces={"/w": {"default": "acme:small"}},
        )
    )
    assert proof.holds
    assert {KNOWN[each.model].location for each in proof.reachable} == {"local"}
    assert {each.slot for each in proof.reachable} == {
        "per_message_override", "manual_sticky", "rule", "pattern", "delegate_request",
        "global_default",
    }  # fmt: skip
    assert proof.explanation.endswith(
        "such turns fall back on ollama:own (local model for what must stay)"
    )


def test_the_proof_says_what_serves_turns_that_must_stay_local() -> None:
    assert local_proof(policy()).explanation.endswith(
        "such turns fall back on embedded:smollm2-135m (global default)"
    )
    cloud = local_proof(policy(global_default=["acme:big", "acme:small"])).explanation
    assert cloud.endswith("such turns fall back on ollama:own (local model for what must stay)")


def test_a_second_rule_for_every_turn_is_told_as_a_second_choice() -> None:
    found = review(policy(rules=[rule("a", {}, "acme:big"), rule("b", {}, "acme:small")]))
    assert [(each.code, each.rule_name, each.by) for each in found] == [
        (Concern.SECOND_CHOICE, "b", "a")
    ]
    assert found[0].message.endswith("`global_default: [acme:big, acme:small]` says the same")


def test_a_registry_without_local_models_leaves_nothing_reachable() -> None:
    cloud = {"acme:big": KNOWN["acme:big"]}
    proof = local_proof(replace(policy(global_default="acme:big"), models=cloud, tiers={}))
    assert (proof.holds, proof.reachable) == (True, ())


NAMES = st.sampled_from(sorted(KNOWN))
TIMES = st.integers(0, 1439)
CONDITIONS = st.one_of(
    st.builds(Condition),
    st.builds(Condition, has_images=st.booleans()),
    st.builds(Condition, estimated_input_tokens_gt=st.integers(0, 5)),
    st.builds(Condition, time_of_day_between=st.builds(TimeWindow, TIMES, TIMES)),
)
RULES = st.lists(st.tuples(CONDITIONS, NAMES), max_size=4).map(
    lambda pairs: tuple(RoutingRule(f"r{n}", when, use) for n, (when, use) in enumerate(pairs))
)
ANY_MODEL = st.builds(
    Model, st.sampled_from(["local", "cloud"]), tier=st.sampled_from([None, "deep"])
)
MODELS_BY_NAME = st.fixed_dictionaries(dict.fromkeys(KNOWN, ANY_MODEL))
POLICIES = st.builds(
    lambda rules, own, default, space, models: replace(
        policy(),
        rules=rules,
        global_default=default,
        models=models,
        workspaces=(Workspace("/w", space, None, None, tuple(replace(r, name="o") for r in own)),),
    ),
    RULES, RULES, st.none() | NAMES, st.none() | NAMES, MODELS_BY_NAME,
)  # fmt: skip
FACTS = st.builds(
    some_facts,
    override=st.none() | st.builds(Override, st.just("x"), NAMES),
    sticky_model=st.none() | NAMES,
    workspace_path=st.sampled_from([None, "/w"]),
    is_worker=st.booleans(),
    local_minutes=TIMES,
    delegate_tier=st.sampled_from([None, "fast", "balanced", "deep"]),
    excluded_models=st.lists(NAMES, max_size=2).map(tuple),
    pattern_rows=st.lists(
        st.builds(
            PatternRow,
            st.just("f"), NAMES, st.just(10**9), st.just(0), st.just(9), st.just(10**9),
        ),
        max_size=2,
    ).map(tuple),
    privacy_level=st.just("local"),
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(POLICIES, FACTS)
def test_what_is_chosen_for_a_turn_that_must_stay_local_was_proved_reachable(
    any_policy: TurnPolicy, facts: Any
) -> None:
    proof = local_proof(any_policy)
    outcome, trace = decide(compile_policy(any_policy), facts)
    assert proof.holds
    if outcome.chosen_model:
        won = trace.chain[outcome.winner_index]
        assert (won.policy, won.candidate_model) in {(e.slot, e.model) for e in proof.reachable}
        assert any_policy.models[outcome.chosen_model].location == "local"


@settings(max_examples=200, deadline=None)
@given(POLICIES, FACTS)
def test_a_rule_that_never_matches_by_the_review_never_wins(
    any_policy: TurnPolicy, facts: Any
) -> None:
    never = {e.rule_name for e in review(any_policy) if e.code == Concern.CONTRADICTION}
    _, trace = decide(compile_policy(any_policy), replace(facts, privacy_level="auto"))
    assert not never & {each.rule_name for each in trace.chain}
