"""One request and one answer, whatever dialect they came in. Companion §2.1.

Only translated requests use these; a request that stays in its dialect is never decoded. Fields
that a dialect lacks are listed as lost, never dropped in silence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from msgspec import UNSET, Raw, Struct, UnsetType

Role = Literal["system", "user", "assistant", "tool"]
StopReason = Literal["end", "length", "tool_use", "stop_sequence", "refusal", "error"]
Vendor = Literal["", "anthropic", "openai", "gemini"]


class Text(Struct, frozen=True, tag_field="type", tag="text"):
    """Words."""

    text: str


class Image(Struct, frozen=True, tag_field="type", tag="image"):
    """A picture, by its bytes in base64 or by its address."""

    kind: Literal["base64", "url"]
    data: str
    media_type: str = ""


class ToolUse(Struct, frozen=True, tag_field="type", tag="tool_use"):
    """A call the model asks for; `input` is a JSON object.

    `namespace` holds the tool in the one format that groups its tools.
    """

    id: str
    name: str
    input: Raw
    namespace: str | UnsetType = UNSET


class ToolResult(Struct, frozen=True, tag_field="type", tag="tool_result"):
    """What a tool gave back."""

    tool_use_id: str
    content: tuple[Text | Image, ...]
    is_error: bool = False


class Thinking(Struct, frozen=True, tag_field="type", tag="thinking"):
    """Reasoning the model shows; the signature belongs to the vendor whose model wrote it.

    OpenAI's encrypted reasoning is a signature too; `id` is the vendor's own name of the item.
    """

    text: str
    signature: str = ""
    vendor: Vendor = ""
    id: str = ""


class RedactedThinking(Struct, frozen=True, tag_field="type", tag="redacted_thinking"):
    """Reasoning the provider hides."""

    data: str


Block = Text | Image | ToolUse | ToolResult | Thinking | RedactedThinking


class ChatMessage(Struct, frozen=True):
    """One message."""

    role: Role
    content: tuple[Block, ...]


class WrittenMessages(Struct, frozen=True):
    """Messages as one dialect writes them: JSON values with commas between, and the losses."""

    items: bytes
    lost: tuple[str, ...] = ()


class EarlierMessages(Protocol):
    """The messages before those of a request. They change no more, so each is worked out once."""

    def messages(self) -> tuple[ChatMessage, ...]:
        """Return the messages."""
        ...

    def tokens(self, tokenizer: str) -> int:
        """Estimate their tokens by a vocabulary."""
        ...

    def in_dialect(
        self, dialect: str, write: Callable[[Sequence[ChatMessage]], WrittenMessages]
    ) -> WrittenMessages:
        """Return the messages in a dialect; `write` is called only for those not written yet."""
        ...


class ToolSpec(Struct, frozen=True):
    """A tool the model may call; `input_schema` is a JSON Schema."""

    name: str
    description: str
    input_schema: Raw
    is_strict: bool | None = None


class ToolChoice(Struct, frozen=True):
    """Which tool must, may or may not be called."""

    kind: Literal["auto", "any", "none", "tool"]
    name: str = ""
    is_parallel: bool | None = None


class OutputFormat(Struct, frozen=True):
    """What the answer must look like."""

    kind: Literal["json_object", "json_schema"]
    name: str = ""
    schema: Raw | None = None
    is_strict: bool | None = None
    description: str = ""


class Hint(Struct, frozen=True):
    """A wish about how to answer that only some dialects can say: `top_k`, `seed`."""

    name: str
    value: Raw


class ModelRequest(Struct, frozen=True):
    """What a caller asks for."""

    messages: tuple[ChatMessage, ...]
    system: tuple[Text, ...] = ()
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: ToolChoice | None = None
    output: OutputFormat | None = None
    max_output_tokens: int | None = None
    temperature: Raw | None = None
    top_p: Raw | None = None
    stop: tuple[str, ...] = ()
    is_stream: bool = False
    wants_usage: bool = True
    thinking_tokens: int | None = None
    thinking_effort: str | None = None
    user: str = ""
    hints: tuple[Hint, ...] = ()
    unsaid: tuple[str, ...] = ()
    """Fields of the body that have no place here, by the names of `dialects.loss.Loss`."""
    namespaces: dict[str, tuple[str, str]] = {}
    """The namespace and the own name of each tool that stood in one, by its name in `tools`."""
    earlier: EarlierMessages | None = None
    """The messages before `messages`; the first of these follows no result of a tool."""


class Usage(Struct, frozen=True):
    """What a call used; the three buckets of input are disjoint. None where it was not told."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    reasoning_tokens: int = 0


class Response(Struct, frozen=True):
    """A whole answer."""

    id: str
    content: tuple[Block, ...]
    stop_reason: StopReason
    usage: Usage
    stop_sequence: str = ""
