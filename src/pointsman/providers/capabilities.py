"""What a provider's adapter can carry, and how many tokens a request may be. Companion §2.1."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from msgspec import Struct

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
from pointsman.providers.port import Dialect
from pointsman.turns.registry.models import Capabilities

Count = Callable[[str], int]
"""Counts the tokens of a text for one model."""

IMAGE_TOKENS = 1600
"""What the vendors charge at most for one image that they do not scale up."""

_MESSAGE_TOKENS = 4
_TOOL_TOKENS = 12

_IMAGE_TYPES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")


class AdapterCapabilities(Struct, frozen=True):
    """What reaches a model through an adapter: what the model can do, within its dialect."""

    supports_thinking: bool
    supports_images: bool
    supports_tools: bool
    supports_system_prompt: bool
    supports_structured_output: bool
    supports_streaming: bool
    supports_streaming_tool_calls: bool
    supports_parallel_tool_calls: bool
    supports_prompt_caching: bool
    supports_system_messages_in_list: bool
    max_context_tokens: int | None
    max_output_tokens: int | None
    accepted_image_media_types: tuple[str, ...]


def adapter_capabilities(model: Capabilities, dialect: Dialect) -> AdapterCapabilities:
    """Return the capabilities of a model behind one dialect."""
    return AdapterCapabilities(
        supports_thinking=model.supports_thinking,
        supports_images=model.supports_images,
        supports_tools=model.supports_tools,
        supports_system_prompt=model.supports_system_prompt,
        supports_structured_output=model.supports_structured_output,
        supports_streaming=model.supports_streaming,
        supports_streaming_tool_calls=model.supports_tools and model.supports_streaming,
        supports_parallel_tool_calls=model.supports_tools,
        supports_prompt_caching=True,
        supports_system_messages_in_list=dialect != "messages",
        max_context_tokens=model.max_context_tokens,
        max_output_tokens=model.max_output_tokens,
        accepted_image_media_types=_IMAGE_TYPES if model.supports_images else (),
    )


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
