"""The operators of expressions, as a table for the reference page; every example is a test."""

from __future__ import annotations

from msgspec import Struct


class Operator(Struct, frozen=True):
    """One row of the page; `unknown` says when there is no answer."""

    group: str
    usage: str
    meaning: str
    example: tuple[str, str]
    unknown: str = ""


_NUMBERS = "either is not a number"
_TEXTS = "either is not a text"

OPERATORS = (
    Operator("choice", "c ? a : b", "`a` where `c` is true, `b` where it is false",
             ("1 < 2 ? 'yes' : 'no'", "'yes'"), "`c` is not a truth value"),
    Operator("logic", "a or b, a || b", "true where one is true, false where all are false",
             ("false or true", "true"), "none is true and one is unknown"),
    Operator("logic", "a and b, a && b", "false where one is false, true where all are true",
             ("true && false", "false"), "none is false and one is unknown"),
    Operator("logic", "not a", "the opposite; binds looser than comparisons",
             ("not 1 == 2", "true"), "`a` is not a truth value"),
    Operator("logic", "!a", "the opposite; binds tighter than comparisons",
             ("!false == true", "true"), "`a` is not a truth value"),
    Operator("comparison", "a == b", "equal, and of one kind: `1 == 1.0`, never `1 == '1'`",
             ("0.1 + 0.2 == 0.3", "true"), "either is missing; but `missing == null` is true"),
    Operator("comparison", "a != b", "not equal", ("'a' != 'b'", "true"), "as for `==`"),
    Operator("comparison", "a < b, a <= b, a > b, a >= b",
             "the order of numbers, or of texts by code point", ("2 <= 2.0", "true"),
             "they are not two numbers or two texts"),
    Operator("membership", "a in list, a not in list", "whether a list holds a value",
             ("'b' in ['a', 'b']", "true"), "the right side is not a list"),
    Operator("matching", "a contains b", "whether a text holds a text, or a list a value",
             ("'pointsman' contains 'man'", "true"), "`a` is neither a text nor a list"),
    Operator("matching", "a starts_with b", "whether a text starts with another",
             ("'stage-1' starts_with 'stage'", "true"), _TEXTS),
    Operator("matching", "a ends_with b", "whether a text ends with another",
             ("'x.yaml' ends_with '.yaml'", "true"), _TEXTS),
    Operator("matching", "a matches 'pattern'",
             "whether an RE2 pattern matches somewhere in a text",
             ("'v12' matches '^v[0-9]+$'", "true"), "`a` is not a text"),
    Operator("arithmetic", "a + b", "the sum of numbers, or two texts joined",
             ("0.1 + 0.2", "0.3"), "they are not two numbers or two texts"),
    Operator("arithmetic", "a - b, a * b", "exact to 34 digits", ("1 - 0.9 * 1", "0.1"), _NUMBERS),
    Operator("arithmetic", "a / b", "the quotient, rounded half to even at the 34th digit",
             ("1 / 8", "0.125"), f"{_NUMBERS}, or `b` is 0"),
    Operator("arithmetic", "a % b", "what a division leaves over, with the sign of `a`",
             ("-7 % 3", "-1"), f"{_NUMBERS}, or `b` is 0"),
    Operator("arithmetic", "-a", "the number with the other sign", ("-(1 + 2)", "-3"),
             "`a` is not a number"),
    Operator("access", "a.name, a['any key']", "a member of a mapping",
             ("{kind: 'x'}.kind", "'x'"), "there is no such member"),
    Operator("access", "a[0]", "a member of a list, counted from 0",
             ("['a', 'b'][1]", "'b'"), "there is no such member"),
)  # fmt: skip
