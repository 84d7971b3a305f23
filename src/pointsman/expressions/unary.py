"""Cells of decision tables: literal S-FEEL unary tests, turned into conditions of our language.

`-`, `>= 18`, `[18..65)`, `"Medium","Low"`, `not("High")`, `>= date("2026-01-31")`. A cell may name
a value that is known; other names and functions are refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NoReturn

from msgspec import Struct

from pointsman.expressions.syntax import MAX_CHARACTERS, ExpressionRefused
from pointsman.kernel.document import escape

_TOKEN = re.compile(
    r'\s*(?:(?P<text>"(?:[^"\\]|\\.)*")|(?P<number>-?[0-9]*\.?[0-9]+(?![\w.])|-?[0-9]+(?=\.\.))'
    r"|(?P<word>[A-Za-z_][\w-]*)|(?P<sign>\.\.|<=|>=|!=|[<>=\[\]()\-,]))"
)
_LITERALS = {"true", "false", "null"}
_DATES = {"date"}
_DATE = "parse("
_INSTANT = re.compile(r"'[0-9]{4}-[0-9]{2}-[0-9]{2}'")
_BARE = re.compile(r"[^<>=\[\](),\"]+")
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_]*(?:\.[A-Za-z][A-Za-z0-9_]*)*")
_PART = r"[^\W\d][\w']*(?:[ /-][\w']+)*"
_NAME = re.compile(rf"{_PART}(?:\.{_PART})*")


class _Token(Struct, frozen=True):
    kind: str
    text: str
    at: int


def path_of(name: str) -> str:
    """Return the path that a column's name stands for; a name may hold blanks."""
    name = name.strip()
    if _PLAIN.fullmatch(name):
        return name
    if not _NAME.fullmatch(name):
        message = f"`{escape(name)}` is not a name"
        raise ExpressionRefused(message, text=name, hint="a column tests one value by its name")
    return "context" + "".join(f"[{literal_text(part)}]" for part in name.split("."))


