"""The functions of expressions, as one table: parameters, meaning and an example.

The reference page is written from this table, and every example in it is a test.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

from msgspec import Struct

from pointsman.expressions import builtins, values
from pointsman.expressions.values import KINDS, NAMES, Kind, Meter, NotKnown, Value


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


Kinds: TypeAlias = tuple[Kind, ...]
Implementation: TypeAlias = Callable[..., Value]
"""Takes the meter and values of the right kinds; raises `NotKnown` where it has no answer."""

ANY: Kinds = ("null", "boolean", "number", "text", "list", "map")
TEXT: Kinds = ("text",)
NUMBER: Kinds = ("number",)
LIST: Kinds = ("list",)
BOOLEAN: Kinds = ("boolean",)
SCALAR: Kinds = ("boolean", "number", "text")
SIZED: Kinds = ("text", "list", "map")
HOLDER: Kinds = ("text", "list")
MOST_ARGUMENTS = 32


class Function(Struct, frozen=True):
    """One function; where `repeats`, its last parameter may be given any number of times.

    One without a `make` is part of the language itself: it does not look at all its arguments.
    """

    group: str
    usage: str
    takes: tuple[Kinds, ...]
    gives: Kinds
    make: Implementation | None
    meaning: str
    example: tuple[str, str]
    needs: int
    repeats: bool = False

    @property
    def name(self) -> str:
        """Its name in expressions."""
        return self.usage.partition("(")[0]

    def takes_count(self, count: int) -> bool:
        """Tell whether it can be called with so many arguments."""
        most = MOST_ARGUMENTS if self.repeats else len(self.takes)
        return self.needs <= count <= most

    def kinds(self, index: int) -> Kinds:
        """Return the kinds that an argument may have."""
        return self.takes[min(index, len(self.takes) - 1)]


def make_call(function: Function) -> Callable[..., Value]:
    """Return a callable that checks the kinds of its arguments first."""
    make, name = function.make, function.name
    assert make is not None  # noqa: S101 - forms of the language are never called
    kinds = [frozenset(each) for each in function.takes]
    last = kinds[-1]

    def call(meter: Meter, *arguments: Value) -> Value:
        for index, argument in enumerate(arguments):
            kind = KINDS.get(type(argument))
            if kind is None:
                raise NotKnown("missing")
            if kind not in (kinds[index] if index < len(kinds) else last):
                raise NotKnown(f"`{name}` cannot take {NAMES[kind]}")
        return make(meter, *arguments)

    return call


_TABLE = (
    Function(
        "text", "concat(a, …)", (SCALAR,), TEXT,
        builtins.concat,
        "texts, numbers and truth values as one text",
        ("concat('v', 1.50)", "'v1.5'"), 1, repeats=True,
    ),
    Function(
        "text", "substring(text, start, length?)", (TEXT, NUMBER, NUMBER,), TEXT,
        builtins.substring,
        "part of a text, from `start` on, counted from 0",
        ("substring('workflow', 4, 2)", "'fl'"), 2,
    ),
    Function(
        "text", "replace(text, old, new)", (TEXT, TEXT, TEXT,), TEXT,
        builtins.replace,
        "a text with `old` replaced wherever it stands",
        ("replace('a-b-c', '-', '.')", "'a.b.c'"), 3,
    ),
    Function(
        "text", "trim(text)", (TEXT,), TEXT,
        builtins.trim,
        "a text without ASCII blanks at its ends",
        ("trim('  a b ')", "'a b'"), 1,
    ),
    Function(
        "text", "upper(text)", (TEXT,), TEXT,
        builtins.upper,
        "ASCII letters in upper case",
        ("upper('deploy')", "'DEPLOY'"), 1,
    ),
    Function(
        "text", "lower(text)", (TEXT,), TEXT,
        builtins.lower,
        "ASCII letters in lower case",
        ("lower('Main')", "'main'"), 1,
    ),
    Function(
        "text", "split(text, separator)", (TEXT, TEXT,), LIST,
        builtins.split_text,
        "the parts of a text",
        ("split('a,b', ',')", "['a', 'b']"), 2,
    ),
    Function(
        "text", "join(list, separator)", (LIST, TEXT,), TEXT,
        builtins.join,
        "the members of a list as one text",
        ("join(['a', 1], '-')", "'a-1'"), 2,
    ),
    Function(
        "text", "length(a)", (SIZED,), NUMBER,
        builtins.size,
        "how many characters or members",
        ("length('four')", "4"), 1,
    ),
    Function(
        "text", "starts_with(text, part)", (TEXT, TEXT,), BOOLEAN,
        lambda _meter, text, part: values.starts_with(text, part),
        "the operator as a function",
        ("starts_with('stage-1', 'stage')", "true"), 2,
    ),
    Function(
        "text", "ends_with(text, part)", (TEXT, TEXT,), BOOLEAN,
        lambda _meter, text, part: values.ends_with(text, part),
        "the operator as a function",
        ("ends_with('a.md', '.md')", "true"), 2,
    ),
    Function(
        "text", "matches(text, 'pattern')", (TEXT, TEXT,), BOOLEAN,
        None,
        "the operator as a function; the pattern is a literal",
        ("matches('v12', '^v[0-9]+$')", "true"), 2,
    ),
    Function(
        "number", "add(a, b)", (NUMBER, NUMBER,), NUMBER,
        lambda meter, a, b: values.add(a, b, meter),
        "`a + b`",
        ("add(0.1, 0.2)", "0.3"), 2,
    ),
    Function(
        "number", "subtract(a, b)", (NUMBER, NUMBER,), NUMBER,
        lambda _meter, a, b: values.subtract(a, b),
        "`a - b`",
        ("subtract(1, 0.9)", "0.1"), 2,
    ),
    Function(
        "number", "multiply(a, b)", (NUMBER, NUMBER,), NUMBER,
        lambda _meter, a, b: values.multiply(a, b),
        "`a * b`",
        ("multiply(1.1, 1.1)", "1.21"), 2,
    ),
    Function(
        "number", "divide(a, b)", (NUMBER, NUMBER,), NUMBER,
        lambda _meter, a, b: values.divide(a, b),
        "`a / b`",
        ("divide(1, 8)", "0.125"), 2,
    ),
    Function(
        "number", "mod(a, b)", (NUMBER, NUMBER,), NUMBER,
        lambda _meter, a, b: values.remainder(a, b),
        "`a % b`",
        ("mod(-7, 3)", "-1"), 2,
    ),
    Function(
        "number", "min(a, …)", (("number", "text", "list"),), ("number", "text"),
        builtins.least,
        "the least of numbers or texts, given one by one or as a list",
        ("min(3, 1, 2)", "1"), 1, repeats=True,
    ),
    Function(
        "number", "max(a, …)", (("number", "text", "list"),), ("number", "text"),
        builtins.greatest,
        "the greatest of numbers or texts",
        ("max([3, 1, 2])", "3"), 1, repeats=True,
    ),
    Function(
        "number", "sum(list)", (LIST,), NUMBER,
        builtins.total,
        "the sum of a list of numbers; 0 of none",
        ("sum([0.1, 0.2])", "0.3"), 1,
    ),
    Function(
        "number", "abs(a)", (NUMBER,), NUMBER,
        builtins.absolute,
        "a number without its sign",
        ("abs(-2.5)", "2.5"), 1,
    ),
    Function(
        "number", "round(a, digits?)", (NUMBER, NUMBER,), NUMBER,
        builtins.round_number,
        "rounded half to even",
        ("round(2.345, 2)", "2.34"), 1,
    ),
    Function(
        "number", "ceil(a)", (NUMBER,), NUMBER,
        builtins.ceiling,
        "the next whole number up",
        ("ceil(-1.5)", "-1"), 1,
    ),
    Function(
        "number", "floor(a)", (NUMBER,), NUMBER,
        builtins.floor,
        "the next whole number down",
        ("floor(-1.5)", "-2"), 1,
    ),
    Function(
        "list", "size(a)", (SIZED,), NUMBER,
        builtins.size,
        "how many members or characters",
        ("size([1, 2, 3])", "3"), 1,
    ),
    Function(
        "list", "first(list)", (LIST,), ANY,
        builtins.first,
        "the first member; null when there is none",
        ("first(['a', 'b'])", "'a'"), 1,
    ),
    Function(
        "list", "last(list)", (LIST,), ANY,
        builtins.last,
        "the last member; null when there is none",
        ("last(['a', 'b'])", "'b'"), 1,
    ),
    Function(
        "list", "contains(a, part)", (HOLDER, ANY,), BOOLEAN,
        lambda meter, a, part: values.contains(a, part, meter),
        "the operator as a function",
        ("contains([1, 2], 2)", "true"), 2,
    ),
    Function(
        "list", "flatten(list)", (LIST,), LIST,
        builtins.flatten,
        "lists inside a list, one level, in their place",
        ("flatten([[1], 2, [3]])", "[1, 2, 3]"), 1,
    ),
    Function(
        "list", "sort(list)", (LIST,), LIST,
        builtins.in_order,
        "numbers or texts from the least up; texts by code point",
        ("sort([3, 1, 2])", "[1, 2, 3]"), 1,
    ),
    Function(
        "list", "distinct(list)", (LIST,), LIST,
        builtins.distinct,
        "members without repetition, as they first stand",
        ("distinct([1, 1.0, 2])", "[1, 2]"), 1,
    ),
    Function(
        "date", "parse(text, pattern?)", (TEXT, TEXT,), TEXT,
        lambda _meter, *given: builtins.parse_date(*given),
        "a date as an RFC 3339 instant; patterns of YYYY, MM, DD, HH, mm, ss",
        ("parse('15.11.2026', 'DD.MM.YYYY')", "'2026-11-15T00:00:00.000000Z'"), 1,
    ),
    Function(
        "date", "format(date, pattern)", (TEXT, TEXT,), TEXT,
        lambda _meter, date, pattern: builtins.format_date(date, pattern),
        "a date written by a pattern",
        ("format('2026-11-15T14:05:00Z', 'DD.MM.YYYY HH:mm')", "'15.11.2026 14:05'"), 2,
    ),
    Function(
        "date", "diff(later, earlier, unit)", (TEXT, TEXT, TEXT,), NUMBER,
        lambda _meter, *given: builtins.difference(*given),
        "the first minus the second in `days`, `hours`, `minutes` or `seconds`",
        ("diff('2026-11-15', '2026-11-14T12:00:00Z', 'days')", "0.5"), 3,
    ),
    Function(
        "date", "add_days(date, count)", (TEXT, NUMBER,), TEXT,
        lambda _meter, date, count: builtins.shift_date(date, count, "days"),
        "an instant so many days later",
        ("add_days('2024-02-28', 1)", "'2024-02-29T00:00:00.000000Z'"), 2,
    ),
    Function(
        "date", "add_hours(date, count)", (TEXT, NUMBER,), TEXT,
        lambda _meter, date, count: builtins.shift_date(date, count, "hours"),
        "an instant so many hours later",
        ("add_hours('2026-11-15T23:00:00Z', 2)", "'2026-11-16T01:00:00.000000Z'"), 2,
    ),
    Function(
        "choice", "if(condition, yes, no)", (BOOLEAN, ANY, ANY,), ANY,
        None,
        "`condition ? yes : no`",
        ("if(2 > 1, 'a', 'b')", "'a'"), 3,
    ),
    Function(
        "choice", "switch(value, key, result, …, otherwise?)", (ANY,), ANY,
        None,
        "the result behind the first key equal to the value",
        ("switch('b', 'a', 1, 'b', 2, 0)", "2"), 3, repeats=True,
    ),
    Function(
        "choice", "coalesce(a, …)", (ANY,), ANY,
        None,
        "the first that is known and not null; null when there is none",
        ("coalesce(null, 'x')", "'x'"), 1, repeats=True,
    ),
    Function(
        "choice", "default(a, otherwise)", (ANY, ANY,), ANY,
        None,
        "`a`, or the other where `a` is missing or null",
        ("default(null, 3)", "3"), 2,
    ),
)  # fmt: skip

FUNCTIONS: Mapping[str, Function] = MappingProxyType({each.name: each for each in _TABLE})
