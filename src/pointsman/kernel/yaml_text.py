"""YAML 1.2 as people write configuration: no anchors, aliases, tags, merge keys, many documents.

It reads parser events one by one, so every limit holds before memory or the stack is used up.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import TypeAlias

import yaml

from pointsman.kernel import literal
from pointsman.kernel.codes import Code
from pointsman.kernel.document import (
    DEFAULT_LIMITS,
    START,
    Document,
    DocumentLimits,
    Json,
    Position,
    escape,
    path_text,
    refuse,
)
from pointsman.kernel.source_text import Lines, decode
from pointsman.kernel.tree import Tree

_Node: TypeAlias = yaml.ScalarEvent | yaml.MappingStartEvent | yaml.SequenceStartEvent
Loader: TypeAlias = type[yaml.SafeLoader] | type[yaml.CSafeLoader]

FAST_LOADER: Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Twenty times faster where it is built in."""

# Line ends that only YAML 1.1 knows are refused too: editors do not count them as lines.
_REFUSED = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")

_TAB_DIRECTIVE_OR_TAG = re.compile(r"\t|^%|(?:^|[^\w.])!", re.MULTILINE)
_BRACKET = re.compile(r"[\[{]")

_PARSE_ERRORS = (yaml.YAMLError, ValueError, OverflowError)
"""The pure parser lets numbers in escapes and directives raise the last two."""

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE = frozenset({"true", "True", "TRUE"})
_FALSE = frozenset({"false", "False", "FALSE"})
_NOT_TEXT = _NULL | _TRUE | _FALSE
_NUMBER = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9]")
_OTHER_BASE = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")

_HINTS = {
    "mapping values are not allowed here": "put texts that hold `: ` in quotes",
    "could not find expected ':'": "each key is followed by `:`",
}


def read_yaml(text: bytes, source: str, limits: DocumentLimits = DEFAULT_LIMITS) -> Document:
    """Read one YAML document; raise `DocumentError` with all problems found, each with its place.

    Only `true` and `false` (also `True`, `TRUE`) are truth values; `no` and `22:00` are texts.
    A text without content reads as nothing; a key or list item without one is refused, while
    `null` and `~` are nothing, said on purpose.
    """
    document = parse_yaml(text, source, limits)
    refuse(document.problems)
    return document


def parse_yaml(text: bytes, source: str, limits: DocumentLimits = DEFAULT_LIMITS) -> Document:
    """Read one YAML document as `read_yaml` does; what leaves the rest readable is not raised.

    It stands in the document's `problems` for `conform` to raise with all others.
    """
    decoded = decode(text, source, limits)
    _refuse_characters(decoded, Tree(source, limits))
    if _parsers_agree(decoded):
        # DETERMINISM: only the pure parser decides which text is invalid, and where.
        with suppress(*_PARSE_ERRORS):
            return _Reader(Tree(source, limits)).read(_events(FAST_LOADER(decoded)))
    return _read_slowly(decoded, Tree(source, limits))


def _parsers_agree(text: str) -> bool:
    # DETERMINISM: the two parsers differ on tabs, directives, tags, and `?` within brackets.
    has_question = "?" in text and _BRACKET.search(text)
    return not has_question and not _TAB_DIRECTIVE_OR_TAG.search(text)


def _read_slowly(text: str, tree: Tree) -> Document:
    loader = yaml.SafeLoader(text)
    try:
        return _Reader(tree).read(_events(loader))
    except _PARSE_ERRORS as error:
        mark = getattr(error, "problem_mark", None) or loader.get_mark()
        problem = (
            getattr(error, "problem", None) or "a number in an escape or directive is too large"
        )
        hint = "use spaces instead of tabs" if "'\\t'" in problem else _HINTS.get(problem, "")
        tree.fail(
            (mark.line + 1, mark.column + 1),
            Code.SYNTAX,
            f"not valid YAML: {escape(problem, 200)}",
            hint,
        )


def _refuse_characters(text: str, tree: Tree) -> None:
    lines = Lines(text)
    for match in _REFUSED.finditer(text):
        message = f"character `\\u{ord(match[0]):04x}` cannot stand in a YAML text"
        hint = "remove it, or write it as an escape in double quotes"
        tree.report(lines.position(match.start()), Code.CHARACTER, message, hint)
    tree.document()


def _events(loader: yaml.SafeLoader | yaml.CSafeLoader) -> Iterator[yaml.Event]:
    try:
        while loader.check_event():
            event = loader.get_event()
            assert event is not None  # noqa: S101 - what check_event says, in types
            yield event
    finally:
        loader.dispose()


def _start(event: yaml.Event) -> Position:
    mark = event.start_mark
    return (mark.line + 1, mark.column + 1) if mark else START


