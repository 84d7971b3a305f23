"""How many tokens a request may be. Companion §2.1."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from pointsman.providers.messages import (
    Block,
    ChatMessage,
    Image,
    ModelRequest,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
)

Count = Callable[[str], int]
"""Counts the tokens of a text for one model."""

IMAGE_TOKENS = 1600
"""What the vendors charge at most for one image that they do not scale up."""

_MESSAGE_TOKENS = 4
_TOOL_TOKENS = 12


def estimate_input_tokens(request: ModelRequest, count: Count) -> int:
    """Estimate the tokens of a request: its words by `count`, the rest by fixed amounts.

    Earlier messages are not included.
    """
    words = "\n".join(_words(request))
    images = sum(isinstance(block, Image) for block in _blocks(request.messages))
    return (
        count(words)
        + images * IMAGE_TOKENS
        + len(request.messages) * _MESSAGE_TOKENS
        + len(request.tools) * _TOOL_TOKENS
    )


def estimate_message_tokens(message: ChatMessage, count: Count) -> int:
    """Estimate the tokens that a message adds to a conversation.

    The line's end that parts it from the next counts with it: vocabularies join that to the word
    before it, so that the sum is what the whole would be, give or take a token.
    """
    blocks = [*_blocks((message,))]
    words = "".join(f"{each}\n" for each in _spoken(blocks))
    images = sum(isinstance(each, Image) for each in blocks)
    return count(words) + images * IMAGE_TOKENS + _MESSAGE_TOKENS


def _blocks(messages: Iterable[ChatMessage]) -> Iterator[Block]:
    for message in messages:
        for block in message.content:
            yield block
            if isinstance(block, ToolResult):
                yield from block.content


def _words(request: ModelRequest) -> Iterator[str]:
    yield from (each.text for each in request.system)
    for tool in request.tools:
        yield from (tool.name, tool.description, bytes(tool.input_schema).decode())
    yield from _spoken(_blocks(request.messages))


def _spoken(blocks: Iterable[Block]) -> Iterator[str]:
    for block in blocks:
        match block:
            case Text(text) | Thinking(text):
                yield text
            case ToolUse(_, name, given):
                yield from (name, bytes(given).decode())
