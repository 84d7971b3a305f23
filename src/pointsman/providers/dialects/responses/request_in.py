"""Responses: reading a request."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from pointsman.errors import InputError
from pointsman.providers.dialects.body import NO_PARAMETERS, NULL, decode, is_null, number
from pointsman.providers.dialects.loss import (
    CannotSayCode,
    Loss,
    read_hints,
    refuse,
    says_something,
)
from pointsman.providers.dialects.responses.items import (
    ResponsesItem,
    read_output,
    read_parts,
    read_said,
    unreadable,
)
from pointsman.providers.dialects.responses.namespaces import joined_name
from pointsman.providers.dialects.spans import unique
from pointsman.providers.messages import (
    Block,
    ChatMessage,
    ModelRequest,
    OutputFormat,
    Text,
    ToolChoice,
    ToolSpec,
)

_SYSTEM_ROLES = ("system", "developer")
_STATEFUL = ("previous_response_id", "conversation", "prompt", "background")
_UNSAID = {
    "truncation": Loss.TRUNCATION,
    "max_tool_calls": Loss.MAX_TOOL_CALLS,
    "stream_options": Loss.STREAM_OPTIONS,
    "context_management": Loss.CONTEXT_MANAGEMENT,
}
_HINTS = (
    "top_logprobs", "prompt_cache_key", "prompt_cache_retention", "prompt_cache_options",
    "service_tier", "metadata", "safety_identifier", "store", "moderation", "include",
)  # fmt: skip
_DEFAULTS = {"truncation": b'"disabled"', "include": b'["reasoning.encrypted_content"]'}


class _Tool(Struct):
    type: str
    name: str | None = None
    description: str | None = None
    parameters: Raw = NULL
    strict: bool | None = None
    tools: list[_Tool] | None = None
    external_web_access: bool | None = None


class _Choice(Struct):
    type: str
    name: str | None = None
    namespace: str | None = None


class _Format(Struct):
    type: str
    name: str | None = None
    description: str | None = None
    schema: Raw = NULL
    strict: bool | None = None


class _TextConfig(Struct):
    format: _Format | None = None
    verbosity: Raw = NULL


class _Reasoning(Struct):
    effort: str | None = None
    summary: str | None = None


class _Request(Struct):
    input: str | list[ResponsesItem] | None = None
    model: str | None = None
    instructions: str | None = None
    tools: list[_Tool] | None = None
    tool_choice: str | _Choice | None = None
    parallel_tool_calls: bool | None = None
    text: _TextConfig | None = None
    reasoning: _Reasoning | None = None
    max_output_tokens: int | None = None
    temperature: Raw = NULL
    top_p: Raw = NULL
    stream: bool | None = None
    user: str | None = None


_DECODER = msgspec.json.Decoder(_Request)
_KNOWN = frozenset((*_Request.__struct_fields__, *_STATEFUL, *_UNSAID))


def read_request(body: bytes) -> ModelRequest:
    """Read a request; raise `CannotSay` for content that no other format could carry."""
    top = unique(body)
    wire = decode(_DECODER, body)
    for key in _STATEFUL:
        if says_something(key, top.get(key)):
            raise refuse(CannotSayCode.STATEFUL, key)
    unsaid = [
        str(loss)
        for key, loss in _UNSAID.items()
        if bytes(top.get(key, NULL)) not in (b"null", _DEFAULTS.get(key))
    ]
    if wire.reasoning is not None and wire.reasoning.summary is not None:
        unsaid.append(Loss.REASONING_SUMMARY)
    system, messages = _conversation(wire, unsaid)
    tools, namespaces = _tools(wire.tools or (), unsaid)
    return ModelRequest(
        messages=messages,
        system=system,
        tools=tools,
        namespaces=namespaces,
        tool_choice=_tool_choice(wire),
        output=_output(wire.text.format if wire.text else None),
        max_output_tokens=wire.max_output_tokens,
        temperature=number(wire.temperature, "temperature"),
        top_p=number(wire.top_p, "top_p"),
        is_stream=wire.stream or False,
        thinking_effort=wire.reasoning.effort if wire.reasoning else None,
        user=wire.user or "",
        hints=read_hints(_with_verbosity(top, wire), (*_HINTS, "verbosity"), _KNOWN, unsaid),
        unsaid=tuple(dict.fromkeys(unsaid)),
    )


def _with_verbosity(top: dict[str, Raw], wire: _Request) -> dict[str, Raw]:
    """Put what stands in `text` beside the other hints; leave out what changes nothing."""
    found = {key: raw for key, raw in top.items() if bytes(raw) != _DEFAULTS.get(key)}
    if wire.text is not None and not is_null(wire.text.verbosity):
        found["verbosity"] = wire.text.verbosity
    return found


def _conversation(
    wire: _Request, unsaid: list[str]
) -> tuple[tuple[Text, ...], tuple[ChatMessage, ...]]:
    system: list[Text] = [Text(wire.instructions)] if wire.instructions else []
    if wire.input is None or isinstance(wire.input, str):
        return tuple(system), (ChatMessage("user", (Text(wire.input),)),) if wire.input else ()
    messages: list[ChatMessage] = []
    said: list[Block] = []
    for at, item in enumerate(wire.input):
        where = f"input[{at}]"
        if item.type == "item_reference" and (item.id or "").startswith("rs_"):
            # Only the vendor that stored it could look it up; the answer stands without it.
            unsaid.append(Loss.THINKING)
            continue
        if _is_said(item):
            said.extend(read_said(item, where, unsaid))
            continue
        _flush(said, messages)
        message = _message(item, where, unsaid)
        if message.role == "system" and not messages:
            system.extend(each for each in message.content if isinstance(each, Text))
        else:
            messages.append(message)
    _flush(said, messages)
    return tuple(system), tuple(messages)


def _is_said(item: ResponsesItem) -> bool:
    """Say whether the model said an item; those in a row are one message."""
    if item.type == "message":
        return item.role == "assistant"
    return item.type in ("function_call", "reasoning")


def _flush(said: list[Block], messages: list[ChatMessage]) -> None:
    if said:
        messages.append(ChatMessage("assistant", tuple(said)))
        said.clear()


def _message(item: ResponsesItem, where: str, unsaid: list[str]) -> ChatMessage:
    if item.type == "function_call_output":
        return ChatMessage("tool", (read_output(item, where, unsaid),))
    if item.type != "message":
        raise unreadable(item.type, where)
    blocks = tuple(read_parts(item.content, f"{where}.content", unsaid))
    if item.role in _SYSTEM_ROLES:
        if any(not isinstance(each, Text) for each in blocks):
            raise InputError(f"`{where}`: a message of this role holds text only")
        return ChatMessage("system", blocks)
    if item.role != "user":
        raise InputError(f"`{where}.role`: `{item.role}` is not a role")
    return ChatMessage("user", blocks)


def _tools(
    wire: Sequence[_Tool], unsaid: list[str]
) -> tuple[tuple[ToolSpec, ...], dict[str, tuple[str, str]]]:
    """Read the tools, and which of them stood in a namespace."""
    found: list[ToolSpec] = []
    namespaces: dict[str, tuple[str, str]] = {}
    for at, each in enumerate(wire):
        if each.type == "web_search" and each.external_web_access is False:
            unsaid.append(Loss.VENDOR_SEARCH)
        elif each.type != "namespace":
            found.append(_tool(each, f"tools[{at}]"))
        elif not each.name:
            raise InputError(f"`tools[{at}].name` is missing")
        else:
            for number, inner in enumerate(each.tools or ()):
                tool = _tool(inner, f"tools[{at}].tools[{number}]")
                joined = joined_name(each.name, tool.name)
                namespaces[joined] = (each.name, tool.name)
                told = "\n".join(text for text in (each.description, tool.description) if text)
                found.append(replace(tool, name=joined, description=told))
    names = [tool.name for tool in found]
    doubled = next((name for name in namespaces if names.count(name) > 1), "")
    if doubled:
        raise InputError(f"two tools are called `{doubled}` where there are no namespaces")
    return tuple(found), namespaces


def _tool(wire: _Tool, where: str) -> ToolSpec:
    if wire.type == "custom":
        raise refuse(CannotSayCode.CUSTOM_TOOL, where)
    if wire.type != "function":
        raise refuse(CannotSayCode.SERVER_TOOL, f"{where}.type: {wire.type[:64]}")
    if not wire.name:
        raise InputError(f"`{where}.name` is missing")
    schema = NO_PARAMETERS if is_null(wire.parameters) else wire.parameters
    return ToolSpec(wire.name, wire.description or "", schema, wire.strict)


def _tool_choice(wire: _Request) -> ToolChoice | None:
    choice = wire.tool_choice
    parallel = wire.parallel_tool_calls
    match choice:
        case None:
            return None if parallel is None else ToolChoice("auto", is_parallel=parallel)
        case "auto" | "none":
            return ToolChoice(choice, is_parallel=parallel)
        case "required":
            return ToolChoice("any", is_parallel=parallel)
        case str():
            raise InputError(f"`tool_choice`: `{choice}` is not a choice")
    if choice.type == "function" and choice.name:
        return ToolChoice("tool", joined_name(choice.namespace or "", choice.name), parallel)
    if choice.type == "allowed_tools":
        raise refuse(CannotSayCode.ALLOWED_TOOLS, "tool_choice")
    if choice.type == "custom":
        raise refuse(CannotSayCode.CUSTOM_TOOL, "tool_choice")
    raise refuse(CannotSayCode.SERVER_TOOL, f"tool_choice.type: {choice.type[:64]}")


def _output(wire: _Format | None) -> OutputFormat | None:
    if wire is None or wire.type == "text":
        return None
    if wire.type == "json_object":
        return OutputFormat("json_object")
    if wire.type != "json_schema":
        raise refuse(CannotSayCode.CONTENT, f"text.format.type: {wire.type[:64]}")
    schema = None if is_null(wire.schema) else wire.schema
    return OutputFormat("json_schema", wire.name or "", schema, wire.strict, wire.description or "")
