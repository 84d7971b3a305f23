"""What a review finds, and that every example shows what it is said to show."""

import random
from decimal import Decimal
from typing import Any

import pytest

from pointsman.branches.compiled import compile_policy
from pointsman.branches.decide import decide
from pointsman.branches.facts import read_facts
from pointsman.branches.policy import BranchPolicy, branch_policy, read_document
from pointsman.branches.rules import cells
from pointsman.branches.rules.review import BranchConcern, BranchFinding, review
from pointsman.branches.rules.table import Table
from pointsman.kernel.document import Document

SHOWN = {BranchConcern.SHADOWED, BranchConcern.OVERLAP, BranchConcern.CONFLICT, BranchConcern.GAP}


def a_table(*conditions: str, **fields: Any) -> BranchPolicy:
    rules = [{"condition": text, "target": f"t{n}", "label": f"r{n}"}
             for n, text in enumerate(conditions)]  # fmt: skip
    given = {"id": "d", "type": "rule_table", "default": {"target": "none"}, "rules": rules}
    document = Document("d", {"decision": given | fields}, {}, {("decision",): (1, 1)})
    return branch_policy([read_document(document)])


def found(
    *conditions: str, **fields: Any
) -> list[tuple[BranchConcern, int | None, tuple[int, ...]]]:
    policy = a_table(*conditions, **fields)
    findings = review(policy)
    for each in findings:
        check_example(policy, each)
    return [(each.code, each.rule, each.by) for each in findings]


def check_example(policy: BranchPolicy, finding: BranchFinding) -> None:
    """Decide the example, and see that it does what the finding says."""
    assert (finding.example is not None) == (finding.code in SHOWN)
    if finding.example is None:
        return
    ready = compile_policy(policy)
    facts = read_facts("d", finding.example)
    outcome, _ = decide(ready, facts)
    scope = cells.Cell(finding.example, is_open=False).scope(ready.decision("d"))
    true = Table(ready.decision("d").conditions, first=False).hits(scope).hits
    if finding.code is BranchConcern.GAP:
        assert outcome.is_default
        return
    assert finding.rule in true
    assert any(each in true for each in finding.by)
    if finding.code is BranchConcern.SHADOWED:
        assert finding.rule not in outcome.selected_indexes


def test_a_gate_without_gaps_has_no_findings() -> None:
    assert found("score >= 0.8", "score < 0.8") == []


def test_a_gap_between_numbers_is_found() -> None:
    assert found("score > 0.8", "score < 0.8") == [(BranchConcern.GAP, None, ())]
    (finding,) = review(a_table("score > 0.8", "score < 0.8"))
    assert finding.example == {"score": Decimal("0.8")}
    assert finding.message == "no rule is true: goes to `none`"


def test_a_text_that_no_rule_names_is_left_to_the_default() -> None:
    assert found("kind == 'a'", "kind == 'b'") == []
    assert found("kind == 'a' and on", "kind == 'b'") == [(BranchConcern.GAP, None, ())]


def test_declared_values_are_all_there_are() -> None:
    variables = {"kind": ["a", "b", "c"]}
    assert found("kind == 'a'", "kind in ['b']", variables=variables) == [
        (BranchConcern.GAP, None, ())
    ]
    assert found("kind == 'a'", "kind in ['b', 'c']", variables=variables) == []
    assert found("on == true", variables={"on": "boolean"}) == [(BranchConcern.GAP, None, ())]


def test_a_rule_behind_a_wider_one_is_shadowed() -> None:
    assert found("x > 5", "x > 7 and y == 1", "x <= 5") == [(BranchConcern.SHADOWED, 1, (0,))]


def test_several_rules_together_can_shadow_one() -> None:
    assert found("x > 5", "x <= 5", "x == 3 or x == 9") == [(BranchConcern.SHADOWED, 2, (0, 1))]


def test_a_rule_that_cannot_be_true_is_found() -> None:
    assert found("x > 5 and x < 3", "x >= 0 or x < 0") == [(BranchConcern.NEVER, 0, ())]


def test_an_exception_before_its_rule_is_no_accident_and_a_partial_overlap_is_told() -> None:
    assert found("a == 1 and b == 1", "a == 1", "a != 1") == []
    assert found("a > 1", "b > 1", "a <= 1 and b <= 1") == [(BranchConcern.OVERLAP, 1, (0,))]


def test_unique_and_any_forbid_what_first_allows() -> None:
    assert found("a > 1", "a > 2", "a <= 1", hit_policy="unique") == [
        (BranchConcern.CONFLICT, 1, (0,))
    ]
    assert found("a > 1", "a > 2", "a <= 1", hit_policy="any") == [
        (BranchConcern.CONFLICT, 1, (0,))
    ]
    same = [{"condition": "a > 1", "target": "t"}, {"condition": "a > 2", "target": "t"},
            {"condition": "a <= 1", "target": "t"}]  # fmt: skip
    assert found(hit_policy="any", rules=same) == []


