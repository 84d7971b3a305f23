"""Strict JSON (RFC 8259) by a scanner of our own, so that every refusal has its line and column."""

from __future__ import annotations

import re
from typing import NoReturn

from pointsman.kernel import literal
from pointsman.kernel.codes import Code
from pointsman.kernel.document import (
    DEFAULT_LIMITS,
    Document,
    DocumentLimits,
    Json,
    Position,
    escape,
)
from pointsman.kernel.source_text import Lines, decode
from pointsman.kernel.tree import Tree

_SPACE = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_PLAIN = re.compile(r'[^"\\\x00-\x1f]*')
_HEX = re.compile(r"[0-9a-fA-F]{4}")
_WORD = re.compile(r"[-+.\w]+")
_NOT_FINITE = frozenset({"NaN", "Infinity", "-Infinity"})
_CLOSERS = {True: "}", False: "]"}
_ESCAPES = {
    '"': '"',
    "\\": "\\",
    "/": "/",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
}


def read_json(text: bytes, source: str, limits: DocumentLimits = DEFAULT_LIMITS) -> Document:
    """Read one JSON value; raise `DocumentError` with all problems found, each with its place."""
    tree = Tree(source, limits)
    _Reader(decode(text, source, limits), tree).read()
    return tree.document()


class _Reader:
    """Walks the text once; open containers are the tree's stack, never Python's."""

    def __init__(self, text: str, tree: Tree) -> None:
        self._text = text
        self._tree = tree
        self._lines = Lines(text)
        self._at = 0

    def read(self) -> None:
        """Read the whole text into the tree."""
        self._skip_space()
        self._value()
        while self._tree.depth:
            self._skip_space()
            self._after_value()
        self._skip_space()
        if self._at < len(self._text):
            self._fail("text after the end of the document", "a JSON text holds one value")

    def _value(self) -> None:
        while self._begins_container():
            pass

    def _begins_container(self) -> bool:
        """Read one scalar or one empty container; or stand at the first value inside one."""
        start, position = self._next(), self._position()
        if start not in ("{", "["):
            self._tree.leaf(self._scalar(start, position), position)
            return False
        container: dict[str, Json] | list[Json] = {} if start == "{" else []
        self._tree.open(container, position)
        self._at += 1
        self._skip_space()
        if self._closes():
            return False
        self._member()
        return True

    def _after_value(self) -> None:
        if self._closes():
            return
        if self._next() != ",":
            closer = _CLOSERS[self._tree.in_mapping]
            self._fail(f"expected `,` or `{closer}`, got {self._next_text()}")
        comma = self._at
        self._at += 1
        self._skip_space()
        if self._next() in ("}", "]"):
            self._at = comma
            self._fail("a comma before the end of a list or mapping", "remove the comma")
        self._member()
        self._value()

    def _closes(self) -> bool:
        if self._next() != _CLOSERS[self._tree.in_mapping]:
            return False
        self._at += 1
        self._tree.close()
        return True

    def _member(self) -> None:
        """Read the key and colon before a mapping's value; a list's value has none."""
        if not self._tree.in_mapping:
            return
        position = self._position()
        if self._next() != '"':
            self._fail(f"expected a key in double quotes, got {self._next_text()}")
        self._tree.key(self._string(position), position)
        self._skip_space()
        if self._next() != ":":
            self._fail(f"expected `:` after the key, got {self._next_text()}")
        self._at += 1
        self._skip_space()

    def _scalar(self, start: str, position: Position) -> Json:
        if start == '"':
            return self._string(position)
        word = _WORD.match(self._text, self._at)
        if word is None:
            self._fail(f"expected a value, got {self._next_text()}", _hint(start))
        value = self._word(word[0], position)
        self._at = word.end()
        return value

    def _word(self, word: str, position: Position) -> Json:
        if word in ("true", "false"):
            return word == "true"
        if _NUMBER.fullmatch(word):
            return literal.number(self._tree, word, position)
        if word in _NOT_FINITE:
            literal.not_finite(self._tree, word, position)
        elif word != "null":
            self._fail(f"`{escape(word)}` is not a JSON value", _hint(word))
        return None

    def _string(self, position: Position) -> str:
        self._at += 1
        parts: list[str] = []
        while True:
            parts.append(self._take(_PLAIN))
            if self._next() == '"':
                self._at += 1
                return literal.string(self._tree, "".join(parts), position)
            parts.append(self._special(position))

    def _special(self, position: Position) -> str:
        character = self._next()
        if character == "\\":
            return self._escape()
        if not character:
            self._fail("this text has no closing quote", at=position)
        message = f"control character `{escape(character)}` inside a text"
        self._tree.report(self._position(), Code.CHARACTER, message, "write it as an escape")
        self._at += 1
        return character

    def _escape(self) -> str:
        letter = self._text[self._at + 1 : self._at + 2]
        if letter == "u":
            return self._code_unit()
        if letter not in _ESCAPES:
            self._fail(f"`\\{escape(letter)}` is not an escape", "write `\\\\` for a backslash")
        self._at += 2
        return _ESCAPES[letter]

    def _code_unit(self) -> str:
        digits = _HEX.match(self._text, self._at + 2)
        if digits is None:
            self._fail("`\\u` needs four hexadecimal digits")
        self._at += 6
        return chr(int(digits[0], 16))

    def _skip_space(self) -> None:
        self._take(_SPACE)

    def _take(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._at)
        taken = match[0] if match else ""
        self._at += len(taken)
        return taken

    def _next(self) -> str:
        return self._text[self._at : self._at + 1]

    def _next_text(self) -> str:
        character = self._next()
        return f"`{escape(character)}`" if character else "the end of the text"

    def _position(self) -> Position:
        return self._lines.position(self._at)

    def _fail(self, message: str, hint: str = "", *, at: Position | None = None) -> NoReturn:
        self._tree.fail(at or self._position(), Code.SYNTAX, message, hint)


def _hint(word: str) -> str:
    """Return what to write instead of something that looks like a value of another language."""
    if word in ("'", "`"):
        return "texts stand in double quotes"
    if word in ("/", "#"):
        return "JSON has no comments"
    if word.lower() in ("true", "false", "none", "null", "undefined"):
        return "write `true`, `false` or `null`"
    if word.lstrip("-+")[:1].isdigit() or word[:1] in ("-", "+", "."):
        return "a number has no leading zero or plus, and digits on both sides of its point"
    return "texts stand in double quotes" if word else ""
