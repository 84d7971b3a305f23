"""A streamed answer as events, whatever dialect it comes in."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from pointsman.providers.messages import StopReason, Usage, Vendor

BlockKind = Literal["text", "thinking", "redacted_thinking", "tool_use"]


class AnswerStarted(Struct, frozen=True):
    """The answer begins; `usage` is the known input so far."""

    id: str
    usage: Usage


class BlockStarted(Struct, frozen=True):
    """A block begins; tools have an id and a name, redacted thinking its data.

    Thinking has the id that its carrier gives it, if it gives one.
    """

    index: int
    kind: BlockKind
    id: str = ""
    name: str = ""
    data: str = ""
    namespace: str = ""


class Delta(Struct, frozen=True):
    """More of a block: words, reasoning, or the text of a tool's arguments."""

    index: int
    text: str


class Signature(Struct, frozen=True):
    """The signature of a block of reasoning; `id` is its vendor's own name of the block."""

    index: int
    signature: str
    vendor: Vendor = ""
    id: str = ""


class BlockEnded(Struct, frozen=True):
    """A block is whole."""

    index: int


class AnswerStopped(Struct, frozen=True):
    """The answer is whole."""

    reason: StopReason
    usage: Usage
    stop_sequence: str = ""


class AnswerBroken(Struct, frozen=True):
    """The provider said that it cannot go on."""

    code: str
    message: str


Event = AnswerStarted | BlockStarted | Delta | Signature | BlockEnded | AnswerStopped | AnswerBroken
