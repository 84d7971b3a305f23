"""Tables that rules name: which row takes a turn, what is refused, and what is proved of them."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec import UNSET
from tests.receipts.told import derived, told_turn
from tests.unit.test_review import KNOWN
from tests.unit.test_rule_expressions import CALM

from pointsman.branches.compiled import compile_policy as compile_decisions
from pointsman.branches.decide import decide as decide_branch
from pointsman.branches.facts import read_facts
from pointsman.branches.policy import BranchPolicy, branch_policy, definition_id
from pointsman.branches.policy import read_policy as read_decisions
from pointsman.errors import DocumentError
from pointsman.storage.home import BareFolder
from pointsman.storage.policies.policies import PolicyFiles
from pointsman.storage.policies.routing_tables import offer_table
from pointsman.testing import some_facts
from pointsman.turns.compiled import CompiledTurnPolicy, compile_policy
from pointsman.turns.decide import decide
from pointsman.turns.facts import CallerFacts, TurnFacts
from pointsman.turns.policy import POLICY_FORM, TurnPolicy, read_policy, turn_policy
from pointsman.turns.proofs.chain_formula import ChainFormula, Winner, world_of
from pointsman.turns.proofs.claims import Claim, ClaimedDecision, ClaimedTurns, Prover
from pointsman.turns.proofs.examples import winner_of
from pointsman.turns.proofs.similar_turns import SimilarTurns
from pointsman.turns.proofs.turn_variables import TurnVariables, is_met
from pointsman.turns.rules.fact_expression import FACT_NAMES, fact_values
from pointsman.turns.rules.review import Concern, review

HOME = "/home/me"
CONDITIONS = (
    "tenant == 'acme'",
    "estimated_input_tokens > 100",
    "has_images",
    "length(tool_names) > 1",
    "100 / estimated_input_tokens > 2",
)
TARGETS = ("acme:big", "acme:small", "own", "next_rule")


def table(*rows: Any, default: str = "next_rule", **changes: Any) -> dict[str, Any]:
    rules = [
        {"label": f"l{n}", "condition": condition, "target": target, **more}
        for n, (condition, target, more) in enumerate((*row, {})[:3] for row in rows)
    ]
    base = {"id": "t", "type": "rule_table", "hit_policy": "first", "rules": rules}
    return {**base, "default": {"target": default}, **changes}


def decision_of(given: dict[str, Any]) -> Any:
    text = json.dumps({"decision": given}).encode()
    return branch_policy([read_decisions(text, "t.yaml")]).decisions[0]


def policy_with(given: dict[str, Any], *rules: Any) -> TurnPolicy:
    tables = {"t": offer_table(decision_of(given))}
    own = {"name": "by table", "when": {}, "decide": "t"}
    routing = {"schema_version": 1, "global_default": "ollama:own", "rules": [own, *rules]}
    read = read_policy(json.dumps(routing).encode(), "routing.yaml", KNOWN, HOME, tables=tables)
    return turn_policy(read, KNOWN, HOME, tables)


def ready(given: dict[str, Any], *rules: Any) -> CompiledTurnPolicy:
    return compile_policy(policy_with(given, *rules))


def test_the_row_that_matched_is_in_the_trace_and_in_the_reason() -> None:
    given = ready(table(("has_images", "acme:small"), ("tenant == 'x'", "own")))
    slot = decide(given, some_facts(caller=CallerFacts(tenant="x"), tool_names=()))[1].chain[2]
    assert slot.candidate_model == "ollama:own"
    assert slot.reason == 'rule "by table" matched, row 2 (l1) of table t'
    assert (slot.table.row, slot.table.decision) == (1, "t")  # type: ignore[union-attr]


def test_a_row_that_passes_on_and_one_without_an_answer_say_so() -> None:
    given = ready(
        table(("1 / length(tool_names) > 0", "acme:small")),
        {"name": "next", "when": {}, "use": "acme:small"},
    )
    slot = decide(given, given.complete(some_facts()))[1].chain[2]
    assert slot.rule_name == "next"
    ((name, reason),) = [(each.rule_name, each.reason) for each in slot.passed_over or ()]
    assert name == "by table"
    assert "no row matched; row 1 has no answer: a division by zero" in reason


def test_a_rejected_model_of_a_row_is_told_with_its_row() -> None:
    given = ready(table(("has_images", "acme:big")))
    attempt = decide(given, some_facts(has_images=True))[1].chain[2].rule_attempts[0]
    assert (attempt.candidate_model, attempt.validation_failure) == (
        "acme:big", "no_vision_support",
    )  # fmt: skip
    assert attempt.table.row == 0  # type: ignore[union-attr]


def test_the_policy_names_the_decision_by_its_content() -> None:
    one, other = (policy_with(table((c, "own"))) for c in ("has_images", "not has_images"))
    made = decision_of(table(("has_images", "own")))
    assert one.rules[0].table.definition == definition_id(made)  # type: ignore[union-attr]
    assert POLICY_FORM.id(one) != POLICY_FORM.id(other)


def test_a_policy_without_tables_keeps_its_bytes() -> None:
    plain = b'{"schema_version": 1, "rules": [{"when": {}, "use": "ollama:own"}]}'
    policy = turn_policy(read_policy(plain, "routing.yaml", KNOWN, HOME), KNOWN, HOME)
    assert policy.rules[0].table is UNSET
    assert b'"table"' not in POLICY_FORM.form.encode(policy)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (table(("true", "own"), guardrails=[{"type": "requires_approval", "targets": ["own"]}]),
         "no guardrails or approval (requires_approval)"),
        (table(("true", "own"), hit_policy="collect"), "selects several targets"),
        (table(("customer == 'x'", "own")), "row 1: `customer` is not a declared variable"),
        (table(("true", "gpt")), "row 1: `gpt` is neither a model"),
        (table(("true", "next_rule")), "it names no model"),
        (table(("true", "own"), input="customer"), "input: `customer` is not a declared variable"),
        ({"id": "t", "type": "weighted", "input": "key_id", "default": {"target": "own"},
          "cases": [{"target": "own", "condition": "", "weight": 1}]}, "is a `split` of the rule"),
    ],
)  # fmt: skip
def test_a_table_that_cannot_choose_a_model_is_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(DocumentError) as refused:
        policy_with(given)
    assert says in refused.value.problems[0].message


def test_a_rule_that_names_no_decision_is_refused() -> None:
    text = b'{"schema_version": 1, "rules": [{"when": {}, "decide": "x"}]}'
    with pytest.raises(DocumentError, match="is no decision of decisions/"):
        read_policy(text, "routing.yaml", KNOWN, HOME)


def test_a_rule_covers_the_rules_behind_it_only_where_its_table_has_a_model_for_all() -> None:
    behind = {"name": "behind", "when": {"has_images": True}, "use": "acme:small"}
    total = table(("has_images", "acme:small"), default="own")
    for given, codes in ((total, [Concern.UNREACHABLE]), (table(("true", "own")), [])):
        assert [each.code for each in review(policy_with(given, behind))] == codes


def test_rows_that_no_turn_reaches_are_told() -> None:
    given = table(
        ("estimated_input_tokens > 100", "acme:small"),
        ("length(message) > 3", "own"),
        ("estimated_input_tokens > 500 and tenant == 'x'", "own"),
        ("tenant == 'x' and tenant == 'y'", "own"),
    )
    found = review(policy_with(given))
    assert [each.code for each in found] == [Concern.ROW, Concern.ROW]
    assert "row 1 of t takes every turn of row 3 (l2)" in found[0].message
    assert "row 4 (l3) of t asks for what cannot all be true" in found[1].message
    assert len(review(policy_with({**given, "hit_policy": "unique"}))) == 1


def test_proofs_read_a_table_row_by_row() -> None:
    never = Claim(when=ClaimedTurns(tenant_is="x", **CALM), never=ClaimedDecision(location="cloud"))
    for row, holds in (("tenant == 'x'", True), ("tenant != 'x' and has_images", False)):
        given = ready(table((row, "own"), ("length(message) > 3", "acme:small")))
        answer = Prover(given).answer(never)
        assert (answer.holds, answer.unknown) == (holds, "")


def drawn(random: Random) -> dict[str, Any]:
    hit = random.choice(["first", "unique", "any", "priority"])
    rows = []
    for _ in range(random.randint(1, 4)):
        more = {"priority": random.randint(0, 2)} if hit == "priority" else {}
        rows.append((random.choice(CONDITIONS), random.choice(TARGETS), more))
    rows.append(("has_system_prompt", "own", {"priority": 1} if hit == "priority" else {}))
    given = table(*rows, default=random.choice(TARGETS), hit_policy=hit)
    return {**given, "input": random.choice(["context", "tenant", "length(tool_names)"])}


def random_facts(random: Random) -> TurnFacts:
    return some_facts(
        caller=CallerFacts(tenant=random.choice(["acme", "x"])),
        estimated_input_tokens={"*": random.choice([0, 10, 101, 9000])},
        has_images=random.random() < 0.3,
        tool_names=tuple("abc"[: random.randint(0, 3)]),
    )


def formula_says(policy: CompiledTurnPolicy, facts: TurnFacts) -> Winner | None:
    """The winner of the formula of all turns for this one."""
    world = world_of([policy])
    variables = TurnVariables(facts)
    similar = SimilarTurns(variables, [*policy.models], None)
    chain = ChainFormula(policy, variables, world, similar)
    found = variables.least((), similar.changes())
    assert found is not None
    assert not any(is_met(found, each) for each in variables.changes().values())
    said = [winner for winner, literal in chain.wins.items() if is_met(found, literal)]
    assert len(said) + is_met(found, chain.no_model) == 1
    return said[0] if said else None


def test_a_table_chooses_what_its_decision_chooses_and_receipts_follow_it() -> None:
    random, seen = Random(3), set()
    for _ in range(80):
        given = drawn(random)
        decision = decision_of(given)
        branches = compile_decisions(BranchPolicy((decision,)))
        policy = ready(given)
        for _ in range(4):
            facts = random_facts(random)
            chooser = policy.scope(None).rules[0].chooser
            assert chooser is not None
            model, hit = chooser.choose(policy.look(facts), "*")
            context = fact_values(FACT_NAMES, policy.look(facts), "*")
            wanted, _ = decide_branch(branches, read_facts("t", context))
            (target,) = wanted.selected_targets
            assert (hit.row is None) is wanted.is_default
            assert hit.row is None or (hit.row,) == wanted.selected_indexes
            assert model == {"own": "ollama:own", "next_rule": None}.get(target, target)
            told = told_turn(policy, facts)
            assert derived(told) == told.decided
            assert formula_says(policy, facts) == winner_of(*decide(policy, facts))
            seen.add((decision.hit_policy, hit.row is None, model is None))
    assert len(seen) >= 12


def test_an_edited_decision_counts_from_the_next_turn_on(tmp_path: Path) -> None:
    (tmp_path / "decisions").mkdir()
    file = tmp_path / "decisions" / "t.yaml"
    local = "embedded:smollm2-135m"
    file.write_text(json.dumps({"decision": table(("has_images", local))}), "utf-8")
    (tmp_path / "routing.yaml").write_text(
        "schema_version: 1\nrules: [{name: r, when: {}, decide: t}]\n", "utf-8"
    )
    files = PolicyFiles(BareFolder(tmp_path), is_kept=False)
    first = files.in_force()
    assert first.problems == ()
    assert files.in_force() is first
    file.write_text(json.dumps({"decision": table(("not has_images", local))}), "utf-8")
    second = files.in_force()
    assert (second.problems, second.policy_id != first.policy_id) == ((), True)
    file.write_text(json.dumps({"decision": table(("customer", local))}), "utf-8")
    third = files.in_force()
    assert "`customer` is not a declared variable" in third.problems[0].message
    assert third.policy_id == second.policy_id
