"""The dialects by name, all of one shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, cast

from pointsman.providers.dialects import chat, converse, gemini, messages, responses
from pointsman.providers.dialects.loss import WrittenRequest
from pointsman.providers.messages import ModelRequest, Response
from pointsman.providers.port import Dialect
from pointsman.providers.streaming import Event


class StreamReader(Protocol):
    """Reads one streamed answer."""

    def feed(self, data: bytes) -> list[Event]:
        """Take more bytes, cut in any way, and give the events they complete."""
        ...

    def end(self) -> list[Event]:
        """Say that no more bytes come; a `Broken` tells of an answer that is not whole."""
        ...


class StreamWriter(Protocol):
    """Writes one streamed answer."""

    def write(self, event: Event) -> bytes:
        """Write one event in the vendor's own; nothing when it has no words for it."""
        ...


class ProviderSpeaker(Protocol):
    """The words of one dialect to a provider: requests out, answers in."""

    def write_request(self, request: ModelRequest, model: str) -> WrittenRequest:
        """Write a request and list its losses."""
        ...

    def read_response(self, body: bytes) -> Response:
        """Read a whole answer."""
        ...

    def stream_reader(self) -> StreamReader:
        """Read one streamed answer."""
        ...


class Speaker(ProviderSpeaker, Protocol):
    """Everything that can be read and written in one dialect, of a caller too."""

    def read_request(self, body: bytes) -> ModelRequest:
        """Read a request; raise `CannotSay` for content no other dialect could carry."""
        ...

    def write_response(self, response: Response, model: str, created: int) -> bytes:
        """Write a whole answer."""
        ...

    def stream_writer(self, model: str, created: int, *, wants_usage: bool = True) -> StreamWriter:
        """Write one streamed answer."""
        ...

    def write_error(self, status: int, code: str, message: str, request_id: str = "") -> bytes:
        """Write an error as a whole body."""
        ...

    def error_event(self, code: str, message: str) -> bytes:
        """Write an error in the middle of a stream."""
        ...


_SPEAKERS: Mapping[Dialect, Speaker] = {
    "chat": cast("Speaker", chat),
    "responses": cast("Speaker", responses),
    "messages": cast("Speaker", messages),
}
_PROVIDER_SPEAKERS: Mapping[Dialect, ProviderSpeaker] = {
    **_SPEAKERS,
    "gemini": cast("ProviderSpeaker", gemini),
    "converse": cast("ProviderSpeaker", converse),
}


def speaker(dialect: Dialect) -> Speaker:
    """Return the dialect of this name, which callers speak."""
    return _SPEAKERS[dialect]


def provider_speaker(dialect: Dialect) -> ProviderSpeaker:
    """Return the dialect of this name, in which a provider is spoken to."""
    return _PROVIDER_SPEAKERS[dialect]
