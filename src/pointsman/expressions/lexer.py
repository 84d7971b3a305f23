"""From the text of an expression to its tokens, each with its place. Linear in the text."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Literal, NoReturn, TypeAlias

from msgspec import Struct

from pointsman.expressions.syntax import MAX_CHARACTERS, ExpressionRefused
from pointsman.kernel.canonical import MAX_INT
from pointsman.kernel.document import escape
from pointsman.kernel.literal import MOST_DIGITS, MOST_EXPONENT
from pointsman.kernel.source_text import joined_surrogates

TokenKind: TypeAlias = Literal["number", "text", "name", "sign", "end"]

_SPACE = re.compile(r"[ \t\r\n]+")
_NUMBER = re.compile(r"(?P<whole>[0-9]+)(?P<part>\.[0-9]+)?(?:[eE](?P<power>[-+]?[0-9]+))?")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TEXT = re.compile(r"'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_SIGN = re.compile(r"&&|\|\||[=!<>]=|[-+*/%<>!()\[\]{},.:?]")

_ESCAPES = {"\\": "\\", "'": "'", '"': '"', "n": "\n", "t": "\t", "r": "\r", "/": "/"}
_HINTS = {
    "=": "write `==` to compare",
    "&": "write `and` or `&&`",
    "|": "write `or` or `||`",
    "'": "close the text with the same quote",
    '"': "close the text with the same quote",
    "`": "texts stand in single or double quotes",
    "@": "there are no decorators and no aliases here",
    ";": "an expression is one value",
    "#": "expressions have no comments",
    "^": "there are no powers",
    "~": "write `not` or `!`",
    "$": "`${ … }` must wrap the whole text",
}


class Token(Struct, frozen=True):
    """One word, sign or value; `at` counts characters from 0."""

    kind: TokenKind
    at: int
    text: str
    value: int | str | Decimal | None = None


def tokens(text: str) -> list[Token]:
    """Return the tokens of a text, the last of which is its end."""
    if len(text) > MAX_CHARACTERS:
        message = f"the expression is longer than {MAX_CHARACTERS} characters"
        raise ExpressionRefused(message, text=text[:80])
    found: list[Token] = []
    at = 0
    while at < len(text):
        space = _SPACE.match(text, at)
        if space is not None:
            at = space.end()
            continue
        found.append(_token(text, at))
        at += len(found[-1].text)
    return [*found, Token("end", len(text), "")]


def _token(text: str, at: int) -> Token:
    first = text[at]
    if first in "0123456789":
        return _number(text, at)
    name = _NAME.match(text, at)
    if name is not None:
        return _name(text, at, name[0])
    written = _TEXT.match(text, at)
    if written is not None:
        return Token("text", at, written[0], _unescape(text, at, written[0]))
    sign = _SIGN.match(text, at)
    if sign is None:
        _refuse(text, at, f"`{escape(first)}` has no meaning here", _HINTS.get(first, ""))
    return Token("sign", at, sign[0])


def _name(text: str, at: int, name: str) -> Token:
    if name.startswith("__"):
        _refuse(text, at, f"`{escape(name)}` starts with two underscores", "use another name")
    return Token("name", at, name)


def _number(text: str, at: int) -> Token:
    match = _NUMBER.match(text, at)
    assert match is not None  # noqa: S101 - the text starts with a digit
    after = text[match.end() : match.end() + 1]
    if after == "." or _NAME.match(after):
        _refuse(text, at, f"`{escape(match[0] + after)}` is not a number")
    whole, power = match["whole"], match["power"] or "0"
    digits = len(whole) + len(match["part"] or "")
    if digits > MOST_DIGITS or len(power) > 4 or abs(int(power)) > MOST_EXPONENT:
        message = f"`{escape(match[0])}` has more than {MOST_DIGITS} digits or too large a power"
        _refuse(text, at, message)
    if len(whole) > 1 and whole.startswith("0"):
        _refuse(text, at, f"`{escape(match[0])}` starts with a zero", "remove the zero")
    return Token("number", at, match[0], _exact(Decimal(match[0])))


def _exact(number: Decimal) -> int | Decimal:
    is_whole = -MAX_INT <= number <= MAX_INT and number == number.to_integral_value()
    return int(number) if is_whole else number


def _unescape(text: str, at: int, written: str) -> str:
    def character(match: re.Match[str]) -> str:
        if match[1] is not None:
            return chr(int(match[1], 16))
        if match[2] not in _ESCAPES:
            hint = "write `\\\\` for a backslash"
            _refuse(text, at + 1 + match.start(), f"`\\{escape(match[2])}` is no escape", hint)
        return _ESCAPES[match[2]]

    joined = joined_surrogates(_ESCAPE.sub(character, written[1:-1]))
    if joined is None:
        _refuse(text, at, "the text holds half a surrogate pair")
    return joined


def _refuse(text: str, at: int, message: str, hint: str = "") -> NoReturn:
    raise ExpressionRefused(message, text=text, at=at, hint=hint)
