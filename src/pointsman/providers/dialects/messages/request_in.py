"""Messages: reading a request."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import Raw, Struct

from pointsman.errors import InputError
from pointsman.providers.dialects.body import NULL, decode, is_null, number
from pointsman.providers.dialects.loss import CannotSayCode, Loss, read_hints, refuse
from pointsman.providers.dialects.messages.blocks import WireBlock, read_block
from pointsman.providers.dialects.spans import unique
from pointsman.providers.messages import (
    Block,
    ChatMessage,
    ModelRequest,
    OutputFormat,
    Text,
    ToolChoice,
    ToolResult,
    ToolSpec,
)

_REFUSED = {"mcp_servers": CannotSayCode.SERVER_TOOL, "container": CannotSayCode.STATEFUL}
_UNSAID = {
    "cache_control": Loss.CACHE_CONTROL,
    "service_tier": Loss.SERVICE_TIER,
    "inference_geo": Loss.INFERENCE_GEO,
    "speed": Loss.SPEED,
    "context_management": Loss.CONTEXT_MANAGEMENT,
}


class _Message(Struct):
    role: str
    content: str | list[WireBlock]


class _Tool(Struct):
    name: str
    type: str | None = None
    description: str | None = None
    input_schema: Raw = NULL
    strict: bool | None = None
    cache_control: Raw = NULL
    allowed_callers: Raw = NULL
    defer_loading: Raw = NULL
    input_examples: Raw = NULL


class _Choice(Struct):
    type: str
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class _Format(Struct):
    type: str
    schema: Raw = NULL


class _OutputConfig(Struct):
    effort: str | None = None
    format: _Format | None = None


class _Thinking(Struct):
    type: str
    budget_tokens: int | None = None
    display: str | None = None


class _Metadata(Struct):
    user_id: str | None = None


class _Request(Struct):
    messages: list[_Message]
    model: str | None = None
    max_tokens: int | None = None
    system: str | list[WireBlock] | None = None
    tools: list[_Tool] | None = None
    tool_choice: _Choice | None = None
    output_config: _OutputConfig | None = None
    output_format: _Format | None = None
    thinking: _Thinking | None = None
    temperature: Raw = NULL
    top_p: Raw = NULL
    stop_sequences: list[str] | None = None
    stream: bool | None = None
    metadata: _Metadata | None = None


_DECODER = msgspec.json.Decoder(_Request)
_KNOWN = frozenset((*_Request.__struct_fields__, *_UNSAID, *_REFUSED))


def read_request(body: bytes) -> ModelRequest:
    """Read a request; raise `CannotSay` for content that no other format could carry."""
    top = unique(body)
    wire = decode(_DECODER, body)
    for key, refusal in _REFUSED.items():
        if not is_null(top.get(key, NULL)):
            raise refuse(refusal, key)
    unsaid: list[str] = [loss for key, loss in _UNSAID.items() if not is_null(top.get(key, NULL))]
    messages = _messages(wire.messages, unsaid)
    effort, budget = _thinking(wire, unsaid)
    return ModelRequest(
        messages=tuple(messages),
        system=_system(wire.system, unsaid),
        tools=tuple(_tool(each, at, unsaid) for at, each in enumerate(wire.tools or ())),
        tool_choice=None if wire.tool_choice is None else _tool_choice(wire.tool_choice),
        output=_output(wire),
        max_output_tokens=wire.max_tokens,
        temperature=number(wire.temperature, "temperature"),
        top_p=number(wire.top_p, "top_p"),
        stop=tuple(wire.stop_sequences or ()),
        is_stream=wire.stream or False,
        thinking_tokens=budget,
        thinking_effort=effort,
        user=(wire.metadata.user_id if wire.metadata else None) or "",
        hints=read_hints(top, ("top_k",), _KNOWN, unsaid),
        unsaid=tuple(dict.fromkeys(unsaid)),
    )


def _system(wire: str | list[WireBlock] | None, unsaid: list[str]) -> tuple[Text, ...]:
    if wire is None or isinstance(wire, str):
        return (Text(wire),) if wire else ()
    return _only_texts(_blocks(wire, "system", unsaid), "system")


def _only_texts(blocks: list[Block], where: str) -> tuple[Text, ...]:
    texts = tuple(each for each in blocks if isinstance(each, Text))
    if len(texts) < len(blocks):
        raise InputError(f"`{where}` holds something else than text")
    return texts


def _blocks(wire: str | list[WireBlock], where: str, unsaid: list[str]) -> list[Block]:
    if isinstance(wire, str):
        return [Text(wire)] if wire else []
    found = (read_block(each, f"{where}[{at}]", unsaid) for at, each in enumerate(wire))
    return [each for each in found if each != Text("")]


def _messages(wire: list[_Message], unsaid: list[str]) -> Iterator[ChatMessage]:
    for at, each in enumerate(wire):
        where = f"messages[{at}]"
        blocks = _blocks(each.content, f"{where}.content", unsaid)
        if each.role == "user":
            yield from _user_messages(blocks)
        elif each.role == "assistant":
            yield ChatMessage("assistant", tuple(blocks))
        elif each.role == "system":
            yield ChatMessage("system", _only_texts(blocks, where))
        else:
            raise InputError(f"`{where}.role`: `{each.role}` is not a role")


def _user_messages(blocks: list[Block]) -> Iterator[ChatMessage]:
    """Return a message for each tool result, then one for the user's own blocks."""
    for each in blocks:
        if isinstance(each, ToolResult):
            yield ChatMessage("tool", (each,))
    rest = tuple(each for each in blocks if not isinstance(each, ToolResult))
    if rest or not blocks:
        yield ChatMessage("user", rest)


