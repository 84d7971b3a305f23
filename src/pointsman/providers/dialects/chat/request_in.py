"""Chat completions: reading a request."""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct

from pointsman.errors import InputError
from pointsman.providers.dialects import foreign
from pointsman.providers.dialects.body import (
    NO_PARAMETERS,
    NULL,
    decode,
    is_null,
    json_object,
    number,
)
from pointsman.providers.dialects.loss import CannotSayCode, Loss, read_hints, refuse
from pointsman.providers.dialects.spans import unique
from pointsman.providers.messages import (
    Block,
    ChatMessage,
    Image,
    ModelRequest,
    OutputFormat,
    Text,
    ToolChoice,
    ToolResult,
    ToolSpec,
    ToolUse,
)

_SYSTEM_ROLES = ("system", "developer")
_REFUSED = {
    "audio": CannotSayCode.AUDIO,
    "functions": CannotSayCode.LEGACY_FUNCTIONS,
    "function_call": CannotSayCode.LEGACY_FUNCTIONS,
    "web_search_options": CannotSayCode.SERVER_TOOL,
}
_HINTS = (
    "seed", "frequency_penalty", "presence_penalty", "logit_bias", "logprobs", "top_logprobs",
    "prediction", "verbosity", "prompt_cache_key", "prompt_cache_retention",
    "prompt_cache_options", "service_tier", "metadata", "safety_identifier", "store",
    "moderation", "top_k",
)  # fmt: skip


class _ImageUrl(Struct):
    url: str
    detail: str | None = None


class _Part(Struct):
    type: str
    text: str | None = None
    refusal: str | None = None
    image_url: _ImageUrl | None = None
    cache_control: Raw = NULL
    prompt_cache_breakpoint: Raw = NULL


class _Function(Struct):
    name: str
    arguments: str = ""


class _Call(Struct):
    id: str
    type: str = "function"
    function: _Function | None = None


class _Message(Struct):
    role: str
    content: str | list[_Part] | None = None
    name: str | None = None
    tool_calls: list[_Call] | None = None
    tool_call_id: str | None = None
    refusal: str | None = None
    reasoning_content: Raw = NULL
    reasoning: Raw = NULL
    function_call: Raw = NULL
    audio: Raw = NULL


class _FunctionTool(Struct):
    name: str
    description: str | None = None
    parameters: Raw = NULL
    strict: bool | None = None


class _Tool(Struct):
    type: str
    function: _FunctionTool | None = None


class _Named(Struct):
    name: str


class _Choice(Struct):
    type: str = ""
    function: _Named | None = None


class _Schema(Struct):
    name: str
    description: str | None = None
    schema: Raw = NULL
    strict: bool | None = None


class _Format(Struct):
    type: str
    json_schema: _Schema | None = None


class _StreamOptions(Struct):
    include_usage: bool | None = None


class _Request(Struct):
    messages: list[_Message]
    model: str | None = None
    tools: list[_Tool] | None = None
    tool_choice: str | _Choice | None = None
    parallel_tool_calls: bool | None = None
    response_format: _Format | None = None
    max_completion_tokens: int | None = None
    max_tokens: int | None = None
    temperature: Raw = NULL
    top_p: Raw = NULL
    stop: str | list[str] | None = None
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    reasoning_effort: str | None = None
    user: str | None = None
    n: int | None = None
    modalities: list[str] | None = None


_DECODER = msgspec.json.Decoder(_Request)
_KNOWN = frozenset(_Request.__struct_fields__)


