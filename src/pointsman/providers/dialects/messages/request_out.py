"""Messages: writing a request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Raw

from pointsman.errors import InputError
from pointsman.providers.dialects import generation
from pointsman.providers.dialects.loss import (
    CannotSayCode,
    Loss,
    Losses,
    WrittenRequest,
    refuse,
    write_hints,
)
from pointsman.providers.dialects.messages.blocks import write_block
from pointsman.providers.dialects.passages import all_written, move_system
from pointsman.providers.dialects.spans import unique
from pointsman.providers.messages import (
    Block,
    ChatMessage,
    ModelRequest,
    OutputFormat,
    RedactedThinking,
    Text,
    Thinking,
    ToolChoice,
    ToolSpec,
)

_ROLES = {"user": "user", "tool": "user", "assistant": "assistant", "system": "system"}


def write_request(request: ModelRequest, model: str) -> WrittenRequest:
    """Write a request for a model; `model` is the provider's own name for it."""
    losses = Losses(request.unsaid)
    request, system = _move_system(request, model, losses)
    messages = all_written(request, "messages", _write_messages, losses)
    if messages == []:
        raise InputError("no message has any content")
    body: dict[str, object] = {
        "model": model,
        "max_tokens": _max_tokens(request, model),
        "messages": messages,
    }
    if system:
        body["system"] = _system(system)
    if request.tools:
        body["tools"] = [_tool(each) for each in request.tools]
        if request.tool_choice is not None:
            body["tool_choice"] = _choice(request.tool_choice, losses)
    write_claude_thinking(request, model, body, losses)
    if request.output is not None:
        config = body.setdefault("output_config", {})
        assert isinstance(config, dict)  # noqa: S101 - set here or with the thinking
        config["format"] = _format(request.output, losses)
    write_claude_sampling(request, model, body, losses)
    if request.stop:
        body["stop_sequences"] = request.stop
    if request.user:
        body["metadata"] = {"user_id": request.user}
    if request.is_stream:
        body["stream"] = True
    return WrittenRequest(msgspec.json.encode(body), losses.all())


def for_model_in_address(body: bytes, version: str) -> bytes:
    """Return a request with a version in place of the model, as clouds take it."""
    values = unique(body)
    values.pop("model", None)
    values.setdefault("anthropic_version", Raw(msgspec.json.encode(version)))
    return msgspec.json.encode(values)


def _max_tokens(request: ModelRequest, model: str) -> int:
    if request.max_output_tokens is not None:
        return request.max_output_tokens
    return generation.default_max_tokens(model)


def _move_system(
    request: ModelRequest, model: str, losses: Losses
) -> tuple[ModelRequest, list[Text]]:
    """Move system messages to the front where the model takes them only there."""
    if generation.takes_system_in_place(model):
        return request, [*request.system]
    return move_system(request, losses)


def _write_messages(messages: Sequence[ChatMessage], losses: Losses) -> list[dict[str, object]]:
    written: list[dict[str, object]] = []
    is_after_tool = False
    for message in messages:
        blocks = [write_block(each) for each in _allowed_blocks(message, losses)]
        if is_after_tool and message.role in ("tool", "user"):
            # All results of one step, and what the user adds, make one message.
            _extend(written[-1], blocks)
        elif blocks:
            written.append({"role": _ROLES[message.role], "content": blocks})
        is_after_tool = message.role == "tool"
    for each in written:
        each["content"] = _shorten(each["content"])
    return written


def _extend(message: dict[str, object], blocks: list[dict[str, object]]) -> None:
    content = message["content"]
    assert isinstance(content, list)  # noqa: S101 - shortened to a text only at the end
    content.extend(blocks)


def _shorten(content: object) -> object:
    """Write a single text as a string."""
    if isinstance(content, list) and len(content) == 1 and content[0]["type"] == "text":
        return content[0]["text"]
    return content


def _allowed_blocks(message: ChatMessage, losses: Losses) -> Iterable[Block]:
    """Leave out what Anthropic would refuse: empty texts, and reasoning that is not its own."""
    for block in message.content:
        if isinstance(block, Thinking) and not _is_own(block):
            losses.add(Loss.THINKING)
        elif block != Text(""):
            yield block


def _is_own(block: Thinking) -> bool:
    return block.vendor == "anthropic" and bool(block.signature)


