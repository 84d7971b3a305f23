"""Expressions that an attacker would write, and what of a Python program each reaches for."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

from msgspec import Struct

from pointsman.expressions.evaluate import UNKNOWN, EvaluationScope
from pointsman.expressions.expression import Expression, condition, value
from pointsman.expressions.syntax import ExpressionRefused

CANARY: Final = "canary-5d1f"
CONTEXT: Final[dict[str, Any]] = {
    "name": "x",
    "text": "a" * 20_000,
    "list": list(range(2_000)),
    "map": {"__class__": "a plain member", "secret": CANARY},
    "n": 10**15,
    "d": Decimal("0.1"),
}

_NAMES = (
    "__import__", "eval", "exec", "open", "compile", "globals", "locals", "vars", "dir", "getattr",
    "setattr", "delattr", "breakpoint", "input", "print", "type", "object", "super", "memoryview",
    "help", "exit", "quit", "callable", "id", "hash", "format", "chr", "bytes", "classmethod",
)  # fmt: skip
_MEMBERS = (
    "__class__", "__dict__", "__globals__", "__subclasses__", "__mro__", "__bases__", "__init__",
    "__builtins__", "__code__", "__reduce__", "__getattribute__", "__self__", "__func__",
    "format", "mro", "f_globals", "gi_frame", "func_globals", "encode", "as_tuple",
)  # fmt: skip
_ESCAPES = (
    "''.join(['a'])",
    "'{0.__class__}'.format(name)",
    "f'{name}'",
    "'%s' % name",
    "(lambda: 1)()",
    "[x for x in list]",
    "(x := 1)",
    "name if name else 1; import os",
    "import os",
    "name\nimport os",
    "# comment\nname",
    "name\\\n.x",
    "{{ name }}",
    "{% name %}",
    "${name}",
    "`id`",
    "$(id)",
    "name; drop table entries",
    "' or '1'='1",
    "name == 'x' or __import__('os').system('id')",
    "name.__class__.__base__.__subclasses__()",
    "map['__class__']",
    'map["__class__"]["__mro__"]',
    "name[0:1]",
    "name[-1]",
    "list[99999999999999999999]",
    "await name",
    "yield name",
    "*list",
    "**map",
    "...",
    "name@name",
    "0x41",
    "0b1",
    "1_000",
    "1j",
    "1e400 > 0",
    "1e-400 > 0",
    "nan == nan",
    "inf > 0",
    "n * n * n * n * n * n * n * n",
    "n / 0",
    "n % 0",
    "2 ** 1000000000",
    "2 << 1000000000",
    "-" * 5_000 + "1",
    "not " * 5_000 + "true",
    "(" * 5_000 + "1" + ")" * 5_000,
    "[" * 5_000 + "]" * 5_000,
    "a" + ".b" * 1_500,
    "a" + "[0]" * 1_500,
    " or ".join(["name == 'x'"] * 20_000),
    " + ".join(["1"] * 20_000),
    "'" + "a" * 1_000_000 + "' == name",
    "name == '" + "\\" * 999 + "'",
    "name == 'a",
    "name == 'a\x00b'",
    "name == '\ud800'",
    "nаme == 'x'",  # noqa: RUF001 - a Cyrillic letter
    "name\u200b == 'x'",
    "\u202ename == 'x'",
    "true\u00a0and true",
    "",
    " ",
    "\x00",
    "\ufeffname",
    "name matches '(a+)+$'",
    "matches(text, '(a+)+$')",
    "matches(text, '(a|aa)+$')",
    "matches(text, '" + "(" * 2_000 + "a" + ")" * 2_000 + "')",
    "matches(text, 'a{1,1000}{1,1000}')",
    "matches(text, '(?P<x>')",
    "matches(text, '\\\\1')",
    "contains(list, list)",
    "length(length)",
    "length()",
    "length(1, 2, 3)",
    "lower(n)",
    "all(list, all)",
    "context.context.context.map.secret.x",
    "input.input.input",
)

PAYLOADS: Final = tuple(
    dict.fromkeys(
        (
            *(f"{name}('id')" for name in _NAMES),
            *(f"name.{member}" for member in _MEMBERS),
            *_ESCAPES,
        )
    )
)


class Held(Struct, frozen=True):
    """How an attempt ended: refused when read, unknown, or a plain value."""

    how: str
    value: object = None


def attempt(text: str, read: Any) -> Held:
    """Read and evaluate an expression in both ways; whatever raises but a refusal goes through."""
    try:
        expression: Expression = read(text)
    except ExpressionRefused:
        return Held("refused")
    expression.compile()
    scope = EvaluationScope(CONTEXT, "given")
    found, careful = expression.answer(scope), expression.carefully(scope)
    if (found.value is UNKNOWN) != (careful.value is UNKNOWN):
        return Held("differs", found.value)
    if found.value is UNKNOWN:
        return Held("unknown")
    return Held("value", found.value)


def is_plain(found: object) -> bool:
    """Tell whether a value is one that a context may hold, and no part of the program."""
    if isinstance(found, dict):
        return all(isinstance(key, str) and is_plain(item) for key, item in found.items())
    if isinstance(found, list):
        return all(map(is_plain, found))
    return found is None or type(found) in {bool, int, str, Decimal}


READERS: Final = (condition, lambda text: value(text, has_input=True))
