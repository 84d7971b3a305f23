"""The messages of a request as routing sees them: who spoke, in which words, with what besides.

Only the entries that matter are taken apart; what stands in the others stays bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec
from msgspec import Raw, Struct

from pointsman.providers.dialects.body import NULL, decode
from pointsman.providers.port import Dialect

_OPEN, _CLOSE = "<system-reminder>", "</system-reminder>"


def own_start(text: str) -> int:
    """Return where the first own word of a text stands; its length when there is none."""
    at = 0
    while True:
        at += len(text[at:]) - len(text[at:].lstrip())
        if not text.startswith(_OPEN, at):
            return at
        end = text.find(_CLOSE, at)
        if end < 0:
            return len(text)
        at = end + len(_CLOSE)


def own_text(text: str) -> str:
    """Return the own words of a text."""
    if _OPEN not in text:
        return text
    parts: list[str] = []
    at = 0
    while (found := text.find(_OPEN, at)) >= 0:
        parts.append(text[at:found])
        end = text.find(_CLOSE, found)
        at = len(text) if end < 0 else end + len(_CLOSE)
    parts.append(text[at:])
    return "".join(parts).strip()


CONVERSATION_KEY: Mapping[Dialect, str] = {
    "chat": "messages",
    "responses": "input",
    "messages": "messages",
}
SYSTEM_ROLES = ("system", "developer")
TEXT_TYPES = ("text", "input_text")
_TOOL_ROLES = ("tool", "function")
# Tuples, not sets: a type may be anything, also a list, in an unchecked body.
_IMAGE_TYPES = ("image", "image_url", "input_image", "computer_screenshot")
_NO_WORDS = frozenset(
    {
        "role", "type", "id", "tool_use_id", "call_id", "tool_call_id", "status", "media_type",
        "signature", "encrypted_content", "cache_control", "detail", "file_id",
    }
)  # fmt: skip


class ConversationEntry(Struct):
    """One message, or one item of the responses format."""

    role: str = ""
    type: str = ""
    content: Raw = NULL
    tool_calls: Raw = NULL
    output: Raw = NULL
    summary: Raw = NULL
    arguments: Raw = NULL
    input: Raw = NULL


class _Part(Struct):
    type: str = ""
    text: str | None = None


_PARTS = msgspec.json.Decoder(list[_Part])
_QUOTE, _N = ord('"'), ord("n")
_STRING = msgspec.json.Decoder(str)
_ANY: msgspec.json.Decoder[object] = msgspec.json.Decoder()


def brings_tool_result(dialect: Dialect, entry: ConversationEntry) -> bool:
    """Say whether an entry holds what a tool gave back."""
    if dialect == "chat":
        return entry.role in _TOOL_ROLES
    if dialect == "responses":
        return entry.type.endswith("_output")
    return b"tool_result" in bytes(entry.content) and "tool_result" in _types(entry)


def calls_tool(dialect: Dialect, entry: ConversationEntry) -> bool:
    """Say whether an entry calls a tool or brings a result of one."""
    if dialect == "chat":
        calls = entry.tool_calls
        return entry.role in _TOOL_ROLES or (calls is not NULL and len(memoryview(calls)) > 4)
    if dialect == "responses":
        return entry.type.endswith(("_call", "_call_output"))
    if b"tool_" not in bytes(entry.content):
        return False
    types = _types(entry)
    return "tool_use" in types or "tool_result" in types


def has_image(entry: ConversationEntry) -> bool:
    """Say whether a picture stands in an entry, also in what a tool gave back."""
    return any(
        each.get("type") in _IMAGE_TYPES
        for raw in (entry.content, entry.output)
        if may_hold_image(bytes(raw))
        for each in _mappings(_value(raw))
    )


def may_hold_image(text: bytes) -> bool:
    """Say whether a JSON text could hold a picture; an escape could hide the word."""
    return b"image" in text or b"screenshot" in text or b"\\u00" in text


def own_parts(entry: ConversationEntry, dialect: Dialect, index: int) -> list[str]:
    """Return the user's own words, part by part; reminders of the harness are left out."""
    first = memoryview(entry.content)[0]
    if first == _QUOTE:
        text = own_text(_STRING.decode(entry.content))
        return [text] if text else []
    if first == _N:
        return []
    parts = decode(_PARTS, entry.content, f"{CONVERSATION_KEY[dialect]}[{index}].content")
    found = [own_text(each.text) for each in parts if each.text and each.type in TEXT_TYPES]
    return [text for text in found if text]


def plain_words(entry: ConversationEntry) -> str | None:
    """Return the text of an entry that is a text and nothing else; most are, and cost less so."""
    content = entry.content
    is_bare = entry.tool_calls is NULL and entry.output is NULL and entry.summary is NULL
    if not is_bare or entry.arguments is not NULL or entry.input is not NULL:
        return None
    if memoryview(content)[0] != _QUOTE:
        return None
    text = _STRING.decode(content)
    return None if _is_data_url(text) else text


def entry_words(entry: ConversationEntry) -> Iterator[str]:
    """Return every text of an entry."""
    content, output = entry.content, entry.output
    for raw in (content, entry.summary, entry.tool_calls, entry.arguments, entry.input, output):
        if raw is not NULL:
            yield from words(raw)


def words(raw: Raw) -> Iterator[str]:
    """Return every text inside a value in order, but no ids, marks and bytes of pictures."""
    pending: list[object] = [] if raw is NULL else [_value(raw)]
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            if not _is_data_url(value):
                yield value
        elif isinstance(value, list):
            pending.extend(reversed(value))
        elif isinstance(value, dict):
            pending.extend(reversed(_spoken(value)))


def all_texts(raw: Raw) -> Iterator[str]:
    """Return every text and every name inside a value, but no bytes of pictures and sounds."""
    for each in _mappings({"": _value(raw)}):
        is_bytes = _holds_bytes(each)
        for key, value in each.items():
            yield key
            if not (is_bytes and key == "data"):
                yield from _texts_in(value)


def _texts_in(value: object) -> Iterator[str]:
    """Return the texts of a value that stand in no mapping of their own."""
    pending = [value]
    while pending:
        each = pending.pop()
        if isinstance(each, str) and not _is_data_url(each):
            yield each
        elif isinstance(each, list):
            pending.extend(each)


def _is_data_url(text: str) -> bool:
    return text.startswith("data:") and ";base64," in text[:200]


def _holds_bytes(value: dict[str, object]) -> bool:
    return value.get("type") == "base64" or "format" in value


def _spoken(value: dict[str, object]) -> list[object]:
    is_bytes = _holds_bytes(value)
    return [
        each
        for key, each in value.items()
        if key not in _NO_WORDS and not (is_bytes and key == "data")
    ]


def _types(entry: ConversationEntry) -> list[object]:
    value = _value(entry.content)
    if not isinstance(value, list):
        return []
    return [each.get("type") for each in value if isinstance(each, dict)]


def _mappings(value: object) -> Iterator[dict[str, object]]:
    pending = [value]
    while pending:
        each = pending.pop()
        if isinstance(each, dict):
            yield each
            pending.extend(each.values())
        elif isinstance(each, list):
            pending.extend(each)


def _value(raw: Raw) -> object:
    return decode(_ANY, raw)


def tool_names(tools: list[Raw]) -> list[str]:
    """Return the names of the tools offered."""
    return [_tool_name(_value(each)) for each in tools]


def _tool_name(tool: object) -> str:
    if not isinstance(tool, dict):
        return ""
    inner = tool.get("function")
    named = inner if isinstance(inner, dict) else tool
    name = named.get("name") or named.get("type")
    return name if isinstance(name, str) else ""