def _tool(wire: _Tool, at: int, unsaid: list[str]) -> ToolSpec:
    if wire.type not in (None, "custom"):
        raise refuse(CannotSayCode.SERVER_TOOL, f"tools[{at}].type: {wire.type}")
    if is_null(wire.input_schema):
        raise InputError(f"`tools[{at}].input_schema` is missing")
    if not is_null(wire.cache_control):
        unsaid.append(Loss.CACHE_CONTROL)
    options = (wire.allowed_callers, wire.defer_loading, wire.input_examples)
    if not all(is_null(each) for each in options):
        unsaid.append(Loss.TOOL_OPTIONS)
    return ToolSpec(wire.name, wire.description or "", wire.input_schema, wire.strict)


def _tool_choice(wire: _Choice) -> ToolChoice:
    single = wire.disable_parallel_tool_use
    parallel = None if single is None else not single
    match wire.type:
        case "auto" | "any" | "none":
            return ToolChoice(wire.type, is_parallel=parallel)
        case "tool" if wire.name:
            return ToolChoice("tool", wire.name, parallel)
        case "tool":
            raise InputError("`tool_choice.name` is missing")
    raise InputError(f"`tool_choice.type`: `{wire.type}` is not a choice")


def _output(wire: _Request) -> OutputFormat | None:
    found = wire.output_config.format if wire.output_config else None
    found = found or wire.output_format
    if found is None:
        return None
    if found.type != "json_schema":
        raise refuse(CannotSayCode.CONTENT, f"output_config.format.type: {found.type}")
    if is_null(found.schema):
        raise InputError("`output_config.format.schema` is missing")
    return OutputFormat("json_schema", schema=found.schema)


def _thinking(wire: _Request, unsaid: list[str]) -> tuple[str | None, int | None]:
    """Return the effort and the budget; adaptive thinking without an effort is a high one."""
    effort = wire.output_config.effort if wire.output_config else None
    found = wire.thinking
    if found is None:
        return effort, None
    if found.display is not None:
        unsaid.append(Loss.THINKING_DISPLAY)
    match found.type:
        case "disabled":
            return "none", None
        case "enabled" if found.budget_tokens is None:
            raise InputError("`thinking.budget_tokens` is missing")
        case "enabled":
            return effort, found.budget_tokens
        case "adaptive" | "between_tools":
            return effort or "high", None
    raise InputError(f"`thinking.type`: `{found.type}` is not known")