def literal_text(text: str) -> str:
    """Write a text as a literal of our language."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"


def condition_of(
    path: str, cell: str, *, is_bare: bool = False, names: Collection[str] = ()
) -> str:
    """Return the condition of one cell; empty where it allows everything.

    Where `is_bare`, a word that is no test stands for itself as a text, as in a spreadsheet. The
    `names` are those of values, which a cell may compare with.
    """
    if cell.strip() in {"", "-"}:
        return ""
    return _Cell(path, cell, is_bare=is_bare, names=names).condition()


def literals_of(cell: str) -> list[str]:
    """Return the literals of a list such as `"Low","High"`, written in our language."""
    return _Cell("", cell, is_bare=False).literals() if cell.strip() else []


class _Cell:
    def __init__(self, path: str, text: str, *, is_bare: bool, names: Collection[str] = ()) -> None:
        self._path = path
        self._names = names
        self._text = text
        self._is_bare = is_bare
        self._next = 0
        if len(text) > MAX_CHARACTERS:
            self._refuse(f"the cell is longer than {MAX_CHARACTERS} characters", at=0)
        self._tokens = self._read()

    def condition(self) -> str:
        """Read the whole cell."""
        if self._peek() == "not" and self._peek(1) == "(":
            self._next += 2
            tests = self._tests(")")
            self._take(")")
            found = f"not ({self._condition_text(tests)})"
        else:
            found = self._condition_text(self._tests(""))
        if self._next < len(self._tokens):
            self._refuse(f"unexpected `{self._peek()}`")
        return found

    def literals(self) -> list[str]:
        """Read a list of literals."""
        found = [self._literal()]
        while self._peek() == ",":
            self._next += 1
            found.append(self._literal())
        return found

    def _tests(self, end: str) -> list[tuple[str, str]]:
        found = [self._test()]
        while self._peek() == "," and self._peek() != end:
            self._next += 1
            found.append(self._test())
        return found

    def _test(self) -> tuple[str, str]:
        """Return a sign and a literal, or an empty sign and a whole condition."""
        sign = self._peek()
        if sign in {"<", "<=", ">", ">=", "=", "!="}:
            self._next += 1
            return ("==" if sign == "=" else sign, self._literal())
        if sign in {"[", "(", "]"}:
            return "", self._interval()
        return "==", self._literal()

    def _interval(self) -> str:
        low = ">=" if self._advance() == "[" else ">"
        first = self._literal()
        self._take("..")
        last = self._literal()
        closing = self._advance()
        if closing not in {"]", ")", "["}:
            self._refuse("an interval ends with `]` or `)`")
        high = "<=" if closing == "]" else "<"
        return f"({self._comparison(low, first)} and {self._comparison(high, last)})"

    def _comparison(self, sign: str, literal: str) -> str:
        """Compare the column's value; as a date where the literal is one."""
        path = f"parse({self._path})" if literal.startswith(_DATE) else self._path
        return f"{path} {sign} {literal}"

    def _condition_text(self, tests: list[tuple[str, str]]) -> str:
        equal = [literal for sign, literal in tests if sign == "=="]
        parts = [self._comparison(s, text) if s else text for s, text in tests if s != "=="]
        dates = [each for each in equal if each.startswith(_DATE)]
        if len(equal) == 1 or dates:
            parts = [*(self._comparison("==", each) for each in equal), *parts]
        elif equal:
            parts.insert(0, f"{self._path} in [{', '.join(equal)}]")
        return parts[0] if len(parts) == 1 else "(" + " or ".join(parts) + ")"

    def _literal(self) -> str:
        if self._next >= len(self._tokens):
            self._refuse("a literal is missing at the end")
        token = self._tokens[self._next]
        self._next += 1
        if token.kind == "text":
            body = token.text[1:-1].replace('\\"', '"') if token.text[:1] == '"' else token.text
            return literal_text(body)
        if token.kind == "number":
            return "0" + token.text if token.text.startswith(".") else token.text
        if token.kind == "word" and token.text in _DATES and self._peek() == "(":
            self._next += 1
            text = self._literal()
            self._take(")")
            if not _INSTANT.fullmatch(text):
                self._next -= 2
                self._refuse(f"{text} is no date")
            return f"{_DATE}{text})"
        if token.kind == "word" and token.text in self._names:
            return path_of(token.text)
        if token.kind != "word" or token.text not in _LITERALS:
            self._next -= 1
            message = f"`{escape(token.text)}` is not a literal"
            self._refuse(message, "names and functions are not read")
        return token.text

    def _read(self) -> list[_Token]:
        found: list[_Token] = []
        at = 0
        while self._text[at:].strip():
            match = _TOKEN.match(self._text, at)
            bare = self._bare(at, match)
            if bare is not None:
                found.append(bare)
                at = bare.at + len(bare.text)
                continue
            kind = None if match is None else match.lastgroup
            if match is None or kind is None:
                self._refuse("this cannot be read", at=at)
            found.append(_Token(kind, match[kind], match.start(kind)))
            at = match.end()
        return [
            _Token(each.kind, each.text.strip(), each.at) if each.kind == "text" else each
            for each in found
        ]

    def _bare(self, at: int, match: re.Match[str] | None) -> _Token | None:
        """Return a run of letters that a spreadsheet holds as a text without quotes."""
        if not self._is_bare or (match is not None and match.lastgroup in {"text", "sign"}):
            return None
        run = _BARE.match(self._text, at)
        word = "" if run is None else run[0].strip()
        is_test = word in {"not", *_LITERALS} or re.fullmatch(r"-?[0-9.]+", word) is not None
        if run is None or not word or is_test or ".." in word:
            return None
        return _Token("text", run[0], at)

    def _peek(self, ahead: int = 0) -> str:
        at = self._next + ahead
        return self._tokens[at].text if at < len(self._tokens) else ""

    def _advance(self) -> str:
        self._next += 1
        return self._peek(-1)

    def _take(self, sign: str) -> None:
        if self._peek() != sign:
            self._refuse(f"expected `{sign}`")
        self._next += 1

    def _refuse(self, message: str, hint: str = "", *, at: int | None = None) -> NoReturn:
        tokens = self._tokens if at is None else []
        place = tokens[self._next].at if self._next < len(tokens) else len(self._text)
        raise ExpressionRefused(message, text=self._text, at=place if at is None else at, hint=hint)
