"""Answers in the words of each vendor, whole and streamed, written without the product's own code.

A `Response` goes in; the bytes that the vendor's server would send come out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from pointsman.providers.messages import (
    Block,
    RedactedThinking,
    Response,
    StopReason,
    Text,
    Thinking,
    ToolUse,
    Usage,
)
from pointsman.providers.port import Dialect
from pointsman.testing.converse_wire import converse_frames, converse_whole

Json = dict[str, object]

CREATED = 1_800_000_000
"""When every answer was made, in seconds since 1970."""

_CHAT_STOPS: dict[StopReason, str] = {
    "end": "stop", "length": "length", "tool_use": "tool_calls", "stop_sequence": "stop",
    "refusal": "content_filter", "error": "stop",
}  # fmt: skip
_MESSAGES_STOPS: dict[StopReason, str] = {
    "end": "end_turn", "length": "max_tokens", "tool_use": "tool_use",
    "stop_sequence": "stop_sequence", "refusal": "refusal", "error": "end_turn",
}  # fmt: skip


def whole(dialect: Dialect, response: Response, model: str) -> Json:
    """Return a whole answer."""
    return _WHOLE[dialect](response, model)


def events(dialect: Dialect, response: Response, model: str, *, has_usage: bool) -> list[bytes]:
    """Return a streamed answer as the vendor's events, each with its blank line."""
    if dialect == "gemini":
        return [_data_bytes(each) for each in _gemini_chunks(response, model)]
    if dialect == "converse":
        return converse_frames(response)
    if dialect == "chat":
        return [*_chat_events(response, model, has_usage=has_usage), b"data: [DONE]\n\n"]
    told = _messages_events if dialect == "messages" else _responses_events
    return [_event_bytes(each) for each in told(response, model)]


def error_body(dialect: Dialect, kind: str, message: str, code: str | None = None) -> Json:
    """Return an error as the vendor words it."""
    if dialect == "messages":
        return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}
    if dialect == "gemini":
        return {"error": {"code": 500, "message": message, "status": code or kind.upper()}}
    if dialect == "converse":
        return {"message": message}
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def _data_bytes(event: Json) -> bytes:
    return b"data: %b\r\n\r\n" % msgspec.json.encode(event)


def _event_bytes(event: Json) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (str(event["type"]).encode(), msgspec.json.encode(event))


def _halves(text: str) -> Iterator[str]:
    middle = (len(text) + 1) // 2
    return (part for part in (text[:middle], text[middle:]) if part)


def _join_text(response: Response, kind: type[Text | Thinking]) -> str:
    return "".join(block.text for block in response.content if isinstance(block, kind))


def _tools(response: Response) -> list[ToolUse]:
    return [block for block in response.content if isinstance(block, ToolUse)]


def _total_input(usage: Usage) -> int:
    told = usage.input_tokens or 0
    return told + usage.cached_input_tokens + usage.cache_creation_input_tokens


# OpenAI, chat completions.


