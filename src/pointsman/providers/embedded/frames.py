"""The messages between the gateway and the model's process, and their frames.

A frame is a length in four bytes, most significant first, then one message in MessagePack.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec
from msgspec import Struct

MOST_BYTES = 64 * 1024 * 1024
_HEAD = 4


class LoadFrame(Struct, frozen=True, tag="load"):
    """The first message: which file to load, and how. `folder` is private and short-lived."""

    path: str
    alias: str
    folder: str
    context_tokens: int
    slots: int
    threads: int
    prompt_threads: int
    temperature: float | None = None
    top_p: float | None = None


class AskFrame(Struct, frozen=True, tag="ask"):
    """A chat completion is wanted; `body` is the engine's JSON."""

    id: int
    body: bytes


class CountFrame(Struct, frozen=True, tag="count"):
    """How many tokens has this text?"""

    id: int
    text: str


class PingFrame(Struct, frozen=True, tag="ping"):
    """Does the engine's own loop still turn?"""

    id: int


class CancelFrame(Struct, frozen=True, tag="cancel"):
    """Stop working on a request."""

    id: int


class ReadyFrame(Struct, frozen=True, tag="ready"):
    """The model is loaded; `context_tokens` is what one conversation may hold."""

    context_tokens: int
    load_ms: int
    memory_limit_bytes: int | None


class RefusedFrame(Struct, frozen=True, tag="refused"):
    """The model cannot be loaded."""

    message: str


class HeadFrame(Struct, frozen=True, tag="head"):
    """The answer begins."""

    id: int
    content_type: str


class PieceFrame(Struct, frozen=True, tag="piece"):
    """More of the answer."""

    id: int
    data: bytes


class DoneFrame(Struct, frozen=True, tag="done"):
    """The answer is whole; or the count, or the sign of life."""

    id: int
    tokens: int = 0


class FailedFrame(Struct, frozen=True, tag="failed"):
    """The engine refused or broke off; token counts where the prompt was too long."""

    id: int
    status: int
    message: str
    prompt_tokens: int = 0
    context_tokens: int = 0


ToWorker = LoadFrame | AskFrame | CountFrame | PingFrame | CancelFrame
Reply = HeadFrame | PieceFrame | DoneFrame | FailedFrame
FromWorker = ReadyFrame | RefusedFrame | HeadFrame | PieceFrame | DoneFrame | FailedFrame

M = TypeVar("M")


class BrokenFrame(ValueError):
    """what came is no frame"""


def encode(message: ToWorker | FromWorker) -> bytes:
    """Return a message as one frame."""
    data = msgspec.msgpack.encode(message)
    if len(data) > MOST_BYTES:
        raise BrokenFrame(f"a message of {len(data)} bytes is longer than {MOST_BYTES}")
    return len(data).to_bytes(_HEAD) + data


class FrameReader(Generic[M]):
    """Puts frames together from pieces that may be cut anywhere."""

    def __init__(self, decoder: msgspec.msgpack.Decoder[M]) -> None:
        self._decoder = decoder
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[M]:
        """Take some bytes and give the messages that are whole now."""
        buffer = self._buffer
        buffer += data
        messages, start = [], 0
        while len(buffer) - start >= _HEAD:
            size = int.from_bytes(buffer[start : start + _HEAD])
            if size > MOST_BYTES:
                raise BrokenFrame(f"a frame claims {size} bytes")
            end = start + _HEAD + size
            if len(buffer) < end:
                break
            messages.append(self._message(bytes(buffer[start + _HEAD : end])))
            start = end
        del buffer[:start]
        return messages

    def _message(self, data: bytes) -> M:
        try:
            return self._decoder.decode(data)
        except msgspec.MsgspecError as error:
            raise BrokenFrame(str(error)) from error


def worker_reader() -> FrameReader[ToWorker]:
    """Return the worker's frame reader."""
    return FrameReader(msgspec.msgpack.Decoder(ToWorker))


def gateway_reader() -> FrameReader[FromWorker]:
    """Return the gateway's frame reader."""
    return FrameReader(msgspec.msgpack.Decoder(FromWorker))
