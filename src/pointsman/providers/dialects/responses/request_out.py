"""Responses: writing a request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from pointsman.providers.dialects import foreign, generation
from pointsman.providers.dialects.body import text_of
from pointsman.providers.dialects.foreign import for_openai
from pointsman.providers.dialects.generation import write_effort, write_sampling
from pointsman.providers.dialects.loss import (
    CannotSayCode,
    Loss,
    Losses,
    WrittenRequest,
    refuse,
    write_hints,
)
from pointsman.providers.dialects.passages import all_written
from pointsman.providers.messages import (
    ChatMessage,
    Image,
    ModelRequest,
    OutputFormat,
    RedactedThinking,
    Text,
    Thinking,
    ToolChoice,
    ToolResult,
    ToolSpec,
    ToolUse,
)

HINTS = frozenset(
    {
        "verbosity", "prompt_cache_key", "prompt_cache_retention", "prompt_cache_options",
        "service_tier", "metadata", "safety_identifier", "moderation",
    }
)  # fmt: skip
_CHOICES = {"auto": "auto", "any": "required", "none": "none"}


def write_request(request: ModelRequest, model: str) -> WrittenRequest:
    """Write a request for a model; `model` is the provider's own name for it."""
    if request.stop:
        raise refuse(CannotSayCode.STOP, "stop")
    losses = Losses(request.unsaid)
    # Nothing is stored, so reasoning must come along with each request.
    body: dict[str, object] = {"model": model, "store": False}
    head = []
    if len(request.system) == 1:
        body["instructions"] = request.system[0].text
    elif request.system:
        head.append(_message_item("system", request.system))
    body["input"] = all_written(request, "responses", _items, losses, head)
    if request.tools:
        body["tools"] = [_tool(each) for each in request.tools]
        _write_choice(request.tool_choice, body)
    if request.max_output_tokens is not None:
        body["max_output_tokens"] = request.max_output_tokens
    write_sampling(request, model, body, losses)
    if generation.takes_reasoning_effort(model):
        body["include"] = ["reasoning.encrypted_content"]
    if (effort := write_effort(request, model, losses)) is not None:
        body["reasoning"] = {"effort": effort}
    if request.user:
        body["user"] = request.user
    if request.is_stream:
        body["stream"] = True
    write_hints(request, HINTS, body, losses)
    _write_text(request.output, body)
    return WrittenRequest(msgspec.json.encode(body), losses.all())


def _write_text(output: OutputFormat | None, body: dict[str, object]) -> None:
    text: dict[str, object] = {}
    if output is not None:
        text["format"] = _format(output)
    if (verbosity := body.pop("verbosity", None)) is not None:
        text["verbosity"] = verbosity
    if text:
        body["text"] = text


def _items(messages: Sequence[ChatMessage], losses: Losses) -> Iterator[dict[str, object]]:
    for message in messages:
        if message.role == "assistant":
            yield from _assistant_items(message, losses)
        elif message.role == "tool":
            yield from _outputs(message, losses)
        else:
            shown = tuple(each for each in message.content if isinstance(each, Text | Image))
            yield _message_item(message.role, shown)


def _assistant_items(message: ChatMessage, losses: Losses) -> Iterator[dict[str, object]]:
    for block in message.content:
        if isinstance(block, Text):
            part = {"type": "output_text", "text": block.text, "annotations": []}
            yield {"type": "message", "role": "assistant", "content": [part]}
        elif isinstance(block, ToolUse):
            yield {
                "type": "function_call",
                "call_id": for_openai(block.id),
                "name": block.name,
                "arguments": text_of(block.input),
            }
        elif isinstance(block, Thinking) and block.vendor == "openai" and block.signature:
            yield _reasoning(block)
        elif isinstance(block, Thinking | RedactedThinking):
            losses.add(Loss.THINKING)


def _reasoning(block: Thinking) -> dict[str, object]:
    summary = [{"type": "summary_text", "text": block.text}] if block.text else []
    return {
        "type": "reasoning",
        "id": block.id,
        "summary": summary,
        "encrypted_content": foreign.write_signature(block, "openai"),
    }


def _outputs(message: ChatMessage, losses: Losses) -> Iterator[dict[str, object]]:
    for block in message.content:
        if not isinstance(block, ToolResult):
            continue
        if block.is_error:
            losses.add(Loss.TOOL_ERROR)
        is_text = len(block.content) == 1 and isinstance(block.content[0], Text)
        parts = [_part(each) for each in block.content]
        output: object = parts[0]["text"] if is_text else parts or ""
        call_id = for_openai(block.tool_use_id)
        yield {"type": "function_call_output", "call_id": call_id, "output": output}


def _message_item(role: str, blocks: tuple[Text | Image, ...]) -> dict[str, object]:
    if len(blocks) == 1 and isinstance(blocks[0], Text):
        return {"type": "message", "role": role, "content": blocks[0].text}
    return {"type": "message", "role": role, "content": [_part(each) for each in blocks]}


def _part(block: Text | Image) -> dict[str, object]:
    if isinstance(block, Text):
        return {"type": "input_text", "text": block.text}
    return {"type": "input_image", "image_url": foreign.url_of(block), "detail": "auto"}


def _tool(tool: ToolSpec) -> dict[str, object]:
    written: dict[str, object] = {"type": "function", "name": tool.name}
    if tool.description:
        written["description"] = tool.description
    written["parameters"] = tool.input_schema
    # Absent would mean strict here, and not elsewhere.
    written["strict"] = tool.is_strict or False
    return written


def _write_choice(choice: ToolChoice | None, body: dict[str, object]) -> None:
    if choice is None:
        return
    named = {"type": "function", "name": choice.name}
    body["tool_choice"] = named if choice.kind == "tool" else _CHOICES[choice.kind]
    if choice.is_parallel is not None:
        body["parallel_tool_calls"] = choice.is_parallel


def _format(output: OutputFormat) -> dict[str, object]:
    if output.kind == "json_object":
        return {"type": "json_object"}
    written: dict[str, object] = {"type": "json_schema", "name": output.name or "response"}
    if output.description:
        written["description"] = output.description
    written["schema"] = output.schema or {}
    if output.is_strict is not None:
        written["strict"] = output.is_strict
    return written
