"""What a plain YAML scalar means: the core schema of YAML 1.2, without its ambiguous spellings."""

from __future__ import annotations

import re

from pointsman.kernel import literal
from pointsman.kernel.codes import Code
from pointsman.kernel.document import Json, Position, escape
from pointsman.kernel.tree import Tree

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE = frozenset({"true", "True", "TRUE"})
_FALSE = frozenset({"false", "False", "FALSE"})
_NOT_TEXT = _NULL | _TRUE | _FALSE
_NUMBER = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9]")
_OTHER_BASE = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")


def plain(tree: Tree, text: str, position: Position) -> Json:
    """Return what unquoted `text` stands for; note a problem when that cannot be told exactly."""
    if text in _NULL:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if _NUMBER.fullmatch(text):
        return _number(tree, text, position)
    if _OTHER_BASE.fullmatch(text):
        return literal.whole_number(tree, text, 0, position)
    if _NOT_FINITE.fullmatch(text):
        literal.not_finite(tree, text, position)
    return text


def means_text(text: str) -> bool:
    """Whether unquoted `text` is a text, and neither a number nor a truth value nor nothing."""
    patterns = (_NUMBER, _OTHER_BASE, _NOT_FINITE)
    return text not in _NOT_TEXT and not any(each.fullmatch(text) for each in patterns)


def _number(tree: Tree, text: str, position: Position) -> Json:
    if _LEADING_ZERO.match(text):
        message = (
            f"`{escape(text)}` starts with a zero, which some readers take for an octal number"
        )
        hint = "put it in quotes if it is a text, else remove the zero"
        tree.report(position, Code.LEADING_ZERO, message, hint)
        return 0
    return literal.number(tree, text, position)