def read_request(body: bytes) -> ModelRequest:
    """Read a request; raise `CannotSay` for content that no other format could carry."""
    top = unique(body)
    wire = decode(_DECODER, body)
    _refuse(top, wire)
    unsaid: list[str] = []
    system, messages = _conversation(wire.messages, unsaid)
    hints = read_hints(top, _HINTS, _KNOWN, unsaid)
    return ModelRequest(
        messages=messages,
        system=system,
        tools=tuple(_tool(each, at) for at, each in enumerate(wire.tools or ())),
        tool_choice=_tool_choice(wire),
        output=_output(wire.response_format),
        max_output_tokens=_first(wire.max_completion_tokens, wire.max_tokens),
        temperature=number(wire.temperature, "temperature"),
        top_p=number(wire.top_p, "top_p"),
        stop=(wire.stop,) if isinstance(wire.stop, str) else tuple(wire.stop or ()),
        is_stream=wire.stream or False,
        wants_usage=_wants_usage(wire),
        thinking_effort=wire.reasoning_effort,
        user=wire.user or "",
        hints=hints,
        unsaid=tuple(dict.fromkeys(unsaid)),
    )


def _refuse(top: dict[str, Raw], wire: _Request) -> None:
    for key, refusal in _REFUSED.items():
        if not is_null(top.get(key, NULL)):
            raise refuse(refusal, key)
    if wire.n is not None and wire.n != 1:
        raise refuse(CannotSayCode.CHOICES, f"n: {wire.n}")
    if "audio" in (wire.modalities or ()):
        raise refuse(CannotSayCode.AUDIO, "modalities")


def _first(*numbers: int | None) -> int | None:
    return next((each for each in numbers if each is not None), None)


def _wants_usage(wire: _Request) -> bool:
    if not wire.stream:
        return True
    return bool(wire.stream_options and wire.stream_options.include_usage)


def _conversation(
    wire: list[_Message], unsaid: list[str]
) -> tuple[tuple[Text, ...], tuple[ChatMessage, ...]]:
    """Read the messages; system messages in front are the system prompt."""
    front = 0
    while front < len(wire) and wire[front].role in _SYSTEM_ROLES:
        front += 1
    system: list[Text] = []
    for at, each in enumerate(wire[:front]):
        system.extend(_texts(each, f"messages[{at}]", unsaid))
    rest = [
        _message(each, f"messages[{at + front}]", unsaid) for at, each in enumerate(wire[front:])
    ]
    return tuple(system), tuple(rest)


def _message(wire: _Message, where: str, unsaid: list[str]) -> ChatMessage:
    if wire.name:
        unsaid.append(Loss.MESSAGE_NAME)
    if wire.role in _SYSTEM_ROLES:
        return ChatMessage("system", tuple(_texts(wire, where, unsaid)))
    if wire.role == "user":
        return ChatMessage("user", tuple(_parts(wire, where, unsaid)))
    if wire.role == "assistant":
        return ChatMessage("assistant", _assistant_blocks(wire, where, unsaid))
    if wire.role == "tool":
        return ChatMessage("tool", (_tool_result(wire, where, unsaid),))
    if wire.role == "function":
        raise refuse(CannotSayCode.LEGACY_FUNCTIONS, f"{where}.role")
    raise InputError(f"`{where}.role`: `{wire.role}` is not a role")


def _assistant_blocks(wire: _Message, where: str, unsaid: list[str]) -> tuple[Block, ...]:
    if not is_null(wire.function_call):
        raise refuse(CannotSayCode.LEGACY_FUNCTIONS, f"{where}.function_call")
    if not is_null(wire.audio):
        raise refuse(CannotSayCode.AUDIO, f"{where}.audio")
    if not (is_null(wire.reasoning_content) and is_null(wire.reasoning)):
        unsaid.append(Loss.THINKING)
    texts: list[Block] = [*_texts(wire, where, unsaid)]
    if wire.refusal:
        texts.append(Text(wire.refusal))
    calls = enumerate(wire.tool_calls or ())
    return (*texts, *(_tool_use(each, f"{where}.tool_calls[{at}]") for at, each in calls))


def _tool_use(call: _Call, where: str) -> ToolUse:
    if call.function is None:
        raise refuse(CannotSayCode.CUSTOM_TOOL, where)
    arguments = json_object(call.function.arguments, f"{where}.function.arguments")
    return ToolUse(call.id, call.function.name, arguments)


