"""From the tokens of an expression to its tree. Precedence, from loose to tight:

c ? a : b   or ||   and &&   not   == != < <= > >= in contains …   + -   * / %   - !   . [ ]
"""

from __future__ import annotations

from decimal import Decimal
from typing import NoReturn, cast, get_args

from pointsman.expressions.lexer import Token, tokens
from pointsman.expressions.syntax import (
    MAX_DEPTH,
    MAX_NODES,
    Arithmetic,
    ArithmeticSign,
    Choice,
    Compare,
    CompareSign,
    ExpressionRefused,
    FunctionCall,
    Item,
    ListOf,
    Literal,
    Logic,
    LogicWord,
    MapOf,
    Minus,
    Node,
    Not,
    Path,
    Test,
    TestWord,
    inner,
)
from pointsman.kernel.document import escape

_NONE, _CHOICE, _OR, _AND, _NOT, _COMPARE, _SUM, _PRODUCT, _UNARY = range(-1, 8)
_TESTS = get_args(TestWord)
_LEVELS = {
    "?": _CHOICE,
    "or": _OR,
    "and": _AND,
    **dict.fromkeys((*get_args(CompareSign), *_TESTS), _COMPARE),
    **dict.fromkeys("+-", _SUM),
    **dict.fromkeys("*/%", _PRODUCT),
}
_SPELLINGS = {"||": "or", "&&": "and"}
_LITERALS = {"true": True, "false": False, "null": None}
_WORDS = frozenset({"and", "or", "not", "in", *_LITERALS})
_DELIMITERS = (("{{", "}}"), ("${", "}"))


def parse_expression(text: str) -> Node:
    """Return the tree of an expression, with or without `{{ }}` or `${ }` round it."""
    start, end = _inside(text)
    # Blanks stand for the delimiters, so that columns are those of the text as written.
    parser = _Parser(text, " " * start + text[start:end])
    return parser.whole()


def _inside(text: str) -> tuple[int, int]:
    body = text.strip()
    first = len(text) - len(text.lstrip())
    for opening, closing in _DELIMITERS:
        if body.startswith(opening):
            if not body.endswith(closing) or len(body) < len(opening) + len(closing):
                message = f"`{opening}` without `{closing}` at the end"
                hint = "a template must wrap the whole text"
                raise ExpressionRefused(message, text=text, at=first, hint=hint)
            return first + len(opening), first + len(body) - len(closing)
    return 0, len(text)


