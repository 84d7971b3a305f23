"""Chat completions: whole answers."""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct

from pointsman.errors import InputError
from pointsman.providers.dialects import stops, usage
from pointsman.providers.dialects.body import NULL, decode, is_null, json_object, text_of
from pointsman.providers.dialects.loss import CannotSayCode, refuse
from pointsman.providers.messages import (
    Block,
    Response,
    StopReason,
    Text,
    Thinking,
    ToolUse,
    Usage,
)


class _Function(Struct):
    name: str
    arguments: str = ""


class _Call(Struct):
    id: str
    function: _Function | None = None


class _Message(Struct):
    content: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[_Call] | None = None
    function_call: Raw = NULL
    audio: Raw = NULL


class _Choice(Struct):
    message: _Message
    finish_reason: str | None = None


class _Completion(Struct):
    choices: list[_Choice]
    id: str | None = None
    usage: usage.ChatUsage | None = None


_DECODER = msgspec.json.Decoder(_Completion)


def read_response(body: bytes) -> Response:
    """Read a whole answer."""
    wire = decode(_DECODER, body)
    if not wire.choices:
        raise InputError("`choices` is empty")
    if len(wire.choices) > 1:
        raise refuse(CannotSayCode.CHOICES, "choices")
    choice = wire.choices[0]
    return Response(
        id=wire.id or "",
        content=tuple(_blocks(choice.message)),
        stop_reason=_stop_reason(choice),
        usage=Usage() if wire.usage is None else wire.usage.read(),
    )


def _stop_reason(choice: _Choice) -> StopReason:
    if choice.message.refusal:
        return "refusal"
    found = stops.FROM_CHAT.get(choice.finish_reason or "stop", "end")
    # Some servers say `stop` after a call.
    return "tool_use" if found == "end" and choice.message.tool_calls else found


def _blocks(message: _Message) -> list[Block]:
    if not is_null(message.audio):
        raise refuse(CannotSayCode.AUDIO, "message.audio")
    if not is_null(message.function_call):
        raise refuse(CannotSayCode.LEGACY_FUNCTIONS, "message.function_call")
    blocks: list[Block] = []
    reasoning = message.reasoning_content or message.reasoning
    if reasoning:
        blocks.append(Thinking(reasoning))
    blocks.extend(Text(each) for each in (message.content, message.refusal) if each)
    for at, call in enumerate(message.tool_calls or ()):
        where = f"choices[0].message.tool_calls[{at}]"
        if call.function is None:
            raise refuse(CannotSayCode.CUSTOM_TOOL, where)
        arguments = json_object(call.function.arguments, f"{where}.function.arguments")
        blocks.append(ToolUse(call.id, call.function.name, arguments))
    return blocks


def write_response(response: Response, model: str, created: int) -> bytes:
    """Write a whole answer; reasoning goes where DeepSeek and vLLM put it."""
    texts = [each.text for each in response.content if isinstance(each, Text)]
    message: dict[str, object] = {
        "role": "assistant",
        "content": "".join(texts) if texts else None,
        "refusal": None,
    }
    reasoning = "".join(each.text for each in response.content if isinstance(each, Thinking))
    if reasoning:
        message["reasoning_content"] = reasoning
    calls = [_call(each) for each in response.content if isinstance(each, ToolUse)]
    if calls:
        message["tool_calls"] = calls
    choice = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": stops.TO_CHAT[response.stop_reason],
    }
    body: dict[str, object] = {
        "id": answer_id(response.id),
        "object": "chat.completion",
        "created": created,
        "model": model,
        "choices": [choice],
    }
    if (used := usage.write_chat(response.usage)) is not None:
        body["usage"] = used
    return msgspec.json.encode(body)


def _call(block: ToolUse) -> dict[str, object]:
    function = {"name": block.name, "arguments": text_of(block.input)}
    return {"id": block.id, "type": "function", "function": function}


def answer_id(own_id: str) -> str:
    """Make an answer's id look like this vendor's."""
    return own_id if own_id.startswith("chatcmpl-") else f"chatcmpl-{own_id}"
