"""Chat completions: writing a request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from pointsman.providers.dialects import foreign, generation
from pointsman.providers.dialects.body import text_of
from pointsman.providers.dialects.foreign import for_openai
from pointsman.providers.dialects.generation import write_effort, write_sampling
from pointsman.providers.dialects.loss import Loss, Losses, WrittenRequest, write_hints
from pointsman.providers.dialects.passages import all_written
from pointsman.providers.messages import (
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

HINTS = frozenset(
    {
        "seed", "frequency_penalty", "presence_penalty", "logit_bias", "prediction", "verbosity",
        "prompt_cache_key", "prompt_cache_retention", "prompt_cache_options", "service_tier",
        "metadata", "safety_identifier", "moderation",
    }
)  # fmt: skip
_CHOICES = {"auto": "auto", "any": "required", "none": "none"}
_SEE_BELOW = "(the image follows in the next message)"


def write_request(request: ModelRequest, model: str) -> WrittenRequest:
    """Write a request for a model; `model` is the provider's own name for it."""
    losses = Losses(request.unsaid)
    system = {"role": "system", "content": _content(request.system)}
    messages = all_written(request, "chat", _messages, losses, [system] if request.system else ())
    body: dict[str, object] = {"model": model, "messages": messages}
    if request.tools:
        body["tools"] = [_tool(each) for each in request.tools]
        _write_choice(request.tool_choice, body)
    if request.output is not None:
        body["response_format"] = _format(request.output)
    if request.max_output_tokens is not None:
        is_new = generation.is_openai(model)
        key = "max_completion_tokens" if is_new else "max_tokens"
        body[key] = request.max_output_tokens
    write_sampling(request, model, body, losses)
    if (effort := write_effort(request, model, losses)) is not None:
        body["reasoning_effort"] = effort
    if request.stop:
        body["stop"] = request.stop
    if request.user:
        body["user"] = request.user
    if request.is_stream:
        # Asked for even when the caller does not want it: budgets are settled by it.
        body["stream"] = True
        body["stream_options"] = {"include_usage": True}
    write_hints(request, HINTS, body, losses)
    return WrittenRequest(msgspec.json.encode(body), losses.all())


def _messages(messages: Sequence[ChatMessage], losses: Losses) -> Iterator[dict[str, object]]:
    waiting: list[Image] = []
    for message in messages:
        if waiting and message.role != "tool":
            yield _image_message(waiting)
            waiting = []
        yield _message(message, waiting, losses)
    if waiting:
        yield _image_message(waiting)


def _image_message(images: list[Image]) -> dict[str, object]:
    return {"role": "user", "content": [_part(each) for each in images]}


def _message(message: ChatMessage, waiting: list[Image], losses: Losses) -> dict[str, object]:
    if message.role == "tool":
        return _tool_message(message, waiting, losses)
    if message.role == "assistant":
        return _assistant_message(message, losses)
    shown = tuple(each for each in message.content if isinstance(each, Text | Image))
    return {"role": message.role, "content": _content(shown)}


def _assistant_message(message: ChatMessage, losses: Losses) -> dict[str, object]:
    texts = [each.text for each in message.content if isinstance(each, Text)]
    calls = [_call(each) for each in message.content if isinstance(each, ToolUse)]
    if len(texts) + len(calls) < len(message.content):
        losses.add(Loss.THINKING)
    written: dict[str, object] = {"role": "assistant", "content": "".join(texts)}
    if calls:
        written["tool_calls"] = calls
        if not texts:
            written["content"] = None
    return written


def _call(block: ToolUse) -> dict[str, object]:
    function = {"name": block.name, "arguments": text_of(block.input)}
    return {"id": for_openai(block.id), "type": "function", "function": function}


def _tool_message(message: ChatMessage, waiting: list[Image], losses: Losses) -> dict[str, object]:
    result = next(each for each in message.content if isinstance(each, ToolResult))
    if result.is_error:
        losses.add(Loss.TOOL_ERROR)
    texts = tuple(each for each in result.content if isinstance(each, Text))
    images = [each for each in result.content if isinstance(each, Image)]
    if images:
        losses.add(Loss.TOOL_IMAGE_PLACE)
        waiting.extend(images)
        texts = texts or (Text(_SEE_BELOW),)
    return {
        "role": "tool",
        "tool_call_id": for_openai(result.tool_use_id),
        "content": _content(texts),
    }


def _content(blocks: tuple[Text | Image, ...]) -> object:
    """Write one text as a string, which every server takes, and anything else as parts."""
    if not blocks:
        return ""
    if len(blocks) == 1 and isinstance(blocks[0], Text):
        return blocks[0].text
    return [_part(each) for each in blocks]


def _part(block: Text | Image) -> dict[str, object]:
    if isinstance(block, Text):
        return {"type": "text", "text": block.text}
    return {"type": "image_url", "image_url": {"url": foreign.url_of(block)}}


def _tool(tool: ToolSpec) -> dict[str, object]:
    function: dict[str, object] = {"name": tool.name}
    if tool.description:
        function["description"] = tool.description
    function["parameters"] = tool.input_schema
    if tool.is_strict is not None:
        function["strict"] = tool.is_strict
    return {"type": "function", "function": function}


def _write_choice(choice: ToolChoice | None, body: dict[str, object]) -> None:
    if choice is None:
        return
    named = {"type": "function", "function": {"name": choice.name}}
    body["tool_choice"] = named if choice.kind == "tool" else _CHOICES[choice.kind]
    if choice.is_parallel is not None:
        body["parallel_tool_calls"] = choice.is_parallel


def _format(output: OutputFormat) -> dict[str, object]:
    if output.kind == "json_object":
        return {"type": "json_object"}
    schema: dict[str, object] = {"name": output.name or "response"}
    if output.description:
        schema["description"] = output.description
    if output.schema is not None:
        schema["schema"] = output.schema
    if output.is_strict is not None:
        schema["strict"] = output.is_strict
    return {"type": "json_schema", "json_schema": schema}