class _Parser:
    """Reads tokens once, from left to right."""

    def __init__(self, text: str, body: str) -> None:
        self._text = text
        self._tokens = tokens(body)
        self._next = 0
        self._depth = 0

    def whole(self) -> Node:
        """Read all of the text."""
        if self._ends():
            self._refuse(self._token, "the expression is empty")
        node = self._expression()
        if not self._ends():
            self._fail_at(self._token)
        self._check_size(node)
        return node

    def _expression(self, floor: int = _CHOICE) -> Node:
        """Read operators that bind at least as tightly as `floor`, and their operands."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._refuse(self._token, f"nested deeper than {MAX_DEPTH}")
        node = self._prefix(floor)
        while True:
            sign = self._operator()
            level = _LEVELS.get(sign, _NONE)
            if level < floor:
                break
            node = self._infix(node, sign, level)
        self._depth -= 1
        return node

    def _prefix(self, floor: int) -> Node:
        token = self._token
        if self._is("not") and floor <= _NOT:
            self._take()
            return Not(token.at, self._expression(_NOT))
        if self._is("-") or self._is("!"):
            self._take()
            of = self._expression(_UNARY)
            return _negate(token.at, of) if token.text == "-" else Not(token.at, of)
        return self._member()

    def _operator(self) -> str:
        """Return the operator that stands here, by one spelling, or an empty text."""
        token = self._token
        if token.kind not in {"sign", "name"}:
            return ""
        if token.text == "not" and self._tokens[self._next + 1].text == "in":
            return "not in"
        return _SPELLINGS.get(token.text, token.text)

    def _infix(self, left: Node, sign: str, level: int) -> Node:
        at = self._take().at
        if sign == "not in":
            self._take()
        if level == _CHOICE:
            yes = self._expression()
            self._expect(":")
            return Choice(at, left, yes, self._expression())
        if level in {_OR, _AND}:
            return self._logic(left, at, cast("LogicWord", sign), level)
        if sign == "*" and self._is("*"):
            self._refuse(self._token, "there are no powers")
        right = self._expression(level + 1)
        if level != _COMPARE:
            return Arithmetic(at, cast("ArithmeticSign", sign), left, right)
        if _LEVELS.get(self._operator()) == _COMPARE:
            hint = "write `a < b and b < c`"
            self._refuse(self._token, "comparisons cannot be chained", hint)
        if sign in _TESTS:
            return Test(at, cast("TestWord", sign), left, right)
        return Compare(at, cast("CompareSign", sign), left, right)

    def _logic(self, left: Node, at: int, word: LogicWord, level: int) -> Node:
        parts = [left, self._expression(level + 1)]
        while self._operator() == word:
            self._take()
            parts.append(self._expression(level + 1))
        return Logic(at, word, tuple(parts))

    def _member(self) -> Node:
        node = self._operand()
        while self._is(".") or self._is("["):
            at = self._take().at
            if self._tokens[self._next - 1].text == ".":
                node = self._joined_key(node, at, Literal(at, self._key_name()))
            else:
                key = self._expression()
                self._expect("]")
                node = self._joined_key(node, at, key)
        return node

    def _key_name(self) -> str:
        if self._token.kind != "name":
            hint = "write `['…']` for a key that is no plain name"
            self._refuse(self._token, "expected a name after `.`", hint)
        return self._take().text

    def _joined_key(self, of: Node, at: int, key: Node) -> Node:
        if isinstance(of, Path) and isinstance(key, Literal):
            step = key.value
            if isinstance(step, str) or (type(step) is int and step >= 0):
                # Without this a path of one node nests as deep as it has members once compiled.
                if len(of.steps) >= MAX_DEPTH:
                    self._refuse(self._token, f"a path of more than {MAX_DEPTH} members")
                return Path(of.at, of.root, (*of.steps, step))
        return Item(at, of, key)

    def _operand(self) -> Node:
        token = self._take()
        if token.kind in {"number", "text"}:
            return Literal(token.at, token.value)
        if token.kind == "name":
            return self._name_or_call(token)
        if token.text == "(":
            node = self._expression()
            self._expect(")")
            return node
        if token.text == "[":
            return ListOf(token.at, self._arguments("]"))
        if token.text == "{":
            return self._map(token)
        return self._fail_at(token)

    def _name_or_call(self, token: Token) -> Node:
        if self._is("("):
            if token.text in _WORDS:
                self._fail_at(token)
            self._take()
            return FunctionCall(token.at, token.text, self._arguments(")"))
        if token.text in _LITERALS:
            return Literal(token.at, _LITERALS[token.text])
        if token.text in _WORDS or token.text in _TESTS:
            self._fail_at(token)
        return Path(token.at, token.text)

    def _arguments(self, closing: str) -> tuple[Node, ...]:
        found: list[Node] = []
        while not self._is(closing):
            found.append(self._expression())
            if not self._is(closing):
                self._expect(",")
        self._take()
        return tuple(found)

    def _map(self, opening: Token) -> Node:
        members: dict[str, Node] = {}
        while not self._is("}"):
            token = self._take()
            key = str(token.value) if token.kind == "text" else token.text
            if token.kind not in {"text", "name"}:
                hint = "a template must wrap the whole text" if token.text == "{" else ""
                self._refuse(token, "expected a key", hint)
            if key in members:
                self._refuse(token, f"the key `{escape(key)}` stands here twice")
            self._expect(":")
            members[key] = self._expression()
            if not self._is("}"):
                self._expect(",")
        self._take()
        return MapOf(opening.at, tuple(members), tuple(members.values()))

    @property
    def _token(self) -> Token:
        return self._tokens[self._next]

    def _is(self, text: str) -> bool:
        return self._token.text == text and self._token.kind != "text"

    def _ends(self) -> bool:
        return self._token.kind == "end"

    def _take(self) -> Token:
        token = self._token
        if token.kind != "end":
            self._next += 1
        return token

    def _expect(self, sign: str) -> None:
        if not self._is(sign):
            self._refuse(self._token, f"expected `{sign}`, got {_token_text(self._token)}")
        self._take()

    def _check_size(self, whole: Node) -> None:
        """Refuse a tree that is too deep or too large, without recursion."""
        level, depth, count = [whole], 0, 0
        while level:
            depth, count = depth + 1, count + len(level)
            if depth > MAX_DEPTH or count > MAX_NODES:
                message = f"more than {MAX_NODES} parts, or nested deeper than {MAX_DEPTH}"
                raise ExpressionRefused(message, text=self._text, at=level[0].at)
            level = [each for node in level for each in inner(node)]

    def _fail_at(self, token: Token) -> NoReturn:
        hint = ""
        before = next((each for each in reversed(self._tokens) if each.at < token.at), token)
        if token.kind == "name" and before.kind in {"name", "text", "number"}:
            hint = "an operator such as `and`, `or`, `==` is missing or misspelt"
        if token.text == ">" and before.text == "-":
            hint = "there are no lambdas"
        self._refuse(token, f"unexpected {_token_text(token)}", hint)

    def _refuse(self, token: Token, message: str, hint: str = "") -> NoReturn:
        at = min(token.at, len(self._text))
        raise ExpressionRefused(message, text=self._text, at=at, hint=hint)


def _negate(at: int, of: Node) -> Node:
    value = of.value if isinstance(of, Literal) else None
    if type(value) is int:
        return Literal(at, -value)
    # DETERMINISM: `-value` would round to whatever decimal context the caller has set.
    return Literal(at, value.copy_negate()) if isinstance(value, Decimal) else Minus(at, of)


def _token_text(token: Token) -> str:
    return "the end" if token.kind == "end" else f"`{escape(token.text)}`"