def _tool_result(wire: _Message, where: str, unsaid: list[str]) -> ToolResult:
    if not wire.tool_call_id:
        raise InputError(f"`{where}.tool_call_id` is missing")
    return ToolResult(wire.tool_call_id, tuple(_parts(wire, where, unsaid)))


def _texts(wire: _Message, where: str, unsaid: list[str]) -> list[Text]:
    found = _parts(wire, where, unsaid)
    texts = [each for each in found if isinstance(each, Text)]
    if len(texts) < len(found):
        raise InputError(f"`{where}`: a message of this role holds text only")
    return texts


def _parts(wire: _Message, where: str, unsaid: list[str]) -> list[Text | Image]:
    if wire.content is None:
        return []
    if isinstance(wire.content, str):
        return [Text(wire.content)] if wire.content else []
    found = (_part(each, f"{where}.content[{at}]", unsaid) for at, each in enumerate(wire.content))
    return [each for each in found if each != Text("")]


def _part(part: _Part, where: str, unsaid: list[str]) -> Text | Image:
    if not (is_null(part.cache_control) and is_null(part.prompt_cache_breakpoint)):
        unsaid.append(Loss.CACHE_CONTROL)
    if part.type == "image_url" and part.image_url is not None:
        if part.image_url.detail not in (None, "auto"):
            unsaid.append(Loss.IMAGE_DETAIL)
        return foreign.read_url(part.image_url.url, where)
    words = part.refusal if part.type == "refusal" else part.text
    if part.type in ("text", "refusal") and words is not None:
        return Text(words)
    raise _unreadable(part.type, where)


def _unreadable(kind: str, where: str) -> InputError:
    if kind == "input_audio":
        return refuse(CannotSayCode.AUDIO, where)
    if kind == "file":
        return refuse(CannotSayCode.FILE, where)
    if kind in ("text", "refusal", "image_url"):
        return InputError(f"`{where}` has no `{kind}`")
    return refuse(CannotSayCode.CONTENT, f"{where}.type: {kind}")


def _tool(wire: _Tool, at: int) -> ToolSpec:
    if wire.type == "custom":
        raise refuse(CannotSayCode.CUSTOM_TOOL, f"tools[{at}]")
    if wire.type != "function":
        raise refuse(CannotSayCode.SERVER_TOOL, f"tools[{at}].type: {wire.type}")
    if wire.function is None:
        raise InputError(f"`tools[{at}].function` is missing")
    found = wire.function
    schema = NO_PARAMETERS if is_null(found.parameters) else found.parameters
    return ToolSpec(found.name, found.description or "", schema, found.strict)


def _tool_choice(wire: _Request) -> ToolChoice | None:
    choice = wire.tool_choice
    parallel = wire.parallel_tool_calls
    if choice is None:
        return None if parallel is None else ToolChoice("auto", is_parallel=parallel)
    if isinstance(choice, str):
        if choice not in ("auto", "none", "required"):
            raise InputError(f"`tool_choice`: `{choice}` is not a choice")
        kind = "any" if choice == "required" else choice
        return ToolChoice(kind, is_parallel=parallel)  # type: ignore[arg-type] # one of three
    if choice.type == "allowed_tools":
        raise refuse(CannotSayCode.ALLOWED_TOOLS, "tool_choice")
    if choice.type == "custom":
        raise refuse(CannotSayCode.CUSTOM_TOOL, "tool_choice")
    if choice.function is None:
        raise InputError("`tool_choice.function` is missing")
    return ToolChoice("tool", choice.function.name, parallel)


def _output(wire: _Format | None) -> OutputFormat | None:
    if wire is None or wire.type == "text":
        return None
    if wire.type == "json_object":
        return OutputFormat("json_object")
    if wire.type != "json_schema":
        raise refuse(CannotSayCode.CONTENT, f"response_format.type: {wire.type}")
    found = wire.json_schema
    if found is None:
        raise InputError("`response_format.json_schema` is missing")
    schema = None if is_null(found.schema) else found.schema
    return OutputFormat("json_schema", found.name, schema, found.strict, found.description or "")