def test_priority_decides_who_shadows_whom() -> None:
    rules = [{"condition": "a > 2", "target": "x", "priority": 2},
             {"condition": "a > 1", "target": "y", "priority": 1},
             {"condition": "a <= 1", "target": "z"}]  # fmt: skip
    assert found(hit_policy="priority", rules=rules) == [(BranchConcern.SHADOWED, 0, (1,))]
    outputs = [{"condition": "a > 2", "target": "x"}, {"condition": "a > 1", "target": "y"},
               {"condition": "a <= 1", "target": "z"}]  # fmt: skip
    order = ["y", "x", "z"]
    assert found(hit_policy="output_priority", output_values=order, rules=outputs) == [
        (BranchConcern.SHADOWED, 0, (1,))
    ]
    assert found(hit_policy="collect", rules=outputs) == []


def test_what_cannot_be_analysed_is_said_and_nothing_is_claimed_about_gaps() -> None:
    assert found("length(a) > 1", "a == b", "l[0] == 1", "input == 3") == [
        (BranchConcern.OPAQUE, row, ()) for row in range(4)
    ]
    assert found("a == 1", "a.b == 1") == [
        (BranchConcern.OPAQUE, 0, ()),
        (BranchConcern.OPAQUE, 1, ()),
    ]
    assert found("x in l", "x > 3") == [(BranchConcern.OPAQUE, 0, ())]


def test_a_computed_input_is_reviewed_by_its_own_name() -> None:
    policy = a_table("input > 1", "input < 1", input="a + b")
    (finding,) = review(policy)
    assert (finding.code, finding.example) == (BranchConcern.GAP, {"input": 1})


def test_texts_are_ordered_and_null_and_truth_are_values() -> None:
    assert found("t < 'm'", "t >= 'm'") == []
    assert found("n == null", "n != null") == []
    assert found("f", "not f") == []


def test_weights_that_break_their_guardrail_are_found() -> None:
    given = {
        "id": "d", "type": "weighted", "input": "id", "default": {"target": "x"},
        "cases": [{"target": "a", "weight": 1, "label": "A"}],
        "guardrails": [{"type": "weight_bounds", "min_weight": 5, "escalation_target": "h"}],
    }  # fmt: skip
    document = Document("d", {"decision": given}, {}, {("decision",): (1, 1)})
    policy = branch_policy([read_document(document)])
    (finding,) = review(policy)
    assert finding.code is BranchConcern.GUARDED
    assert finding.message == "weight 1 of `A` is below 5: goes to `h`"


def test_too_many_inputs_are_sampled_and_shadows_still_found_two_by_two() -> None:
    wide = [f"a{n} > {n} and b{n} == 'x'" for n in range(8)]
    codes = found(*wide, "a3 > 5 and b3 == 'x'", "a1 > 0 or a1 <= 0")
    assert (BranchConcern.SHADOWED, 8, (3,)) in codes


@pytest.mark.slow
def test_random_tables_keep_what_their_review_promises() -> None:
    """On a finer grid of inputs: what is shadowed never decides, and without a gap no default."""
    draw = random.Random(7)
    complete = shadowed = 0
    for _ in range(150):
        texts = [_condition(draw) for _ in range(draw.randint(2, 5))]
        policy = a_table(*texts)
        findings = review(policy)
        for each in findings:
            check_example(policy, each)
        never = {
            f.rule for f in findings if f.code in (BranchConcern.SHADOWED, BranchConcern.NEVER)
        }
        has_gap = any(f.code is BranchConcern.GAP for f in findings)
        shadowed += bool(never)
        complete += not has_gap
        ready = compile_policy(policy)
        for x in range(-1, 12):
            for kind in ("a", "b"):
                facts = read_facts("d", {"x": Decimal(x) / 2, "k": kind, "f": x % 2 == 0})
                outcome, _ = decide(ready, facts)
                assert not set(outcome.selected_indexes) & never
                named = "'b'" in "".join(texts) and "'a'" in "".join(texts)
                assert has_gap or not outcome.is_default or not named
    assert shadowed > 20
    assert complete > 5


def _condition(draw: random.Random) -> str:
    atoms = [
        f"x {draw.choice(['<', '<=', '>', '>=', '=='])} {draw.randrange(6)}",
        f"k == '{draw.choice('ab')}'",
        "f",
        f"x in [{draw.randrange(6)}, {draw.randrange(6)}]",
        "not f",
    ]
    count = draw.choice([1, 1, 2, 3])
    return f" {draw.choice(['and', 'or'])} ".join(draw.sample(atoms, count))