def _system(texts: list[Text]) -> object:
    if len(texts) == 1:
        return texts[0].text
    return [write_block(each) for each in texts]


def _tool(tool: ToolSpec) -> dict[str, object]:
    written: dict[str, object] = {"name": tool.name}
    if tool.description:
        written["description"] = tool.description
    written["input_schema"] = tool.input_schema
    if tool.is_strict is not None:
        written["strict"] = tool.is_strict
    return written


def _choice(choice: ToolChoice, losses: Losses) -> dict[str, object]:
    written: dict[str, object] = {"type": choice.kind}
    if choice.kind == "tool":
        written["name"] = choice.name
    if choice.is_parallel is not None:
        if choice.kind == "none":
            losses.add(Loss.TOOL_PARALLEL)
        else:
            written["disable_parallel_tool_use"] = not choice.is_parallel
    return written


def _format(output: OutputFormat, losses: Losses) -> dict[str, object]:
    if output.kind == "json_object" or output.schema is None:
        raise refuse(CannotSayCode.JSON_MODE, "response_format")
    if output.name or output.description:
        losses.add(Loss.OUTPUT_NAME)
    return {"type": "json_schema", "schema": output.schema}


def write_claude_thinking(
    request: ModelRequest, model: str, body: dict[str, object], losses: Losses
) -> None:
    """Write how much to think: a budget for older models, an effort for those that decide."""
    effort, budget = request.thinking_effort, request.thinking_tokens
    if effort is None and budget is None:
        return
    takes_budget = generation.takes_thinking_budget(model)
    if effort == "none":
        body["thinking"] = {"type": "disabled"}
    elif _forces_tool(request) or (takes_budget and _is_in_unthought_step(request)):
        losses.add(Loss.THINKING_WITH_TOOL)
    elif takes_budget:
        wanted = budget or generation.budget_of(effort or "")
        _write_budget(wanted, request.max_output_tokens, body, losses)
    else:
        level = effort or generation.effort_of(budget or 0)
        body["thinking"] = {"type": "adaptive"}
        body["output_config"] = {"effort": "low" if level == "minimal" else level}


def _forces_tool(request: ModelRequest) -> bool:
    choice = request.tool_choice
    return bool(request.tools) and choice is not None and choice.kind in ("any", "tool")


def _is_in_unthought_step(request: ModelRequest) -> bool:
    """Say whether results of tools answer a message that does not begin with own reasoning.

    Claude refuses to think on from such a message; those before a word of the user do not matter.
    """
    for message in reversed(request.messages):
        if message.role == "user":
            return False
        if message.role == "assistant":
            first = message.content[0] if message.content else None
            return not (
                isinstance(first, RedactedThinking)
                or (isinstance(first, Thinking) and _is_own(first))
            )
    return False


def _write_budget(budget: int, asked: int | None, body: dict[str, object], losses: Losses) -> None:
    """Write a budget that leaves room for the answer: it counts towards max_tokens."""
    most = body["max_tokens"]
    assert isinstance(most, int)  # noqa: S101 - written before
    fitting = min(budget, most * 3 // 4 if asked is None else most - 1)
    if fitting < generation.MIN_BUDGET:
        losses.add(Loss.THINKING_BUDGET)
    else:
        body["thinking"] = {"type": "enabled", "budget_tokens": fitting}


def write_claude_sampling(
    request: ModelRequest, model: str, body: dict[str, object], losses: Losses
) -> None:
    """Write sampling where the model takes it; with thinking it takes none."""
    thinks = "thinking" in body and body["thinking"] != {"type": "disabled"}
    is_taken = generation.takes_claude_sampling(model) and not thinks
    if request.temperature is not None:
        if is_taken:
            body["temperature"] = _temperature(request, losses)
        else:
            losses.add(Loss.TEMPERATURE)
    if request.top_p is not None:
        # Claude refuses both at once.
        if is_taken and not ("temperature" in body and generation.is_claude(model)):
            body["top_p"] = request.top_p
        else:
            losses.add(Loss.TOP_P)
    write_hints(request, {"top_k"} if is_taken else (), body, losses)


def _temperature(request: ModelRequest, losses: Losses) -> object:
    try:
        value = float(bytes(request.temperature or b"1"))
    except ValueError:
        raise InputError("`temperature`: expected a number") from None
    if value > 1:
        losses.add(Loss.TEMPERATURE_RANGE)
        return 1
    return request.temperature
