"""Tables give what their conditions give one by one, whatever is hoisted or indexed."""

from decimal import Decimal
from typing import Any

import pytest
from tests.models import expression_model
from tests.property.test_expressions_against_model import Draw

from pointsman.branches.rules.table import Table
from pointsman.expressions.evaluate import EvaluationScope
from pointsman.expressions.expression import condition
from pointsman.expressions.syntax import ExpressionRefused
from pointsman.expressions.values import MISSING

KINDS = [f"k{n}" for n in range(24)]


def rows(*texts: str, first: bool = True) -> Table:
    return Table([condition(text) for text in texts], first=first)


def tables_of(draw: Draw) -> tuple[list[tuple], Table, Table]:
    """Draw a table, for its first hit and for all; half ask for one value, and are indexed."""
    trees: list[tuple] = []
    is_indexed = draw.chance(2)
    count = draw.choice([1, 5, 40])
    while len(trees) < count:
        tree = draw.expression(draw.choice([1, 2]), "boolean")
        if is_indexed and not draw.chance(12):
            path = ("path", "input", "kind")
            wanted: tuple = ("cmp", "==", path, ("lit", draw.choice(KINDS)))
            if draw.chance(4):
                wanted = (
                    "test",
                    "in",
                    path,
                    ("list", *(("lit", each) for each in draw.sample(KINDS, 2))),
                )
            tree = wanted if draw.chance(3) else ("and", wanted, tree)
        try:
            condition(draw.text(tree))
        except ExpressionRefused:
            continue
        trees.append(tree)
    texts = [draw.text(tree) for tree in trees]
    return trees, rows(*texts), rows(*texts, first=False)


@pytest.mark.slow
def test_random_tables_agree_with_the_model_row_by_row() -> None:
    indexed = 0
    for seed in range(120):
        draw = Draw(f"table {seed}")
        trees, until_first, all_rows = tables_of(draw)
        indexed += all_rows.is_indexed
        for _ in range(8):
            context = draw.context()
            given: Any = {"kind": draw.choice([*KINDS, 3, True, None, ["k1"]]), "x": draw.json()}
            if draw.chance(6):
                given = draw.choice([{}, draw.scalar()])
            wanted = [expression_model.evaluate(tree, context, given) for tree in trees]
            true = tuple(row for row, each in enumerate(wanted) if each is True)
            unknown = [row for row, each in enumerate(wanted) if not isinstance(each, bool)]
            every = all_rows.hits(EvaluationScope(context, given))
            assert every.hits == true
            assert sorted(every.unknown) == unknown
            first = until_first.hits(EvaluationScope(context, given))
            seen = true[0] + 1 if true else len(trees)
            assert (first.hits, first.seen) == (true[:1], seen)
            assert sorted(first.unknown) == [row for row in unknown if row < seen]
    assert indexed > 5


def test_an_index_is_made_where_most_conditions_ask_for_one_value() -> None:
    few = [f"input.kind == 'k{n}'" for n in range(7)]
    assert not rows(*few).is_indexed
    assert rows(*few, "input.kind == 'k7' and x > 1").is_indexed
    assert not rows(*few, *(f"x > {n}" for n in range(8))).is_indexed
    assert not rows(*(f"input.kind == {n % 2}" for n in range(20))).is_indexed


@pytest.mark.parametrize("kind", [1, True, None, [1], {"a": 1}, "1", Decimal("2.0"), 2, MISSING])
def test_the_index_takes_nothing_for_something_else(kind: Any) -> None:
    table = rows(*(f"input.kind == {n}" for n in range(2, 12)))
    given = {} if kind is MISSING else {"kind": kind}
    found = table.hits(EvaluationScope({}, given))
    assert table.is_indexed
    assert found.hits == ((0,) if kind in ([Decimal(2)] if kind is not MISSING else []) else ())


def test_rules_behind_a_missing_value_still_fire() -> None:
    table = rows("input.a > 1", "input.b == 2", "input.a < 5")
    found = table.hits(EvaluationScope({}, {"b": 2}))
    assert found.hits == (1,)
    assert found.unknown[0].missing == ("input.a",)
    every = rows("input.a > 1", "input.b == 2", "input.a < 5", first=False)
    assert every.hits(EvaluationScope({}, {"b": 2})).hits == (1,)


def test_every_condition_has_a_step_budget_of_its_own() -> None:
    table = rows(*["input.t contains 'x'"] * 3, "input.t contains 'a'")
    found = table.hits(EvaluationScope({}, {"t": "a" * 300_000}))
    assert (found.hits, found.unknown) == ((3,), {})


def test_a_condition_that_is_no_truth_value_is_unknown() -> None:
    found = rows("input.a", "input.b", first=False).hits(EvaluationScope({}, {"a": 3, "b": True}))
    assert found.hits == (1,)
    assert found.unknown[0].reason == "it is neither true nor false"
