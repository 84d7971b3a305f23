"""On what both languages share, our expressions and zen-engine's agree.

docs/reference/expressions.md lists where they differ, and the last tests here prove each line.
"""

import random
from collections import Counter
from decimal import Decimal
from typing import Any

import pytest

from pointsman.expressions.evaluate import UNKNOWN, EvaluationScope
from pointsman.expressions.expression import value

zen = pytest.importorskip("zen", reason="zen-engine is not installed for this interpreter")

CONTEXT: dict[str, Any] = {
    "a": 3, "b": Decimal("0.1"), "c": Decimal("-2.5"), "z": 0, "t": "critical", "u": "a,b", "e": "",
    "f": True, "g": False, "m": {"x": 7, "k": "low"}, "l": [3, 1, 2],
}  # fmt: skip
THEIRS = {key: float(each) if isinstance(each, Decimal) else each for key, each in CONTEXT.items()}
NUMBERS = ["a", "b", "c", "z", "m.x", "l[1]", "1", "0.2", "10", "(-3)"]
TEXTS = ["t", "u", "e", "m.k", "'critical'", "'a'", "'low'"]
SPELT = {"starts_with": "startsWith", "ends_with": "endsWith", "length": "len"}


class Draw(random.Random):
    """Draws expressions of one kind, with names for the functions that differ in spelling."""

    def number(self, depth: int) -> str:
        if depth == 0:
            return self.choice(NUMBERS)
        form = self.randrange(6)
        if form < 3:
            sign = self.choice("+-*")
            return f"({self.number(depth - 1)} {sign} {self.number(depth - 1)})"
        if form == 3:
            return f"({self.truth(depth - 1)} ? {self.number(depth - 1)} : {self.number(0)})"
        name = self.choice(["abs", "floor", "ceil", "LENGTH", "MIN", "SUM"])
        if name == "LENGTH":
            return f"length({self.text(depth - 1)})"
        if name in ("MIN", "SUM"):
            return f"{name.lower()}([{self.number(depth - 1)}, {self.number(0)}])"
        return f"{name}({self.number(depth - 1)})"

    def text(self, depth: int) -> str:
        if depth == 0 or self.randrange(2):
            return self.choice(TEXTS)
        if self.randrange(2):
            return f"({self.text(depth - 1)} + {self.text(0)})"
        return f"{self.choice(['upper', 'lower', 'trim'])}({self.text(depth - 1)})"

    def truth(self, depth: int) -> str:
        if depth == 0:
            return self.choice(["f", "g", "true", "false"])
        form = self.randrange(7)
        if form == 0:
            word = self.choice(["and", "or"])
            return f"({self.truth(depth - 1)} {word} {self.truth(depth - 1)})"
        if form == 1:
            return f"(not ({self.truth(depth - 1)}))"
        if form == 2:
            members = ", ".join(self.choice(TEXTS[4:]) for _ in range(3))
            return f"({self.text(depth - 1)} {self.choice(['in', 'not in'])} [{members}])"
        if form in (3, 4):
            left, right = self.text(depth - 1), self.text(0)
            name = self.choice(["contains", "starts_with", "ends_with"])
            return f"{name}({left}, {right})" if form == 3 else f"({left} == {right})"
        sign = self.choice(["==", "!=", "<", "<=", ">", ">="])
        return f"({self.number(depth - 1)} {sign} {self.number(depth - 1)})"


def theirs(text: str) -> Any:
    for ours, spelt in SPELT.items():
        text = text.replace(f"{ours}(", f"{spelt}(")
    return zen.evaluate_expression(text, THEIRS)


def agreed(seed: int) -> tuple[str, Any, Any, bool]:
    """Draw an expression of the shared subset; give it, both answers, and whether they agree."""
    draw = Draw(seed)
    kind = draw.choice(["truth", "number", "text"])
    text = getattr(draw, kind)(draw.randint(1, 4))
    found = value(text).answer(EvaluationScope(CONTEXT)).value
    other = theirs(text)
    if isinstance(found, int | Decimal) and not isinstance(found, bool):
        # zen gives floats back: numbers agree where they are one float.
        return text, found, other, abs(float(found) - other) <= 1e-9 * max(1.0, abs(other))
    return text, found, other, type(found) is type(other) and found == other


@pytest.mark.req(345)
def test_3000_expressions_of_the_shared_subset_agree_with_zen() -> None:
    kinds: Counter[str] = Counter()
    different = []
    for seed in range(3_000):
        text, found, other, agree = agreed(seed)
        kinds[type(found).__name__] += 1
        if not agree:
            different.append(f"{text}: ours {found!r}, zen {other!r}")
    assert different[:5] == []
    assert kinds["bool"] > 500
    assert kinds["str"] > 500


FAILS = object()


@pytest.mark.parametrize(
    ("text", "ours", "other"),
    [
        ("gone == 'x'", UNKNOWN, False),
        ("gone > 1", UNKNOWN, FAILS),
        ("'a' < 'b'", True, FAILS),
        ("l == l", True, False),
        ("round(2.5)", 2, 3.0),
        ("1 / 0", UNKNOWN, None),
        ("f && g", False, FAILS),
        ("not a == 3", False, FAILS),
        ("upper('ä')", "ä", "Ä"),
    ],
)
def test_where_the_two_languages_differ(text: str, ours: Any, other: Any) -> None:
    assert value(text).answer(EvaluationScope(CONTEXT)).value == ours
    if other is FAILS:
        with pytest.raises(RuntimeError):
            theirs(text)
    else:
        assert theirs(text) == other
