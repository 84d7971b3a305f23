"""A second, naive evaluator of expressions, written from docs/reference/expressions.md.

It shares no code with the product. It walks trees of plain tuples, knows numbers only as fractions,
and rounds them by hand. `U` is the unknown value.
"""

import re
from fractions import Fraction
from typing import Any

U = type("U", (), {"__repr__": lambda self: "U", "__bool__": lambda self: 1 / 0})()
DIGITS, POWER = 34, 64


def plain(value: Any) -> Any:
    """Numbers as fractions, the rest as it is."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return Fraction(value)


def evaluate(tree: tuple, context: dict, given: Any = U) -> Any:
    """Evaluate a tree; `given` is the decision's input."""
    return _Walk(plain(context), given if given is U else plain(given)).run(tree)


def kind(value: Any) -> str:
    if value is None:
        return "null"
    return {bool: "boolean", Fraction: "number", str: "text", list: "list", dict: "map"}[
        type(value)
    ]


def same(a: Any, b: Any) -> bool:
    if kind(a) != kind(b):
        return False
    if kind(a) == "list":
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if kind(a) == "map":
        return sorted(a) == sorted(b) and all(same(a[key], b[key]) for key in a)
    return a == b


def adjusted(value: Fraction) -> int:
    """The power of ten of the first digit."""
    if value == 0:
        return 0
    power, size = 0, abs(value)
    while size >= 10:
        power, size = power + 1, size / 10
    while size < 1:
        power, size = power - 1, size * 10
    return power


def rounded(value: Fraction) -> Any:
    """To 34 digits, half to even; unknown when too large or too small."""
    if value == 0:
        return value
    unit = Fraction(10) ** (adjusted(value) - DIGITS + 1)
    found = round(value / unit) * unit
    return found if -POWER <= adjusted(found) <= POWER else U


