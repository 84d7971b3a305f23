"""Converse: writing a request. The model and whether to stream stand in its address."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from pointsman.errors import InputError
from pointsman.providers.dialects import generation
from pointsman.providers.dialects.body import NO_PARAMETERS, text_of
from pointsman.providers.dialects.foreign import for_messages, for_openai
from pointsman.providers.dialects.loss import (
    CannotSayCode,
    Loss,
    Losses,
    WrittenRequest,
    refuse,
    write_hints,
)
from pointsman.providers.dialects.messages.request_out import (
    write_claude_sampling,
    write_claude_thinking,
)
from pointsman.providers.dialects.passages import all_written, move_system
from pointsman.providers.messages import (
    Block,
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

Written = dict[str, object]


def write_request(request: ModelRequest, model: str) -> WrittenRequest:
    """Write a request for a model; `model` is the provider's own name for it."""
    losses = Losses(request.unsaid)
    request, system = move_system(request, losses)
    body: Written = {"messages": all_written(request, "converse", _messages, losses)}
    if body["messages"] == []:
        raise InputError("no message has any content")
    if system:
        body["system"] = [{"text": each.text} for each in system if each.text]
    if (tools := _tools(request, losses)) is not None:
        body["toolConfig"] = tools
    if request.user:
        losses.add(Loss.USER)
    if request.output is not None:
        body["outputConfig"] = {"textFormat": _format(request.output)}
    _write_settings(request, model, body, losses)
    return WrittenRequest(msgspec.json.encode(body), losses.all())


def _messages(messages: Sequence[ChatMessage], losses: Losses) -> list[Written]:
    written: list[Written] = []
    for message in messages:
        role = "assistant" if message.role == "assistant" else "user"
        blocks = [each for block in message.content for each in _block(block, losses)]
        if written and written[-1]["role"] == role:
            # The roles take turns: results of one step make one message.
            before = written[-1]["content"]
            assert isinstance(before, list)  # noqa: S101 - written below
            before.extend(blocks)
        elif blocks:
            written.append({"role": role, "content": blocks})
    return written


def _block(block: Block, losses: Losses) -> Iterator[Written]:
    match block:
        case Text(text):
            if text.strip():
                # A blank text is refused.
                yield {"text": text}
        case Image():
            yield {"image": _image(block)}
        case ToolUse(own_id, name, given):
            yield {"toolUse": {"toolUseId": _call_id(own_id), "name": name, "input": given}}
        case ToolResult():
            yield {"toolResult": _result(block)}
        case Thinking(text, signature, vendor):
            if vendor == "anthropic" and signature:
                told = {"text": text, "signature": signature}
                yield {"reasoningContent": {"reasoningText": told}}
            else:
                losses.add(Loss.THINKING)
        case RedactedThinking(data):
            yield {"reasoningContent": {"redactedContent": data}}


def _call_id(own_id: str) -> str:
    return for_openai(for_messages(own_id))


def _result(block: ToolResult) -> Written:
    content = [
        {"text": each.text} if isinstance(each, Text) else {"image": _image(each)}
        for each in block.content
        if not isinstance(each, Text) or each.text.strip()
    ]
    written: Written = {"toolUseId": _call_id(block.tool_use_id), "content": content}
    return {**written, "status": "error"} if block.is_error else written


def _image(image: Image) -> Written:
    if image.kind != "base64":
        raise refuse(CannotSayCode.IMAGE_URL, image.data[:60])
    kind = image.media_type.removeprefix("image/").replace("jpg", "jpeg")
    if kind not in ("png", "jpeg", "gif", "webp"):
        raise refuse(CannotSayCode.IMAGE_TYPE, image.media_type)
    return {"format": kind, "source": {"bytes": image.data}}


def _tools(request: ModelRequest, losses: Losses) -> Written | None:
    choice, used = request.tool_choice, _used_tools(request)
    declared = [{"toolSpec": _spec(each)} for each in request.tools]
    if choice is not None and choice.kind == "none":
        if used:
            # A history with calls needs its tools declared, and no word here forbids to call them.
            raise refuse(CannotSayCode.TOOL_CHOICE_NONE, "tool_choice")
        return None
    if not declared:
        # Calls in the history are refused where no tool is declared.
        return {"tools": [{"toolSpec": _spec(each)} for each in used]} if used else None
    config: Written = {"tools": declared}
    if choice is not None:
        config["toolChoice"] = _choice(choice, losses)
    return config


def _used_tools(request: ModelRequest) -> list[ToolSpec]:
    """Return the tools that a history calls, as far as its calls tell them."""
    earlier = () if request.earlier is None else request.earlier.messages()
    names = (
        block.name
        for message in (*earlier, *request.messages)
        for block in message.content
        if isinstance(block, ToolUse)
    )
    return [ToolSpec(name, "", NO_PARAMETERS) for name in dict.fromkeys(names)]


def _spec(tool: ToolSpec) -> Written:
    written: Written = {"name": tool.name}
    if tool.description:
        written["description"] = tool.description
    written["inputSchema"] = {"json": tool.input_schema}
    if tool.is_strict is not None:
        written["strict"] = tool.is_strict
    return written


def _choice(choice: ToolChoice, losses: Losses) -> Written:
    if choice.is_parallel is not None:
        losses.add(Loss.TOOL_PARALLEL)
    return {choice.kind: {"name": choice.name} if choice.kind == "tool" else {}}


def _format(output: OutputFormat) -> Written:
    if output.kind == "json_object" or output.schema is None:
        raise refuse(CannotSayCode.JSON_MODE, "response_format")
    named = {"name": output.name, "description": output.description}
    schema: Written = {key: value for key, value in named.items() if value}
    schema["schema"] = text_of(output.schema)
    return {"type": "json_schema", "structure": {"jsonSchema": schema}}


def _write_settings(request: ModelRequest, model: str, body: Written, losses: Losses) -> None:
    """Write sampling and thinking: Claude's own settings stand beside those of all models."""
    claude: Written = {"max_tokens": request.max_output_tokens}
    if generation.is_claude(model):
        claude["max_tokens"] = request.max_output_tokens or generation.default_max_tokens(model)
        write_claude_thinking(request, model, claude, losses)
    elif request.thinking_tokens or request.thinking_effort not in (None, "none"):
        losses.add(Loss.THINKING_EFFORT)
    if generation.is_claude(model):
        write_claude_sampling(request, model, claude, losses)
    else:
        claude |= {"temperature": request.temperature, "top_p": request.top_p}
        write_hints(request, (), claude, losses)
    inference = {
        "maxTokens": claude["max_tokens"],
        "temperature": claude.get("temperature"),
        "topP": claude.get("top_p"),
        "stopSequences": request.stop or None,
    }
    if told := {name: value for name, value in inference.items() if value is not None}:
        body["inferenceConfig"] = told
    own = {name: claude[name] for name in ("thinking", "output_config", "top_k") if name in claude}
    if own:
        body["additionalModelRequestFields"] = own