class _Reader:
    """Turns parser events into calls on the tree."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._documents = 0
        self._last: Position = START

    def read(self, events: Iterator[yaml.Event]) -> Document:
        """Take all events; stop at a second document."""
        for event in events:
            self._take(event)
        return self._tree.flawed_document()

    def _take(self, event: yaml.Event) -> None:
        match event:
            case yaml.DocumentStartEvent():
                self._begin(event)
            case yaml.ScalarEvent():
                self._scalar(event)
            case yaml.AliasEvent():
                self._alias(event)
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                self._open(event)
            case yaml.CollectionEndEvent():
                self._tree.close()

    def _begin(self, event: yaml.DocumentStartEvent) -> None:
        position = _start(event)
        self._documents += 1
        if self._documents > 1:
            message = "a second document begins here"
            self._tree.fail(position, Code.MANY_DOCUMENTS, message, "keep one document per file")
        if event.version or event.tags:
            message = "directives are not allowed"
            self._tree.report(
                position, Code.DIRECTIVE, message, "remove the lines that begin with `%`"
            )

    def _open(self, event: yaml.MappingStartEvent | yaml.SequenceStartEvent) -> None:
        position = self._node(event)
        if self._tree.wants_key:
            message = "a list or mapping cannot be a key"
            hint = "write a text as the key"
            self._tree.report(position, Code.KEY_NOT_TEXT, message, hint, is_key=True)
        self._tree.open({} if isinstance(event, yaml.MappingStartEvent) else [], position)

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        position = self._node(event)
        if self._tree.wants_key:
            self._key(event, position)
        elif event.style:
            self._tree.leaf(literal.string(self._tree, event.value, position), position)
        elif not event.value and self._tree.depth:
            self._empty(position)
        else:
            self._tree.leaf(_plain_value(self._tree, event.value, position), position)

    def _empty(self, position: Position) -> None:
        path = self._tree.next_path
        hint = "write one, or leave the key out" if self._tree.in_mapping else "write one"
        message = f"`{escape(path_text(path), 120)}` has no value"
        self._tree.report(position, Code.EMPTY_VALUE, message, hint)
        self._tree.leaf(None, position)

    def _key(self, event: yaml.ScalarEvent, position: Position) -> None:
        name = literal.string(self._tree, event.value, position)
        self._tree.key(name, position)
        if not event.style and name == "<<":
            hint = "write the keys out where they are needed"
            message = "merge keys are not allowed"
            self._tree.report(position, Code.MERGE_KEY, message, hint, is_key=True)
        elif not event.style and not _means_text(name):
            message = f"key `{escape(name)}` is not a text" if name else "a key is empty"
            hint = "put the key in quotes"
            self._tree.report(position, Code.KEY_NOT_TEXT, message, hint, is_key=True)

    def _alias(self, event: yaml.AliasEvent) -> None:
        position = _start(event)
        name = f"*{event.anchor}"
        hint = "write the value out where it is needed"
        is_key = self._tree.wants_key
        if is_key:
            self._tree.key(name, position)
        message = f"alias `{escape(name)}` is not allowed"
        self._tree.report(position, Code.ALIAS, message, hint, is_key=is_key)
        if not is_key:
            self._tree.leaf(None, position)

    def _node(self, event: _Node) -> Position:
        """Refuse what a node may not carry, and return where it stands."""
        position = self._where(event)
        if event.anchor is not None:
            message = f"anchor `&{escape(event.anchor)}` is not allowed"
            hint = "write the value out where it is needed"
            self._tree.report(position, Code.ANCHOR, message, hint)
        if event.tag is not None:
            message = f"tag `{escape(event.tag)}` is not allowed"
            hint = "remove it; quotes make a text"
            self._tree.report(position, Code.TAG, message, hint)
        return position

    def _where(self, event: _Node) -> Position:
        # DETERMINISM: the parsers place a value that is not written at all differently, so it
        # stands where the node before it does: for a mapping, its key.
        is_absent = isinstance(event, yaml.ScalarEvent) and not (event.value or event.style)
        if not is_absent:
            self._last = _start(event)
        return self._last


def _plain_value(tree: Tree, text: str, position: Position) -> Json:
    """Return the value of unquoted `text` in YAML 1.2; report an ambiguous one."""
    if text in _NULL:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if _NUMBER.fullmatch(text):
        return _plain_number(tree, text, position)
    if _OTHER_BASE.fullmatch(text):
        return literal.whole_number(tree, text, 0, position)
    if _NOT_FINITE.fullmatch(text):
        literal.not_finite(tree, text, position)
    return text


def _means_text(text: str) -> bool:
    """Tell whether unquoted `text` is a text: no number, truth value or null."""
    patterns = (_NUMBER, _OTHER_BASE, _NOT_FINITE)
    return text not in _NOT_TEXT and not any(each.fullmatch(text) for each in patterns)


def _plain_number(tree: Tree, text: str, position: Position) -> Json:
    if _LEADING_ZERO.match(text):
        message = (
            f"`{escape(text)}` starts with a zero, which some readers take for an octal number"
        )
        hint = "put it in quotes if it is a text, else remove the zero"
        tree.report(position, Code.LEADING_ZERO, message, hint)
        return 0
    return literal.number(tree, text, position)