def _chat_usage(usage: Usage) -> Json:
    output = usage.output_tokens or 0
    return {
        "prompt_tokens": _total_input(usage),
        "completion_tokens": output,
        "total_tokens": _total_input(usage) + output,
        "prompt_tokens_details": {"cached_tokens": usage.cached_input_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def _chat_call(tool: ToolUse) -> Json:
    function = {"name": tool.name, "arguments": bytes(tool.input).decode()}
    return {"id": tool.id, "type": "function", "function": function}


def _chat_whole(response: Response, model: str) -> Json:
    said = _join_text(response, Text)
    message: Json = {"role": "assistant", "content": said or None, "refusal": None}
    if tools := _tools(response):
        message["tool_calls"] = [_chat_call(tool) for tool in tools]
    if thought := _join_text(response, Thinking):
        message["reasoning_content"] = thought
    stop = _CHAT_STOPS[response.stop_reason]
    return {
        "id": response.id,
        "object": "chat.completion",
        "created": CREATED,
        "model": model,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": stop}],
        "usage": _chat_usage(response.usage),
        "system_fingerprint": "fp_scripted",
    }


def _chat_deltas(response: Response) -> Iterator[Json]:
    yield {"role": "assistant", "content": "", "refusal": None}
    for part in _halves(_join_text(response, Thinking)):
        yield {"reasoning_content": part}
    for part in _halves(_join_text(response, Text)):
        yield {"content": part}
    for index, tool in enumerate(_tools(response)):
        begun = _chat_call(tool)
        begun["function"] = {"name": tool.name, "arguments": ""}
        yield {"tool_calls": [{"index": index, **begun}]}
        for part in _halves(bytes(tool.input).decode()):
            yield {"tool_calls": [{"index": index, "function": {"arguments": part}}]}


def _chat_events(response: Response, model: str, *, has_usage: bool) -> Iterator[bytes]:
    def chunk(choices: Sequence[Json], **more: object) -> bytes:
        head: Json = {
            "id": response.id, "object": "chat.completion.chunk", "created": CREATED,
            "model": model, "system_fingerprint": "fp_scripted",
        }  # fmt: skip
        return b"data: %b\n\n" % msgspec.json.encode({**head, "choices": choices, **more})

    missing: Json = {"usage": None} if has_usage else {}
    for delta in _chat_deltas(response):
        yield chunk([{"index": 0, "delta": delta, "finish_reason": None}], **missing)
    stop = _CHAT_STOPS[response.stop_reason]
    yield chunk([{"index": 0, "delta": {}, "finish_reason": stop}], **missing)
    if has_usage:
        yield chunk([], usage=_chat_usage(response.usage))


# Anthropic, messages.


def _messages_usage(usage: Usage) -> Json:
    return {
        "input_tokens": usage.input_tokens or 0,
        "cache_creation_input_tokens": usage.cache_creation_input_tokens,
        "cache_read_input_tokens": usage.cached_input_tokens,
        "output_tokens": usage.output_tokens or 0,
    }


def _messages_block(block: object) -> Json:
    match block:
        case Text(text):
            return {"type": "text", "text": text}
        case Thinking(text, signature):
            return {"type": "thinking", "thinking": text, "signature": signature}
        case RedactedThinking(data):
            return {"type": "redacted_thinking", "data": data}
        case ToolUse(id, name, given):
            return {"type": "tool_use", "id": id, "name": name, "input": given}
    raise TypeError("a model does not say this")


def _messages_whole(response: Response, model: str) -> Json:
    return {
        "id": response.id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [_messages_block(block) for block in response.content],
        "stop_reason": _MESSAGES_STOPS[response.stop_reason],
        "stop_sequence": response.stop_sequence or None,
        "usage": _messages_usage(response.usage),
    }


def _messages_deltas(block: object) -> tuple[Json, list[Json]]:
    """Return a block as it begins, and its deltas."""
    match block:
        case Text(text):
            deltas: list[Json] = [{"type": "text_delta", "text": part} for part in _halves(text)]
            return {"type": "text", "text": ""}, deltas
        case Thinking(text, signature):
            deltas = [{"type": "thinking_delta", "thinking": part} for part in _halves(text)]
            deltas.append({"type": "signature_delta", "signature": signature})
            return {"type": "thinking", "thinking": "", "signature": ""}, deltas
        case ToolUse(id, name, given):
            parts = ["", *_halves(bytes(given).decode())]
            deltas = [{"type": "input_json_delta", "partial_json": part} for part in parts]
            return {"type": "tool_use", "id": id, "name": name, "input": {}}, deltas
    return _messages_block(block), []


def _messages_events(response: Response, model: str) -> Iterator[Json]:
    begun = _messages_whole(response, model)
    begun.update(content=[], stop_reason=None, stop_sequence=None)
    begun["usage"] = {**_messages_usage(response.usage), "output_tokens": 1}
    yield {"type": "message_start", "message": begun}
    for index, block in enumerate(response.content):
        start, deltas = _messages_deltas(block)
        yield {"type": "content_block_start", "index": index, "content_block": start}
        if index == 0:
            yield {"type": "ping"}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    end = _messages_whole(response, model)
    stop = {"stop_reason": end["stop_reason"], "stop_sequence": end["stop_sequence"]}
    yield {"type": "message_delta", "delta": stop, "usage": end["usage"]}
    yield {"type": "message_stop"}


# OpenAI, responses.


def _responses_usage(usage: Usage) -> Json:
    output = usage.output_tokens or 0
    return {
        "input_tokens": _total_input(usage),
        "input_tokens_details": {"cached_tokens": usage.cached_input_tokens},
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": _total_input(usage) + output,
    }


def _text_part(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _responses_item(index: int, block: object) -> Json:
    match block:
        case Text(text):
            return {
                "type": "message", "id": f"msg_{index}", "status": "completed",
                "role": "assistant", "content": [_text_part(text)],
            }  # fmt: skip
        case Thinking(text, signature):
            summary = [{"type": "summary_text", "text": text}]
            return {
                "type": "reasoning", "id": f"rs_{index}", "summary": summary,
                "encrypted_content": signature or None,
            }  # fmt: skip
        case RedactedThinking(data):
            return {
                "type": "reasoning", "id": f"rs_{index}", "summary": [], "encrypted_content": data,
            }  # fmt: skip
        case ToolUse(id, name, given):
            return {
                "type": "function_call", "id": f"fc_{index}", "call_id": id, "name": name,
                "arguments": bytes(given).decode(), "status": "completed",
            }  # fmt: skip
    raise TypeError("a model does not say this")


def _responses_whole(response: Response, model: str) -> Json:
    is_cut = response.stop_reason in ("length", "refusal")
    why = "max_output_tokens" if response.stop_reason == "length" else "content_filter"
    return {
        "id": response.id,
        "object": "response",
        "created_at": CREATED,
        "status": "incomplete" if is_cut else "completed",
        "error": None,
        "incomplete_details": {"reason": why} if is_cut else None,
        "instructions": None,
        "metadata": {},
        "model": model,
        "output": [_responses_item(index, block) for index, block in enumerate(response.content)],
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": _responses_usage(response.usage),
    }


def _responses_events(response: Response, model: str) -> Iterator[Json]:
    whole_one = _responses_whole(response, model)
    begun = {**whole_one, "status": "in_progress", "output": [], "usage": None}
    begun["incomplete_details"] = None
    told: list[Json] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
    ]
    for index, block in enumerate(response.content):
        told += _item_events(index, _responses_item(index, block), block)
    told.append({"type": f"response.{whole_one['status']}", "response": whole_one})
    for number, event in enumerate(told):
        yield {**event, "sequence_number": number}


def _item_events(index: int, item: Json, block: object) -> Iterator[Json]:
    at: Json = {"item_id": item["id"], "output_index": index}
    empty: Json = {"content": []} if isinstance(block, Text) else {}
    empty |= {"arguments": ""} if isinstance(block, ToolUse) else {}
    empty |= {"summary": [], "encrypted_content": None} if "summary" in item else {}
    empty |= {"status": "in_progress"} if "status" in item else {}
    yield {"type": "response.output_item.added", "output_index": index, "item": {**item, **empty}}
    match block:
        case Text(text):
            yield from _part_events("content_part", "output_text", at, text)
        case Thinking(text, _):
            yield from _part_events("reasoning_summary_part", "reasoning_summary_text", at, text)
        case ToolUse(_, name, given):
            arguments = bytes(given).decode()
            for part in _halves(arguments):
                yield {"type": "response.function_call_arguments.delta", **at, "delta": part}
            done: Json = {"name": name, "arguments": arguments}
            yield {"type": "response.function_call_arguments.done", **at, **done}
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def _part_events(part: str, words: str, at: Json, text: str) -> Iterator[Json]:
    is_text = part == "content_part"
    where: Json = {**at, ("content_index" if is_text else "summary_index"): 0}
    more: Json = {"logprobs": []} if is_text else {}

    def part_value(text: str) -> Json:
        return _text_part(text) if is_text else {"type": "summary_text", "text": text}

    yield {"type": f"response.{part}.added", **where, "part": part_value("")}
    for piece in _halves(text):
        yield {"type": f"response.{words}.delta", **where, "delta": piece, **more}
    yield {"type": f"response.{words}.done", **where, "text": text, **more}
    yield {"type": f"response.{part}.done", **where, "part": part_value(text)}


# Google, generateContent.

_GEMINI_STOPS: dict[StopReason, str] = {"length": "MAX_TOKENS", "refusal": "SAFETY"}


def _gemini_part(block: Block) -> Json:
    match block:
        case Text(text):
            return {"text": text}
        case Thinking(text):
            return {"text": text, "thought": True}
        case ToolUse(own_id, name, given):
            call: Json = {"name": name, "args": given}
            return {"functionCall": call, "thoughtSignature": f"signed {own_id}"}
        case _:
            return {}


def _gemini_answer(
    response: Response, model: str, parts: Sequence[Json], *, is_last: bool = True
) -> Json:
    used, thoughts = response.usage, response.usage.reasoning_tokens
    candidate: Json = {"content": {"parts": [*parts], "role": "model"}, "index": 0}
    if is_last:
        candidate["finishReason"] = _GEMINI_STOPS.get(response.stop_reason, "STOP")
    metadata: Json = {
        "promptTokenCount": _total_input(used),
        "candidatesTokenCount": (used.output_tokens or 0) - thoughts if is_last else 1,
        "totalTokenCount": _total_input(used) + (used.output_tokens or 0),
        "cachedContentTokenCount": used.cached_input_tokens,
        "thoughtsTokenCount": thoughts,
    }
    return {
        "candidates": [candidate],
        "usageMetadata": metadata,
        "modelVersion": model,
        "responseId": response.id,
    }


def _gemini_whole(response: Response, model: str) -> Json:
    return _gemini_answer(response, model, [_gemini_part(each) for each in response.content])


def _gemini_chunks(response: Response, model: str) -> Iterator[Json]:
    for block in response.content:
        part = _gemini_part(block)
        pieces = [*_halves(str(part["text"]))] if "text" in part else [""]
        for text in pieces:
            told = {**part, "text": text} if text else part
            yield _gemini_answer(response, model, [told], is_last=False)
    yield _gemini_answer(response, model, [{"text": ""}])


_WHOLE: dict[Dialect, Callable[[Response, str], Json]] = {
    "chat": _chat_whole,
    "gemini": _gemini_whole,
    "converse": converse_whole,
    "messages": _messages_whole,
    "responses": _responses_whole,
}
