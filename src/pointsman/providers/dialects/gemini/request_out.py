"""Gemini: writing a request. The model and whether to stream stand in its address."""

from __future__ import annotations

import mimetypes
from collections.abc import Mapping, Sequence

import msgspec

from pointsman.providers.dialects import generation
from pointsman.providers.dialects.gemini.response import OF_CALL
from pointsman.providers.dialects.loss import (
    CannotSayCode,
    Loss,
    Losses,
    WrittenRequest,
    refuse,
    write_hints,
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

HINTS: Mapping[str, str] = {
    "top_k": "topK",
    "seed": "seed",
    "frequency_penalty": "frequencyPenalty",
    "presence_penalty": "presencePenalty",
}
_MODES = {"auto": "AUTO", "any": "ANY", "none": "NONE", "tool": "ANY"}
_UNSIGNED = "skip_thought_signature_validator"
"""What Google has histories of other models say in place of a signature."""

Written = dict[str, object]


def write_request(request: ModelRequest, model: str) -> WrittenRequest:
    """Write a request for a model; `model` is the provider's own name for it."""
    losses = Losses(request.unsaid)
    request, system = move_system(request, losses)
    body: Written = {"contents": all_written(request, "gemini", _contents, losses)}
    if system:
        body["systemInstruction"] = {"parts": [{"text": each.text} for each in system]}
    if request.tools:
        declared = [_declaration(each, losses) for each in request.tools]
        body["tools"] = [{"functionDeclarations": declared}]
        if request.tool_choice is not None:
            body["toolConfig"] = _choice(request.tool_choice, losses)
    if request.user:
        losses.add(Loss.USER)
    config = _config(request, model, losses)
    if config:
        body["generationConfig"] = config
    return WrittenRequest(msgspec.json.encode(body), losses.all())


def _contents(messages: Sequence[ChatMessage], losses: Losses) -> list[Written]:
    names: dict[str, str] = {}
    written: list[Written] = []
    for message in messages:
        role = "model" if message.role == "assistant" else "user"
        parts = _parts(message, names, losses)
        if written and written[-1]["role"] == role:
            # Gemini wants the roles to take turns: results of one step make one message.
            before = written[-1]["parts"]
            assert isinstance(before, list)  # noqa: S101 - written below
            before.extend(parts)
        elif parts:
            written.append({"role": role, "parts": parts})
    return written


def _parts(message: ChatMessage, names: dict[str, str], losses: Losses) -> list[Written]:
    parts: list[Written] = []
    signature = "" if message.role == "assistant" else None
    has_call = False
    for block in message.content:
        match block:
            case Text(text):
                parts += [{"text": text}] if text else []
            case Image():
                parts.append(_image(block))
            case ToolUse():
                names[block.id] = block.name
                part: Written = {"functionCall": {"name": block.name, "args": block.input}}
                # Of calls side by side only the first is signed.
                if signature or not has_call:
                    part["thoughtSignature"] = signature or _UNSIGNED
                parts.append(part)
                signature, has_call = "", True
            case ToolResult():
                parts += _result(block, names.get(block.tool_use_id, block.tool_use_id), losses)
            case Thinking() | RedactedThinking():
                signature = _signature(block, losses) or signature
    return parts


def _signature(block: Block, losses: Losses) -> str:
    if isinstance(block, Thinking) and block.vendor == "gemini" and block.id == OF_CALL:
        return block.signature
    losses.add(Loss.THINKING)
    return ""


def _result(block: ToolResult, name: str, losses: Losses) -> list[Written]:
    text = "".join(each.text for each in block.content if isinstance(each, Text))
    images = [_image(each) for each in block.content if isinstance(each, Image)]
    if images:
        losses.add(Loss.TOOL_IMAGE_PLACE)
    response = {"error" if block.is_error else "output": text}
    return [{"functionResponse": {"name": name, "response": response}}, *images]


def _image(image: Image) -> Written:
    if image.kind == "base64":
        return {"inlineData": {"mimeType": image.media_type, "data": image.data}}
    if not image.data.startswith("https://"):
        raise refuse(CannotSayCode.IMAGE_URL, image.data[:60])
    # An address comes with its type here, and only its ending tells one.
    kind = mimetypes.guess_type(image.data.partition("?")[0])[0]
    if kind is None or not kind.startswith("image/"):
        raise refuse(CannotSayCode.IMAGE_TYPE, image.data[:60])
    return {"fileData": {"mimeType": kind, "fileUri": image.data}}


def _declaration(tool: ToolSpec, losses: Losses) -> Written:
    if tool.is_strict:
        losses.add(Loss.TOOL_OPTIONS)
    written: Written = {"name": tool.name}
    if tool.description:
        written["description"] = tool.description
    written["parametersJsonSchema"] = tool.input_schema
    return written


def _choice(choice: ToolChoice, losses: Losses) -> Written:
    if choice.is_parallel is not None:
        losses.add(Loss.TOOL_PARALLEL)
    calling: Written = {"mode": _MODES[choice.kind]}
    if choice.kind == "tool":
        calling["allowedFunctionNames"] = [choice.name]
    return {"functionCallingConfig": calling}


def _config(request: ModelRequest, model: str, losses: Losses) -> Written:
    config: Written = {
        name: value
        for name, value in (
            ("maxOutputTokens", request.max_output_tokens),
            ("temperature", request.temperature),
            ("topP", request.top_p),
            ("stopSequences", request.stop or None),
        )
        if value is not None
    }
    hints: Written = {}
    write_hints(request, HINTS, hints, losses)
    config |= {HINTS[name]: value for name, value in hints.items()}
    if request.output is not None:
        config |= _format(request.output, losses)
    if (thinking := _thinking(request, model, losses)) is not None:
        config["thinkingConfig"] = thinking
    return config


def _format(output: OutputFormat, losses: Losses) -> Written:
    written: Written = {"responseMimeType": "application/json"}
    if output.schema is not None:
        if output.name or output.description:
            losses.add(Loss.OUTPUT_NAME)
        written["responseJsonSchema"] = output.schema
    return written


def _thinking(request: ModelRequest, model: str, losses: Losses) -> Written | None:
    """Return how much to think: a level for models since Gemini 3, a budget for 2.5."""
    effort, budget = request.thinking_effort, request.thinking_tokens
    if effort is None and budget is None:
        return None
    if not generation.gemini_thinks(model):
        if effort != "none":
            losses.add(Loss.THINKING_EFFORT)
        return None
    takes_budget = generation.takes_gemini_budget(model)
    if effort == "none":
        if not takes_budget or "pro" in model:
            losses.add(Loss.THINKING_OFF)
            return None
        return {"thinkingBudget": 0}
    if takes_budget:
        wanted = budget or generation.budget_of(effort or "")
        most = generation.MOST_GEMINI_BUDGET
        return {"thinkingBudget": min(wanted, most), "includeThoughts": True}
    level = effort or generation.effort_of(budget or 0)
    return {"thinkingLevel": generation.gemini_level(level), "includeThoughts": True}
