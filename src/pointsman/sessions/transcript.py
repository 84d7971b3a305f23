"""A session's messages as a model is sent them; every provider accepts them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pointsman.providers.capabilities import estimate_input_tokens
from pointsman.providers.messages import (
    Block,
    ChatMessage,
    Image,
    ModelRequest,
    Text,
    ToolResult,
    ToolUse,
)
from pointsman.recording.labels import ToolItems, tool_item
from pointsman.sessions.message import SessionMessage
from pointsman.signals.tokens import TOKENIZER, count_tokens

NOT_SEEN = Text("[an image that this model cannot see]")
NO_RESULT = "the tool gave no result"


def transcript(
    messages: Sequence[SessionMessage], *, sees_images: bool = True, shows_ids: bool = False
) -> tuple[ChatMessage, ...]:
    """Return the messages to send; with `shows_ids`, a planner can point at them.

    Calls that no result answers and results that answer no call are left out, for providers refuse
    both; of an answer that was cut off only its words are sent; a model without eyes is told that
    there was an image.
    """
    called = {use.id for each in messages for use in each.tool_uses if _is_whole(each)}
    answered = {each.tool_use_id for message in messages for each in message.tool_results}
    paired = called & answered
    sent = []
    for each in messages:
        blocks = tuple(_sendable_blocks(each, paired, sees_images=sees_images))
        if blocks:
            sent.append(ChatMessage(each.role, _with_ids(each, blocks) if shows_ids else blocks))
    return tuple(sent)


def _with_ids(message: SessionMessage, blocks: tuple[Block, ...]) -> tuple[Block, ...]:
    """Add ids by which `delegate` can include messages; answers stay unchanged."""
    if message.role == "user":
        return (*blocks, Text(f"[message_id: {message.id}]"))
    return tuple(
        ToolResult(
            each.tool_use_id,
            (*each.content, Text(f"[tool_use_id: {each.tool_use_id}]")),
            each.is_error,
        )
        if isinstance(each, ToolResult)
        else each
        for each in blocks
    )


def request_text(request: ModelRequest) -> str:
    """Return all text that a request sends, to check it before it leaves."""
    said = [each.text for each in request.system]
    earlier = () if request.earlier is None else request.earlier.messages()
    for message in (*earlier, *request.messages):
        for block in message.content:
            said += _words(block)
    return "\n".join(said)


def request_tools(request: ModelRequest) -> ToolItems:
    """Return the calls of tools that a request sends, its earlier messages included."""
    earlier = () if request.earlier is None else request.earlier.messages()
    uses = [
        block
        for message in (*earlier, *request.messages)
        for block in message.content
        if isinstance(block, ToolUse)
    ]
    return ToolItems(tuple(tool_item(each.name, _input(each)) for each in uses))


def estimated_tokens(request: ModelRequest, tokenizer: str = TOKENIZER) -> int:
    """Estimate the tokens of a request, its earlier messages included."""
    new = estimate_input_tokens(request, lambda text: count_tokens(text, tokenizer))
    return new if request.earlier is None else new + request.earlier.tokens(tokenizer)


def _words(block: Block) -> Iterator[str]:
    match block:
        case Text() | ToolUse():
            yield block.text if isinstance(block, Text) else _input(block)
        case ToolResult():
            yield from (each.text for each in block.content if isinstance(each, Text))
        case _:
            yield getattr(block, "text", "")


def _input(use: ToolUse) -> str:
    return f"{use.name} {bytes(use.input).decode('utf-8', 'surrogatepass')}"


def _is_whole(message: SessionMessage) -> bool:
    return message.metadata.status == "complete"


def _sendable_blocks(
    message: SessionMessage, paired: set[str], *, sees_images: bool
) -> Iterator[Block]:
    is_cut = message.role == "assistant" and not _is_whole(message)
    for block in message.content:
        match block:
            case ToolUse() if is_cut or block.id not in paired:
                continue
            case ToolResult():
                if block.tool_use_id in paired:
                    yield _result(block, sees_images=sees_images)
            case Image() if not sees_images:
                yield NOT_SEEN
            case Text() if not block.text:
                continue
            case _ if is_cut and not isinstance(block, Text):
                continue
            case _:
                yield block


def _result(block: ToolResult, *, sees_images: bool) -> ToolResult:
    content: tuple[Text | Image, ...] = block.content
    if not sees_images:
        content = tuple(NOT_SEEN if isinstance(each, Image) else each for each in content)
    return ToolResult(block.tool_use_id, content or (Text(NO_RESULT),), block.is_error)
