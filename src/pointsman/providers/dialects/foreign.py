"""What one vendor writes as no other does: reasoning, pictures, ids of tool calls."""

from __future__ import annotations

import hashlib
import re
from typing import cast, get_args

from pointsman.providers.dialects.body import join_places
from pointsman.providers.dialects.loss import CannotSayCode, refuse
from pointsman.providers.dialects.spans import Members, Span, elements, members, string_at
from pointsman.providers.messages import Image, RedactedThinking, Thinking, Vendor
from pointsman.providers.port import Dialect

_NOT_ANTHROPIC = re.compile(r"[^a-zA-Z0-9_-]")
_OPENAI_LENGTH = 40


def for_messages(call_id: str) -> str:
    """Return an id of the letters Anthropic takes."""
    return _NOT_ANTHROPIC.sub("_", call_id) or "call"


def for_openai(call_id: str) -> str:
    """Return an id no longer than OpenAI takes."""
    if len(call_id) <= _OPENAI_LENGTH:
        return call_id
    return "call_" + hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:32]


_MESSAGES_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})


def read_url(url: str, where: str) -> Image:
    """Read an address; one with its bytes in it becomes those bytes."""
    if not url.startswith("data:"):
        return Image("url", url)
    head, comma, data = url[len("data:") :].partition(",")
    media_type, _, encoding = head.partition(";")
    if not comma or encoding != "base64":
        raise refuse(CannotSayCode.IMAGE_URL, where)
    return Image("base64", data, media_type)


def url_of(image: Image) -> str:
    """Write an image as an address."""
    if image.kind == "url":
        return image.data
    return f"data:{image.media_type};base64,{image.data}"


def source_of(image: Image) -> dict[str, str]:
    """Write an image as a source of messages, which takes https and four types."""
    if image.kind == "url":
        if not image.data.startswith("https://"):
            raise refuse(CannotSayCode.IMAGE_URL, image.data[:60])
        return {"type": "url", "url": image.data}
    if image.media_type not in _MESSAGES_TYPES:
        raise refuse(CannotSayCode.IMAGE_TYPE, image.media_type)
    return {"type": "base64", "media_type": image.media_type, "data": image.data}


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
