"""Words put before the first words of an answer, whole or streamed, and no other byte changed.

They go into the first text that is not empty, so every block keeps its place and reasoning its
signature; an answer without text stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import msgspec
from msgspec import Struct

from pointsman.errors import InputError
from pointsman.providers.dialects.body import join_places
from pointsman.providers.dialects.conversation import (
    CONVERSATION_KEY,
    SYSTEM_ROLES,
    TEXT_TYPES,
    own_start,
)
from pointsman.providers.dialects.spans import (
    Members,
    Span,
    elements,
    members,
    replace_span,
    string_at,
)
from pointsman.providers.port import Dialect


def with_text_of_last_user(
    body: bytes, dialect: Dialect, prefix_length: int, new_prefix: str = ""
) -> bytes:
    """Replace the first characters of the user's own last text, as `Look.last_user_text` has it.

    Only the string they stand in is written anew.
    """
    span, where = _last_own_text(body, dialect)
    text = string_at(body, span, where)
    start = own_start(text)
    if start + prefix_length > len(text):
        raise InputError(f"`{where}` has fewer than {prefix_length} characters")
    return replace_span(body, span, text[:start] + new_prefix + text[start + prefix_length :])


def _last_own_text(body: bytes, dialect: Dialect) -> tuple[Span, str]:
    key = CONVERSATION_KEY[dialect]
    span = members(body).spans.get(key)
    if span is None:
        raise InputError(f"`{key}` is missing")
    if body[span[0] : span[0] + 1] == b'"':
        return span, key
    spans = elements(body, span, key)
    for at in range(len(spans) - 1, -1, -1):
        where = f"{key}[{at}]"
        entry = members(body, spans[at], where)
        role = _string(body, entry, "role", where)
        if role == "user":
            return _own_part(body, entry, where)
        if role not in SYSTEM_ROLES:
            break
    raise InputError("the last message is not the user's")


def _own_part(body: bytes, entry: Members, where: str) -> tuple[Span, str]:
    span, place = entry.spans.get("content"), join_places(where, "content")
    if span is not None and body[span[0] : span[0] + 1] == b'"':
        return span, place
    for at, each in enumerate([] if span is None else elements(body, span, place)):
        part_place = f"{place}[{at}]"
        part = members(body, each, part_place)
        text = part.spans.get("text")
        if text is None or _string(body, part, "type", part_place) not in TEXT_TYPES:
            continue
        found = string_at(body, text, join_places(part_place, "text"))
        if own_start(found) < len(found):
            return text, join_places(part_place, "text")
    raise InputError(f"`{place}` holds no text of the user")


def _string(body: bytes, found: Members, key: str, where: str) -> str:
    span = found.spans.get(key)
    return "" if span is None else string_at(body, span, join_places(where, key))


# Notes on the places of characters would be about others, with more words before them.
_ANNOTATED = re.compile(rb'"annotations"\s*:\s*\[\s*\{')
_DELTA = "response.output_text.delta"
_ITEM_DONE = "response.output_item.done"
_DATA_AT = len(b"data:")

_Find = Callable[[bytes, Span], Span | None]


def with_words_before(dialect: Dialect, body: bytes, words: str) -> bytes:
    """Return a whole answer with these words before its own."""
    if _ANNOTATED.search(body):
        return body
    return _insert_words(body, _text_in(_WHOLE[dialect], body, (0, len(body))), words)


class WordsBefore:
    """Puts words before those of one stream."""

    def __init__(self, dialect: Dialect, words: str) -> None:
        self._words = words
        self._find: _Find = _OnceInEachForm() if dialect == "responses" else _Once(_EVENTS[dialect])

    def edit(self, lines: bytes) -> bytes:
        """Take the next whole lines, and give them as the caller is to see them."""
        return b"".join(map(self._line, lines.splitlines(keepends=True)))

    def _line(self, line: bytes) -> bytes:
        if not line.startswith(b"data:"):
            return line
        return _insert_words(line, _text_in(self._find, line, (_DATA_AT, len(line))), self._words)


class _Once:
    """Finds the first text of a stream, and none after it."""

    def __init__(self, find: _Find) -> None:
        self._find = find
        self._is_over = False

    def __call__(self, line: bytes, span: Span) -> Span | None:
        found = None if self._is_over else self._find(line, span)
        self._is_over = found is not None or self._is_over
        return found


class _Place(Struct):
    type: str = ""
    output_index: int = -1
    content_index: int = -1


_PLACE = msgspec.json.Decoder(_Place)


class _OnceInEachForm:
    """Finds the first text of a stream of responses, and again wherever its whole is told."""

    def __init__(self) -> None:
        self._first: _Place | None = None

    def __call__(self, line: bytes, span: Span) -> Span | None:
        event, first = _PLACE.decode(line[slice(*span)]), self._first
        find = _RESPONSES.get(event.type)
        if find is None or (first is not None and not _tells_again(event, first)):
            return None
        found = find(line, span)
        if found is not None and first is None:
            self._first = event
        return found


def _tells_again(event: _Place, first: _Place) -> bool:
    if event.type == _DELTA or event.output_index not in (first.output_index, -1):
        return False
    # An item is told with all its parts, and an answer with all its items: the first text is it.
    return event.content_index in (first.content_index, -1)


def _insert_words(body: bytes, span: Span | None, words: str) -> bytes:
    if span is None:
        return body
    start = span[0] + 1
    return body[:start] + msgspec.json.encode(words)[1:-1] + body[start:]


def _text_in(find: _Find, body: bytes, span: Span) -> Span | None:
    """Find a text; what cannot be read holds none, and passes on as it is."""
    try:
        return find(body, span)
    except (InputError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


# Where the first text stands in each kind of value. Each gives the place of a JSON string.


def _inside(body: bytes, span: Span | None, *keys: str) -> Span | None:
    for key in keys:
        if span is None or not body[slice(*span)].lstrip().startswith(b"{"):
            return None
        span = members(body, span).spans.get(key)
    return span


def _each(body: bytes, span: Span | None) -> list[Span]:
    if span is None or body[span[0] : span[0] + 1] != b"[":
        return []
    return elements(body, span, "")


def _is(body: bytes, span: Span | None, kind: str) -> bool:
    found = _inside(body, span, "type")
    return found is not None and body[slice(*found)] == f'"{kind}"'.encode()


def _words(body: bytes, span: Span | None) -> Span | None:
    """Return the place of a non-empty text; some vendors write a text as a list of parts."""
    if span is not None and body[span[0] : span[0] + 1] == b'"':
        return span if span[1] - span[0] > 2 else None
    return _first_part(body, span, "text")


def _first_part(body: bytes, span: Span | None, kind: str) -> Span | None:
    for each in _each(body, span):
        found = _words(body, _inside(body, each, "text")) if _is(body, each, kind) else None
        if found is not None:
            return found
    return None


def _chat(key: str) -> _Find:
    def find(body: bytes, span: Span) -> Span | None:
        choices = _each(body, _inside(body, span, "choices"))
        return _words(body, _inside(body, choices[0], key, "content")) if choices else None

    return find


def _message(body: bytes, span: Span) -> Span | None:
    return _first_part(body, _inside(body, span, "content"), "text")


def _message_event(body: bytes, span: Span) -> Span | None:
    if _is(body, span, "content_block_delta"):
        return _words_of(body, _inside(body, span, "delta"), "text_delta")
    if _is(body, span, "content_block_start"):
        return _words_of(body, _inside(body, span, "content_block"), "text")
    return None


def _words_of(body: bytes, span: Span | None, kind: str) -> Span | None:
    return _words(body, _inside(body, span, "text")) if _is(body, span, kind) else None


def _item(body: bytes, span: Span | None) -> Span | None:
    if not _is(body, span, "message"):
        return None
    return _first_part(body, _inside(body, span, "content"), "output_text")


def _response(body: bytes, span: Span | None) -> Span | None:
    for each in _each(body, _inside(body, span, "output")):
        found = _item(body, each)
        if found is not None:
            return found
    return None


def _response_event(body: bytes, span: Span) -> Span | None:
    return _response(body, _inside(body, span, "response"))


_WHOLE: Mapping[Dialect, _Find] = {
    "chat": _chat("message"),
    "messages": _message,
    "responses": _response,
}
_EVENTS: Mapping[Dialect, _Find] = {"chat": _chat("delta"), "messages": _message_event}
_RESPONSES: Mapping[str, _Find] = {
    _DELTA: lambda body, span: _words(body, _inside(body, span, "delta")),
    "response.output_text.done": lambda body, span: _words(body, _inside(body, span, "text")),
    "response.content_part.done": lambda body, span: _words_of(
        body, _inside(body, span, "part"), "output_text"
    ),
    _ITEM_DONE: lambda body, span: _item(body, _inside(body, span, "item")),
    "response.completed": _response_event,
    "response.incomplete": _response_event,
    "response.failed": _response_event,
}
