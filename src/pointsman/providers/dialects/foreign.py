"""Reasoning of one vendor on its way through the format of another.

A signature or encrypted reasoning means something only to the vendor that made it. In another
vendor's format it travels marked, as opaque to the client as its own would be, and is read back
when the conversation returns; a body that passes through to the wrong vendor is freed of it.
"""

from __future__ import annotations

from typing import cast, get_args

from pointsman.providers.dialects.body import join_places
from pointsman.providers.dialects.spans import Members, Span, elements, members, string_at
from pointsman.providers.messages import RedactedThinking, Thinking, Vendor
from pointsman.providers.port import Dialect

_MARK = "pointsman:"
_REDACTED = "redacted"


def write_signature(thinking: Thinking, dialect_vendor: Vendor) -> str:
    """Write a signature in the format of a vendor: plain when it is its own, else marked."""
    if thinking.vendor == dialect_vendor and thinking.signature:
        return thinking.signature
    return f"{_MARK}{thinking.vendor}:{thinking.id}:{thinking.signature}"


def write_redacted(block: RedactedThinking) -> str:
    """Write hidden reasoning of Anthropic for another vendor's format."""
    return f"{_MARK}anthropic:{_REDACTED}:{block.data}"


def read(text: str, signature: str, dialect_vendor: Vendor, item_id: str = "") -> Thinking:
    """Read reasoning with its signature in the format of a vendor."""
    if signature.startswith(_MARK):
        vendor, _, rest = signature.removeprefix(_MARK).partition(":")
        own_id, _, own = rest.partition(":")
        known = vendor if vendor in get_args(Vendor) else ""
        return Thinking(text, own, cast("Vendor", known), own_id)
    return Thinking(text, signature, dialect_vendor, item_id) if signature else Thinking(text)


def as_redacted(thinking: Thinking) -> RedactedThinking | None:
    """Return the hidden reasoning that a mark held, if it did."""
    if thinking.vendor == "anthropic" and thinking.id == _REDACTED:
        return RedactedThinking(thinking.signature)
    return None


def without_foreign(dialect: Dialect, body: bytes) -> bytes:
    """Return a body without the reasoning of other vendors; most have none, and stay as is."""
    if dialect == "chat" or f'"{_MARK}'.encode() not in body:
        return body
    key = "input" if dialect == "responses" else "messages"
    span = members(body).spans.get(key)
    if span is None or body[span[0] : span[0] + 1] != b"[":
        return body
    kept = [
        text
        for at, each in enumerate(elements(body, span, key))
        if (text := _without_marked(body, each, dialect, f"{key}[{at}]"))
    ]
    return body[: span[0]] + b"[" + b",".join(kept) + b"]" + body[span[1] :]


def _without_marked(body: bytes, span: Span, dialect: Dialect, where: str) -> bytes:
    """Return an entry without foreign reasoning; nothing when there is nothing else in it."""
    entry = members(body, span, where)
    if dialect == "responses":
        is_foreign = _is_marked(body, entry, "encrypted_content", where)
        return b"" if is_foreign else body[span[0] : span[1]]
    content = entry.spans.get("content")
    if content is None or body[content[0] : content[0] + 1] != b"[":
        return body[span[0] : span[1]]
    parts = elements(body, content, join_places(where, "content"))
    kept = [
        body[part[0] : part[1]]
        for part in parts
        if not _is_marked(body, members(body, part, where), "signature", where)
    ]
    if not kept:
        return b""
    return body[span[0] : content[0]] + b"[" + b",".join(kept) + b"]" + body[content[1] : span[1]]


def _is_marked(body: bytes, found: Members, key: str, where: str) -> bool:
    span = found.spans.get(key)
    if span is None or body[span[0] : span[0] + 1] != b'"':
        return False
    return string_at(body, span, join_places(where, key)).startswith(_MARK)
