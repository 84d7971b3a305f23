"""Where the parts of a JSON text stand in its bytes, so that one can be replaced and no other byte.

msgspec checks the text and cuts it up; each part is then found again by comparing bytes, so even
a long list is never scanned character by character in Python.
"""

from __future__ import annotations

import re

import msgspec
from msgspec import Raw

from pointsman.errors import InputError
from pointsman.providers.dialects.body import decode, join_places

Span = tuple[int, int]

_OPEN = re.compile(rb"[ \t\r\n]*[{\[][ \t\r\n]*")
_KEY = re.compile(rb'"((?:[^"\\]|\\.)*+)"[ \t\r\n]*:[ \t\r\n]*')
_NEXT = re.compile(rb"[ \t\r\n]*([,}\]])[ \t\r\n]*")
_WRITTEN_ANEW_BYTES = 65_536
"""Up to this size it is quicker to write a body anew and compare than to walk through it."""
_MEMBERS = msgspec.json.Decoder(dict[str, Raw])
_ELEMENTS = msgspec.json.Decoder(list[Raw])
_STRING = msgspec.json.Decoder(str)


_MODEL_AT = len(b'{"model":')


class Members:
    """The members of one object: each value, and where it stands."""

    __slots__ = ("spans", "start", "values")

    def __init__(self, values: dict[str, Raw], spans: dict[str, Span], start: int) -> None:
        self.values = values
        self.spans = spans
        self.start = start
        """Where the first member stands, or would."""


def members(body: bytes, span: Span | None = None, where: str = "") -> Members:
    """Find the members of an object: the whole body, or the part that `span` tells.

    A key that stands twice is refused: readers disagree about which one counts.
    """
    text = body if span is None else body[span[0] : span[1]]
    offset = 0 if span is None else span[0]
    values = decode(_MEMBERS, text, where)
    spans = _places(values, text, where)
    if offset:
        spans = {key: (start + offset, end + offset) for key, (start, end) in spans.items()}
    return Members(values, spans, offset + _after(_OPEN, text, 0))


def _places(values: dict[str, Raw], text: bytes, where: str) -> dict[str, Span]:
    return (
        _places_tight(values, text)
        or _places_spaced(values, text)
        or _places_walked(values, text, where)
    )


def unique(body: bytes) -> dict[str, Raw]:
    """Return the members of a body, none of which stands twice; cheaper than with their places."""
    try:
        values = _MEMBERS.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        values = decode(_MEMBERS, body)
    # Written without any space, as most clients do: the sum of the parts is the whole.
    if values and _tight_length(values) != len(body) and not _places_spaced(values, body):
        _places_walked(values, body, "")
    return values


def _tight_length(values: dict[str, Raw]) -> int:
    # Joined rather than added up: a copy costs less than a step of Python for each member.
    return 1 + len("".join(values)) + len(b"".join(values.values())) + 4 * len(values)


def _places_tight(values: dict[str, Raw], text: bytes) -> dict[str, Span]:
    """Return the places in a text without any space around its members, else nothing.

    A key that stood twice, or was written with escapes, would make the text longer than the sum.
    """
    if _tight_length(values) != len(text):
        return {}
    return _laid_out(values, gap=0)


def _places_spaced(values: dict[str, Raw], text: bytes) -> dict[str, Span]:
    """Return the places in a text written with `, ` and `: `, as Python does, else nothing."""
    if len(text) > _WRITTEN_ANEW_BYTES or _tight_length(values) + 2 * len(values) - 1 != len(text):
        return {}
    parts = [b'"%b": %b' % (key.encode(), raw) for key, raw in values.items()]
    return _laid_out(values, gap=1) if b"{" + b", ".join(parts) + b"}" == text else {}


def _laid_out(values: dict[str, Raw], gap: int) -> dict[str, Span]:
    spans: dict[str, Span] = {}
    at = 1
    for key, raw in values.items():
        at += len(key.encode()) + 3 + gap
        end = at + len(memoryview(raw))
        spans[key] = (at, end)
        at = end + 1 + gap
    return spans


def _places_walked(values: dict[str, Raw], text: bytes, where: str) -> dict[str, Span]:
    """Return the places in a text written in any way."""
    spans: dict[str, Span] = {}
    at = _after(_OPEN, text, 0)
    is_open = bool(values)
    while is_open:
        key, at = _key(text, at)
        value = bytes(values[key])
        end = at + len(value)
        if key in spans or not text.startswith(value, at):
            raise InputError(f"`{join_places(where, key)}` stands twice in the body")
        spans[key] = (at, end)
        found = _NEXT.match(text, end)
        assert found is not None  # noqa: S101 - msgspec has checked the text
        at, is_open = found.end(), found[1] == b","
    return spans


def elements(body: bytes, span: Span, where: str) -> list[Span]:
    """Find the elements of a list."""
    spans: list[Span] = []
    at = _after(_OPEN, body, span[0])
    for each in decode(_ELEMENTS, body[span[0] : span[1]], where):
        end = at + len(memoryview(each))
        spans.append((at, end))
        at = _after(_NEXT, body, end)
    return spans


def string_at(body: bytes, span: Span, where: str) -> str:
    """Read the string at a place."""
    return decode(_STRING, body[span[0] : span[1]], where)


def replace_span(body: bytes, span: Span, value: object) -> bytes:
    """Write another value at a place; every other byte stays as it is."""
    return body[: span[0]] + msgspec.json.encode(value) + body[span[1] :]


def with_model(body: bytes, model: str, known: dict[str, Raw] | None = None) -> bytes:
    """Return the body with another top-level `model`, every other byte unchanged.

    `known` are its members where they were found already, each once.
    """
    if known and body.startswith(b'{"model":'):
        # As most clients write it: the place of every other member need not be found.
        raw = bytes(known["model"])
        if body.startswith(raw, _MODEL_AT):
            return replace_span(body, (_MODEL_AT, _MODEL_AT + len(raw)), model)
    spans = _places(decode(_MEMBERS, body) if known is None else known, body, "")
    span = spans.get("model")
    if span is not None:
        return replace_span(body, span, model)
    start = _after(_OPEN, body, 0)
    member = b'"model":' + msgspec.json.encode(model) + (b"," if spans else b"")
    return body[:start] + member + body[start:]


def _after(pattern: re.Pattern[bytes], body: bytes, at: int) -> int:
    found = pattern.match(body, at)
    return found.end() if found else at


def _key(body: bytes, at: int) -> tuple[str, int]:
    found = _KEY.match(body, at)
    assert found is not None  # noqa: S101 - msgspec has checked the text
    key = found[1]
    if b"\\" in key:
        return _STRING.decode(b'"' + key + b'"'), found.end()
    return key.decode(), found.end()
