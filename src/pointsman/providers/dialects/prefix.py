"""Changing the first words of the user's last message, and no other byte."""

from __future__ import annotations

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