def text_of(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    sign, size, digits = "-" if value < 0 else "", abs(value), ""
    whole, part = divmod(size, 1)
    while part:
        part *= 10
        digits += str(int(part))
        part -= int(part)
    return f"{sign}{int(whole)}" + (f".{digits}" if digits else "")


class _Walk:
    def __init__(self, context: dict, given: Any) -> None:
        self.context, self.given = context, given

    def run(self, tree: tuple) -> Any:
        return getattr(self, "on_" + tree[0])(*tree[1:])

    def all(self, trees: Any) -> list | None:
        found = [self.run(each) for each in trees]
        return None if any(each is U for each in found) else found

    def on_lit(self, value: Any) -> Any:
        return plain(value)

    def on_path(self, root: str, *steps: Any) -> Any:
        if root == "input":
            found = self.given
        elif root == "context" and root not in self.context:
            found = self.context
        else:
            found = self.context.get(root, U)
        for step in steps:
            found = self.member(found, plain(step)) if found is not U else U
        return found

    def member(self, of: Any, key: Any) -> Any:
        if isinstance(of, dict) and isinstance(key, str):
            return of.get(key, U)
        if isinstance(of, list) and isinstance(key, Fraction) and key.denominator == 1:
            return of[int(key)] if 0 <= key < len(of) else U
        return U

    def on_item(self, of: tuple, key: tuple) -> Any:
        found = self.all((of, key))
        return U if found is None else self.member(*found)

    def on_list(self, *items: tuple) -> Any:
        found = self.all(items)
        return U if found is None else found

    def on_map(self, *pairs: tuple) -> Any:
        found = self.all(value for _, value in pairs)
        if found is None:
            return U
        return {key: value for (key, _), value in zip(pairs, found, strict=True)}

    def truth(self, tree: tuple) -> Any:
        found = self.run(tree)
        return found if isinstance(found, bool) else U

    def on_not(self, of: tuple) -> Any:
        found = self.truth(of)
        return U if found is U else not found

    def on_and(self, *parts: tuple) -> Any:
        found = [self.truth(each) for each in parts]
        if any(each is False for each in found):
            return False
        return U if any(each is U for each in found) else True

    def on_or(self, *parts: tuple) -> Any:
        found = [self.truth(each) for each in parts]
        if any(each is True for each in found):
            return True
        return U if any(each is U for each in found) else False

    def on_cmp(self, sign: str, left: tuple, right: tuple) -> Any:
        if sign in ("==", "!="):
            found = self.equal(left, right)
            return found if found is U or sign == "==" else not found
        found = self.all((left, right))
        if found is None:
            return U
        a, b = found
        if kind(a) != kind(b) or kind(a) not in ("number", "text"):
            return U
        return {"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[sign]

    def equal(self, left: tuple, right: tuple) -> Any:
        for one, other in ((left, right), (right, left)):
            if one == ("lit", None):
                found = self.run(other)
                if found is U:
                    return True if other[0] == "path" else U
                return found is None
        found = self.all((left, right))
        return U if found is None else same(*found)

    def on_test(self, word: str, left: tuple, right: tuple) -> Any:
        found = self.all((left, right))
        if found is None:
            return U
        a, b = found
        if word in ("in", "not in"):
            if kind(b) != "list":
                return U
            return any(same(a, each) for each in b) == (word == "in")
        if word == "contains" and kind(a) == "list":
            return any(same(b, each) for each in a)
        if kind(a) != "text" or kind(b) != "text":
            return U
        return {
            "contains": lambda: b in a,
            "starts_with": lambda: a[: len(b)] == b,
            "ends_with": lambda: a[len(a) - len(b) :] == b if len(b) <= len(a) else False,
            "matches": lambda: re.search(b, a) is not None,
        }[word]()

    def on_neg(self, of: tuple) -> Any:
        found = self.run(of)
        return -found if isinstance(found, Fraction) else U

    def on_arith(self, sign: str, left: tuple, right: tuple) -> Any:
        found = self.all((left, right))
        if found is None:
            return U
        a, b = found
        if sign == "+" and kind(a) == kind(b) == "text":
            return a + b
        if kind(a) != "number" or kind(b) != "number" or (sign in "/%" and b == 0):
            return U
        if sign == "%":
            quotient = abs(a) // abs(b)
            left_over = abs(a) - quotient * abs(b)
            return U if quotient >= 10**DIGITS else rounded(-left_over if a < 0 else left_over)
        return rounded({"+": a + b, "-": a - b, "*": a * b, "/": a / b if b else None}[sign])

    def on_if(self, condition: tuple, yes: tuple, no: tuple) -> Any:
        found = self.truth(condition)
        return U if found is U else self.run(yes if found else no)

    def on_call(self, name: str, *arguments: tuple) -> Any:
        if name == "if":
            return self.on_if(*arguments)
        if name in ("coalesce", "default"):
            found = [self.run(each) for each in arguments]
            return next((each for each in found if each is not U and each is not None), None)
        if name == "switch":
            return self.switch(*arguments)
        found = self.all(arguments)
        return U if found is None else _called(name, found)

    def switch(self, value: tuple, *cases: tuple) -> Any:
        wanted = self.run(value)
        if wanted is U:
            return U
        for n in range(0, len(cases) - 1, 2):
            key = self.run(cases[n])
            if key is U:
                return U
            if same(wanted, key):
                return self.run(cases[n + 1])
        return self.run(cases[-1]) if len(cases) % 2 else None


def _called(name: str, given: list) -> Any:
    kinds = [kind(each) for each in given]
    walk = _Walk({}, U)
    as_trees = [("lit", each) for each in given]
    signs = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "mod": "%"}
    if name in signs:
        return walk.on_arith(signs[name], *as_trees) if kinds == ["number"] * 2 else U
    if name in ("contains", "starts_with", "ends_with", "matches"):
        return walk.on_test(name, *as_trees)
    rules = {
        "concat": (all(k in ("text", "number", "boolean") for k in kinds),
                   lambda: "".join(map(text_of, given))),
        "upper": (kinds == ["text"], lambda: _ascii(given[0], str.upper)),
        "lower": (kinds == ["text"], lambda: _ascii(given[0], str.lower)),
        "trim": (kinds == ["text"], lambda: given[0].strip(" \t\n\r\f\v")),
        "length": (kinds[0] in ("text", "list", "map"), lambda: Fraction(len(given[0]))),
        "size": (kinds[0] in ("text", "list", "map"), lambda: Fraction(len(given[0]))),
        "split": (kinds == ["text", "text"] and given[1] != "", lambda: given[0].split(given[1])),
        "replace": (kinds == ["text"] * 3 and given[1] != "",
                    lambda: given[2].join(given[0].split(given[1]))),
        "substring": (kinds[0] == "text" and all(k == "number" for k in kinds[1:]),
                      lambda: _substring(*given)),
        "join": (kinds == ["list", "text"]
                 and all(kind(e) in ("text", "number", "boolean") for e in given[0]),
                 lambda: given[1].join(map(text_of, given[0]))),
        "abs": (kinds == ["number"], lambda: abs(given[0])),
        "floor": (kinds == ["number"], lambda: Fraction(given[0] // 1)),
        "ceil": (kinds == ["number"], lambda: Fraction(-(-given[0] // 1))),
        "round": (all(k == "number" for k in kinds), lambda: _round(*given)),
        "first": (kinds == ["list"], lambda: given[0][0] if given[0] else None),
        "last": (kinds == ["list"], lambda: given[0][-1] if given[0] else None),
        "flatten": (kinds == ["list"], lambda: _flat(given[0])),
        "sum": (kinds == ["list"] and all(kind(e) == "number" for e in given[0]),
                lambda: _sum(given[0])),
        "min": (True, lambda: _extreme(given, min)),
        "max": (True, lambda: _extreme(given, max)),
        "sort": (kinds == ["list"] and {kind(e) for e in given[0]} in ({"number"}, {"text"}, set()),
                 lambda: sorted(given[0])),
        "distinct": (kinds == ["list"], lambda: _distinct(given[0])),
    }  # fmt: skip
    fits, make = rules[name]
    return make() if fits else U


def _ascii(text: str, change: Any) -> str:
    return "".join(change(each) if each.isascii() else each for each in text)


def _substring(text: str, start: Fraction, length: Fraction = Fraction(10**9)) -> Any:
    if start.denominator != 1 or length.denominator != 1 or start < 0 or length < 0:
        return U
    return text[int(start) :][: int(length)]


def _round(value: Fraction, places: Fraction = Fraction(0)) -> Any:
    if places.denominator != 1 or abs(places) > DIGITS:
        return U
    unit = Fraction(10) ** int(-places)
    return round(value / unit) * unit


def _flat(members: list) -> list:
    found = []
    for each in members:
        found += each if isinstance(each, list) else [each]
    return found


def _sum(members: list) -> Any:
    found: Any = Fraction(0)
    for each in members:
        found = U if found is U else rounded(found + each)
    return found


def _extreme(given: list, pick: Any) -> Any:
    members = given[0] if len(given) == 1 and isinstance(given[0], list) else given
    kinds = {kind(each) for each in members}
    return pick(members) if kinds in ({"number"}, {"text"}) else U


def _distinct(members: list) -> list:
    found: list = []
    for each in members:
        if not any(same(each, other) for other in found):
            found.append(each)
    return found
