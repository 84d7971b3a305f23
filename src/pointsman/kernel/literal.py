"""Numbers and texts as both formats write them, read exactly or refused with a reason."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated, Final

from msgspec import Meta

from pointsman.kernel.canonical import MAX_INT
from pointsman.kernel.codes import Code
from pointsman.kernel.document import Position, escape
from pointsman.kernel.source_text import joined_surrogates
from pointsman.kernel.tree import Tree

MAX_USD: Final = 1_000_000_000
MAX_NEIGHBOURS: Final = 10_000

Usd = Annotated[Decimal, Meta(extra_json_schema={"minimum": 0, "maximum": MAX_USD})]
"""An amount of dollars."""

SignedUsd = Annotated[Decimal, Meta(extra_json_schema={"minimum": -MAX_USD, "maximum": MAX_USD})]
"""An amount of dollars that may be owed."""

Fraction = Annotated[Decimal, Meta(extra_json_schema={"minimum": 0, "maximum": 1})]
"""A share of one."""

Count = Annotated[int, Meta(ge=0, le=MAX_INT)]
AtLeastOne = Annotated[int, Meta(ge=1, le=MAX_INT)]
Neighbours = Annotated[int, Meta(ge=1, le=MAX_NEIGHBOURS)]
ClockTime = Annotated[str, Meta(pattern="^([01][0-9]|2[0-3]):[0-5][0-9]$")]


MOST_DIGITS = 64
MOST_EXPONENT = 64
LARGEST_INTEGER = 2**53 - 1
"""The largest whole number that every JSON reader holds exactly."""

_PARTS = re.compile(r"[-+]?(?P<digits>[0-9]*\.?[0-9]*)(?:[eE](?P<exponent>[-+]?[0-9]+))?\Z")


def number(tree: Tree, text: str, position: Position) -> int | Decimal:
    """Return a decimal number exactly; note a problem and return 0 when it is beyond the limits."""
    parts = _PARTS.fullmatch(text)
    if parts is None or _is_too_long(parts["digits"], parts["exponent"] or "0"):
        message = f"`{escape(text)}` has more than {MOST_DIGITS} digits or too large an exponent"
        tree.report(position, Code.NUMBER_TOO_LONG, message, "write it in quotes if it is a text")
        return 0
    if "." in text or parts["exponent"]:
        return Decimal(text)
    return whole_number(tree, text, 10, position)


def whole_number(tree: Tree, text: str, base: int, position: Position) -> int:
    """Return a whole number; note a problem and return 0 when it is beyond 2^53 - 1."""
    # A base other than 10 has no length limit of its own, so it is judged before it is read.
    value = int(text, base) if len(text) <= MOST_DIGITS + 2 else LARGEST_INTEGER + 1
    if abs(value) <= LARGEST_INTEGER:
        return value
    message = f"`{escape(text)}` is beyond {LARGEST_INTEGER}, the largest whole number read exactly"
    tree.report(position, Code.INTEGER_TOO_LARGE, message, "write it in quotes if it is a text")
    return 0


def string(tree: Tree, text: str, position: Position) -> str:
    """Return text with surrogate pairs joined; note a problem when half a pair stands alone."""
    joined = text if text.isascii() else joined_surrogates(text)
    if joined is None:
        hint = "write the character itself, or both halves of the pair"
        tree.report(position, Code.CHARACTER, "the text holds half a surrogate pair", hint)
    return joined or ""


def not_finite(tree: Tree, text: str, position: Position) -> None:
    """Note that `text` names a number that is not finite."""
    hint = "write a number, or put it in quotes if it is a text"
    tree.report(position, Code.NOT_FINITE, f"`{text}` is not a finite number", hint)


def _is_too_long(digits: str, exponent: str) -> bool:
    # The exponent's own length is judged first: `int` of a very long text is slow.
    return (
        len(digits.replace(".", "")) > MOST_DIGITS
        or len(exponent) > MOST_DIGITS
        or abs(int(exponent)) > MOST_EXPONENT
    )
