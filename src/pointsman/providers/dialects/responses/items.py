"""Responses: the items of a conversation, read."""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct

from pointsman.errors import InputError
from pointsman.providers.dialects import foreign
from pointsman.providers.dialects.body import NULL, decode, is_null, json_object
from pointsman.providers.dialects.loss import CannotSayCode, Loss, refuse
from pointsman.providers.dialects.responses.namespaces import joined_name
from pointsman.providers.messages import (
    Block,
    Image,
    RedactedThinking,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
)

_TEXTS = frozenset({"input_text", "output_text", "text", "summary_text", "reasoning_text"})
_CUSTOM = frozenset({"custom_tool_call", "custom_tool_call_output"})


class ResponsesPart(Struct):
    """A part of an item's content."""

    type: str
    text: str | None = None
    refusal: str | None = None
    image_url: str | None = None
    detail: str | None = None
    annotations: Raw = NULL
    prompt_cache_breakpoint: Raw = NULL


class ResponsesItem(Struct):
    """An item as it stands in a body, of any type."""

    type: str = "message"
    role: str | None = None
    content: str | list[ResponsesPart] | None = None
    id: str | None = None
    call_id: str | None = None
    name: str | None = None
    namespace: str | None = None
    arguments: str | None = None
    output: Raw = NULL
    summary: list[ResponsesPart] | None = None
    encrypted_content: str | None = None


_OUTPUT = msgspec.json.Decoder(str | list[ResponsesPart])


def read_parts(
    content: str | list[ResponsesPart] | None, where: str, unsaid: list[str]
) -> list[Text | Image]:
    """Read what a message shows."""
    if content is None or isinstance(content, str):
        return [Text(content)] if content else []
    found = (_part(each, f"{where}[{at}]", unsaid) for at, each in enumerate(content))
    return [each for each in found if each != Text("")]


def _part(part: ResponsesPart, where: str, unsaid: list[str]) -> Text | Image:
    if not is_null(part.prompt_cache_breakpoint):
        unsaid.append(Loss.CACHE_CONTROL)
    if bytes(part.annotations) not in (b"null", b"[]"):
        unsaid.append(Loss.CITATIONS)
    if part.type in _TEXTS and part.text is not None:
        return Text(part.text)
    if part.type == "refusal" and part.refusal is not None:
        return Text(part.refusal)
    if part.type == "input_image":
        return _image(part, where, unsaid)
    raise _unreadable_part(part.type, where)


def _image(part: ResponsesPart, where: str, unsaid: list[str]) -> Image:
    if part.image_url is None:
        raise refuse(CannotSayCode.FILE, f"{where}.file_id")
    if part.detail not in (None, "auto"):
        unsaid.append(Loss.IMAGE_DETAIL)
    return foreign.read_url(part.image_url, where)


def _unreadable_part(kind: str, where: str) -> InputError:
    if kind == "input_file":
        return refuse(CannotSayCode.FILE, where)
    if kind == "input_audio":
        return refuse(CannotSayCode.AUDIO, where)
    if kind in _TEXTS or kind == "refusal":
        return InputError(f"`{where}` has no text")
    return refuse(CannotSayCode.CONTENT, f"{where}.type: {kind[:64]}")


def read_said(item: ResponsesItem, where: str, unsaid: list[str]) -> list[Block]:
    """Read what the model said in one item: words, a call or reasoning."""
    if item.type == "message":
        return [*read_parts(item.content, f"{where}.content", unsaid)]
    if item.type == "function_call":
        return [_call(item, where)]
    if item.type == "reasoning":
        block = _reasoning(item)
        return [] if block == Thinking("") else [block]
    raise unreadable(item.type, where)


def _call(item: ResponsesItem, where: str) -> ToolUse:
    if not item.call_id or not item.name:
        raise InputError(f"`{where}` has no `call_id` or no `name`")
    name = joined_name(item.namespace or "", item.name)
    return ToolUse(item.call_id, name, json_object(item.arguments or "", f"{where}.arguments"))


def _reasoning(item: ResponsesItem) -> Thinking | RedactedThinking:
    parts = [*(item.summary or ())]
    parts += item.content if isinstance(item.content, list) else ()
    text = "\n\n".join(part.text for part in parts if part.text)
    block = foreign.read(text, item.encrypted_content or "", "openai", item.id or "")
    return foreign.as_redacted(block) or block


def read_output(item: ResponsesItem, where: str, unsaid: list[str]) -> ToolResult:
    """Read what a tool gave back."""
    if not item.call_id:
        raise InputError(f"`{where}.call_id` is missing")
    content = None if is_null(item.output) else decode(_OUTPUT, item.output, f"{where}.output")
    return ToolResult(item.call_id, tuple(read_parts(content, f"{where}.output", unsaid)))


def unreadable(kind: str, where: str) -> InputError:
    """Return the error for an item that cannot be translated."""
    if kind in _CUSTOM:
        return refuse(CannotSayCode.CUSTOM_TOOL, f"{where}.type: {kind}")
    if kind in ("item_reference", "compaction", "compaction_trigger"):
        return refuse(CannotSayCode.STATEFUL, f"{where}.type: {kind}")
    if "_call" in kind or kind.startswith("mcp_"):
        return refuse(CannotSayCode.SERVER_TOOL, f"{where}.type: {kind[:64]}")
    return refuse(CannotSayCode.CONTENT, f"{where}.type: {kind[:64]}")
