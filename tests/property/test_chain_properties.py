"""What holds for every policy and every turn. Document 002 §10.2, and more of the same kind."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace
from tests.property.turns_drawn import SLOTS, Case, exact_facts, made_ready

from pointsman.errors import InputError
from pointsman.kernel.content import seal_text
from pointsman.turns.chain.override import split_override
from pointsman.turns.compiled import CompiledTurnPolicy
from pointsman.turns.decide import DECIDER, decide
from pointsman.turns.facts import FACTS_FORM, TurnFacts, with_seal
from pointsman.turns.policy import POLICY_FORM
from pointsman.turns.trace import OUTCOME_FORM, TRACE_FORM, TurnOutcome, TurnTrace

EXAMPLES = settings(max_examples=300, derandomize=True, deadline=None, database=None)
SEEDS = st.integers(0, 2**32)

# Zero-width characters, other at signs, and letters that look like Latin ones.
LOOKALIKES = [
    "\u200b",
    "\u200d",
    "\u2060",
    "\ufeff",
    "\u00ad",
    "\u202e",
    "\uff20",
    "\ufe6b",
    "\u043e",
    "\u0435",
    "\uff4f",
]
ALIASES = {"one": "p:a", "p:a": "p:a"}

TEXTS = st.text(max_size=40) | st.sampled_from(
    ["/commit now", "Größe", "SQL review", "\u017f\u212a"]
)
WORDS = st.text(min_size=1, max_size=6)
LISTS = WORDS | st.lists(WORDS, min_size=1, max_size=3)
PATTERNS = st.sampled_from(
    ["", "^$", "a|b", "(?i)sql", "[^a-z]+", ".*x", r"\bno\b", r"\pL", "(a*)*", "/commit|$"]
)
CLOCKS = st.builds("{:02d}:{:02d}".format, st.integers(0, 23), st.integers(0, 59))
TOKENS = st.integers(0, 2**53 - 1)
MONEY = st.decimals(0, 10**6, places=6).map(str)
LEAVES: dict[str, st.SearchStrategy[Any]] = {
    "message_matches": PATTERNS,
    "message_contains_any": LISTS,
    "estimated_input_tokens_gt": TOKENS,
    "estimated_input_tokens_lt": TOKENS,
    "has_images": st.booleans(),
    "has_tool_calls_in_history": st.booleans(),
    "skills_matching_message_includes": LISTS,
    "file_extensions_in_context": LISTS,
    "workspace_path_matches": PATTERNS,
    "time_of_day_between": st.lists(CLOCKS, min_size=2, max_size=2),
    "cost_today_exceeds_usd": MONEY,
}
LEAF = st.sampled_from(sorted(LEAVES)).flatmap(
    lambda name: st.fixed_dictionaries({name: LEAVES[name]})
)
TREES = st.recursive(
    LEAF | st.just({}),
    lambda inner: (
        st.fixed_dictionaries({"any_of": st.lists(inner, min_size=1, max_size=3)})
        | st.fixed_dictionaries({"all_of": st.lists(inner, min_size=1, max_size=3)})
        | st.fixed_dictionaries({"not": inner})
        | st.builds(lambda left, right: {**left, **right}, inner, inner)
    ),
    max_leaves=12,
)
FACTS = st.builds(
    TurnFacts,
    message=TEXTS,
    workspace_path=st.none() | st.text(max_size=12).map("/".__add__),
    has_images=st.booleans(),
    has_tool_calls_in_history=st.booleans(),
    estimated_input_tokens=st.dictionaries(st.sampled_from(["*", "p:a"]), TOKENS),
    skills_matching_message=st.lists(WORDS, max_size=2).map(tuple),
    file_extensions_in_context=st.lists(WORDS, max_size=2).map(tuple),
    local_minutes=st.integers(0, 1439),
    cost_today_microusd=TOKENS,
)


BEFORE = st.text(min_size=1, max_size=5) | st.sampled_from(LOOKALIKES)

STRATEGIES: dict[str, tuple[st.SearchStrategy[Any], ...]] = {
    "test_the_same_files_and_facts_always_give_the_same_bytes": (SEEDS,),
    "test_a_decision_replays_byte_for_byte_from_what_is_recorded": (SEEDS,),
    "test_any_tree_of_predicates_gives_true_or_false_and_never_raises": (TREES, FACTS),
    "test_no_slot_gets_a_model_past_privacy_permission_budget_or_an_outage": (SEEDS,),
    "test_a_model_that_nobody_names_and_that_is_down_changes_nothing": (SEEDS,),
    "test_what_the_pattern_store_says_changes_no_choice_made_above_it": (SEEDS,),
    "test_the_trace_holds_the_slots_that_ran_in_their_order": (SEEDS,),
    "test_an_alias_counts_only_from_the_first_character_of_the_message": (
        BEFORE,
        st.sampled_from(sorted(ALIASES)),
        TEXTS,
    ),
    "test_a_lookalike_within_the_token_makes_it_plain_text": (
        st.sampled_from(LOOKALIKES),
        st.integers(0, 4),
        TEXTS,
    ),
}
"""What each property is tried on, here and in `campaigns/properties.py`."""


def _examples(test: Any) -> Any:
    return EXAMPLES(given(*STRATEGIES[test.__name__])(test))


def _turn(seed: int) -> tuple[Case, dict[str, Any], TurnFacts]:
    """Give a random policy with facts whose message is not refused."""
    case = Case(seed)
    while True:
        facts = case.draw.facts(case.known)
        try:
            return case, facts, exact_facts(facts, case.ready)
        except InputError:
            continue


def _recorded(ready: CompiledTurnPolicy, facts: TurnFacts) -> tuple[bytes, bytes]:
    """Decide from recorded bytes alone."""
    stored = FACTS_FORM.encode(with_seal(facts, seal_text(str(facts.message), b"k" * 32)))
    policy = POLICY_FORM.form.encode(ready.policy)
    return tuple(DECIDER.under(policy)(stored, lambda _seal: str(facts.message)))


def _bytes(decided: tuple[TurnOutcome, TurnTrace]) -> tuple[bytes, bytes]:
    return OUTCOME_FORM.encode(decided[0]), TRACE_FORM.encode(decided[1])


@pytest.mark.req(100, 303)
@_examples
def test_the_same_files_and_facts_always_give_the_same_bytes(seed: int) -> None:
    case, given_facts, facts = _turn(seed)
    again = made_ready(case.models, case.routing)
    assert _bytes(decide(again, exact_facts(given_facts, again))) == _bytes(
        decide(case.ready, facts)
    )


@pytest.mark.req(100, 303)
@_examples
def test_a_decision_replays_byte_for_byte_from_what_is_recorded(seed: int) -> None:
    case, _, facts = _turn(seed)
    assert _recorded(case.ready, facts) == _bytes(decide(case.ready, facts))


@pytest.mark.req(182, 304)
@_examples
def test_any_tree_of_predicates_gives_true_or_false_and_never_raises(
    when: dict[str, Any], facts: TurnFacts
) -> None:
    models = {
        "schema_version": 1,
        "providers": {"p": {"kind": "openai"}},
        "models": {"p:a": {"location": "cloud", "capabilities": {"supports_images": True}}},
    }
    rules = [
        {"name": "it", "when": when, "use": "p:a"},
        {"name": "not it", "when": {"not": when}, "use": "p:a"},
    ]
    ready = made_ready(models, {"schema_version": 1, "rules": rules})
    said = [rule.matches(ready.look(facts)) for rule in ready.scope(None).rules]
    assert said in ([True, False], [False, True])
    outcome, trace = decide(ready, facts)
    assert trace.chain[2].rule_name == ("it" if said[0] else "not it")
    assert outcome.chosen_model == "p:a"


@pytest.mark.req(109, 156)
@_examples
def test_no_slot_gets_a_model_past_privacy_permission_budget_or_an_outage(seed: int) -> None:
    case, given_facts, facts = _turn(seed)
    chosen = decide(case.ready, facts)[0].chosen_model
    if not chosen:
        return
    model = case.ready.models[chosen]
    assert facts.privacy_level != "local" or model.location == "local"
    assert facts.network_state != "offline" or model.location == "local"
    assert facts.allowed_models is None or chosen in facts.allowed_models
    assert facts.configured is None or chosen in facts.configured
    assert chosen not in facts.excluded_models
    states = {facts.availability.get(name) for name in (chosen, chosen.partition(":")[0])}
    assert states.isdisjoint({"unavailable", "rate_limited"})
    if any(Decimal(each["left_usd"]) <= 0 for each in given_facts.get("budgets", [])):
        assert model.price is not None
        # Without a price there is nothing to overdraw, nor where nothing is asked for at it.
        assert (model.price.input or 0) * facts.tokens_for(chosen) == 0
        assert (model.price.output or 0) * (facts.asked_output != 0) == 0


@pytest.mark.req(104)
@_examples
def test_a_model_that_nobody_names_and_that_is_down_changes_nothing(seed: int) -> None:
    case, _, facts = _turn(seed)
    more = {**case.models["models"], "p:new": {"location": "cloud", "aliases": ["new"]}}
    ready = made_ready({**case.models, "models": more}, case.routing)
    down = replace(facts, availability={**facts.availability, "p:new": "unavailable"})
    assert decide(ready, down)[1] == decide(case.ready, facts)[1]


@pytest.mark.req(103, 196)
@_examples
def test_what_the_pattern_store_says_changes_no_choice_made_above_it(seed: int) -> None:
    case, _, facts = _turn(seed)
    silent, _ = decide(case.ready, replace(facts, pattern_rows=()))
    spoken, trace = decide(case.ready, facts)
    if 0 <= silent.winner_index < SLOTS.index("pattern"):
        assert (spoken.chosen_model, spoken.winner_index) == (
            silent.chosen_model,
            silent.winner_index,
        )
    if spoken.chosen_model and trace.chain[spoken.winner_index].policy == "pattern":
        assert trace.chain[SLOTS.index("rule")].verdict != "chose"


@pytest.mark.req(119, 245, 247, 292)
@_examples
def test_the_trace_holds_the_slots_that_ran_in_their_order(seed: int) -> None:
    case, _, facts = _turn(seed)
    outcome, trace = decide(case.ready, facts)
    said = [each.policy for each in trace.chain]
    assert said == SLOTS[: len(said)]
    winners = [n for n, each in enumerate(trace.chain) if each.verdict == "chose"]
    assert winners == ([outcome.winner_index] if outcome.winner_index >= 0 else [])
    if not winners:
        assert outcome.chosen_model == ""
        is_named = facts.named_model is not UNSET and not facts.is_worker
        is_tier = not is_named and trace.chain[4].verdict == "rejected"
        assert len(said) == (2 if is_named else 5 if is_tier else 7)
    else:
        assert trace.chain[outcome.winner_index].candidate_model == outcome.chosen_model
        shadow = said[outcome.winner_index + 1 :]
        is_shown = case.routing.get("trace_deferred") != "off"
        assert shadow == (["pattern"] if said[winners[0]] == "rule" and is_shown else [])
    for each in trace.chain:
        assert each.reason
        assert (each.verdict == "deferred") == (
            each.policy == "pattern" and winners == [2] and each.candidate_model is not None
        )
        assert each.verdict != "not_applicable" or each.candidate_model is None


@pytest.mark.req(271, 274)
@_examples
def test_an_alias_counts_only_from_the_first_character_of_the_message(
    before: str, alias: str, text: str
) -> None:
    assume(before[0] != "@")
    message = f"{before}@{alias} {text}"
    override, rest = split_override(message, ALIASES)
    assert override is None
    assert rest == (message[1:] if message.startswith("\\@") else message)


@pytest.mark.req(271)
@_examples
def test_a_lookalike_within_the_token_makes_it_plain_text(mark: str, at: int, text: str) -> None:
    token = "@one"
    message = f"{token[:at]}{mark}{token[at:]} {text}"
    assert split_override(message, ALIASES) == (None, message)


def test_random_turns_reach_the_vetoes_that_dominate() -> None:
    reached = set()
    for seed in range(150):
        case, _, facts = _turn(seed)
        chain = decide(case.ready, facts)[1].chain
        reached |= {each.validation_failure for each in chain}
    assert reached >= {"privacy_blocked", "not_permitted", "over_budget", "provider_unavailable"}
