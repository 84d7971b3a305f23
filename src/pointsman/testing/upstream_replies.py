"""Replies of a scripted upstream to a request, as steps on the wire."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from http import HTTPStatus

import msgspec
from msgspec import Raw, Struct

from pointsman.providers.messages import Block, Response, StopReason, Text, ToolUse, Usage
from pointsman.providers.port import OPERATIONS, Dialect, Operation
from pointsman.testing.upstream_wire import Json, error_body, events, whole

_GEMINI = (":generateContent", ":streamGenerateContent")
_RAW_PREDICT = (":rawPredict", ":streamRawPredict")
_CONVERSE = ("/converse", "/converse-stream")
USAGE = Usage(input_tokens=12, output_tokens=7)


class Received(Struct, frozen=True):
    """A request as it came in; header names in lower case."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    connection: int
    """Which connection it came on, counted from 1."""

    @property
    def path(self) -> str:
        """The path without its query."""
        return self.target.partition("?")[0]

    @property
    def dialect(self) -> Dialect:
        """The wire format that the path stands for."""
        if self.path.endswith(_GEMINI):
            return "gemini"
        if self.path.endswith(_CONVERSE):
            return "converse"
        if self.path.endswith(("/messages", *_RAW_PREDICT)):
            return "messages"
        return "responses" if self.path.endswith("/responses") else "chat"

    @property
    def operation(self) -> Operation:
        """Which of the other endpoints the path stands for."""
        if self.path.endswith("/chat/completions"):
            return ""
        return next((each for each in OPERATIONS if self.path.endswith(f"/{each}")), "")

    @property
    def json(self) -> Json:
        """The body; empty when it is no JSON object."""
        try:
            value: object = msgspec.json.decode(self.body)
        except msgspec.DecodeError:
            return {}
        return value if isinstance(value, dict) else {}

    @property
    def is_stream(self) -> bool:
        """Tell whether events are asked for."""
        is_by_path = self.path.endswith((_GEMINI[1], _CONVERSE[1]))
        return self.json.get("stream") is True or is_by_path

    def header(self, name: str) -> str | None:
        """Return the last value of a header."""
        return dict(self.headers).get(name)


class SendBytes(Struct, frozen=True):
    """Write bytes; `times` times, or for ever when it is 0."""

    data: bytes
    times: int = 1


class Pause(Struct, frozen=True):
    """Do nothing for a while; for ever when no time is given."""

    seconds: float | None = None


class Close(Struct, frozen=True):
    """Close the connection as one should."""


class Reset(Struct, frozen=True):
    """Break the connection off."""


Step = SendBytes | Pause | Close | Reset
Reply = Callable[[Received], Sequence[Step]]
"""Returns the steps to take on a request."""


def answers(response: Response, *, model: str | None = None) -> Reply:
    """Answer with a model's response, whole or stream_answer, in the words of the path's vendor."""

    def reply(request: Received) -> Sequence[Step]:
        if request.is_stream:
            pieces = answer_events(request, response, model)
            return [SendBytes(stream_answer(pieces, stream_head(request)))]
        return [SendBytes(json_answer(whole_answer(request, response, model)))]

    return reply


def says(text: str, *before: Block, usage: Usage = USAGE, stop_reason: StopReason = "end") -> Reply:
    """Answer with a text, and with the blocks that come before it."""
    return answers(a_response(*before, Text(text), usage=usage, stop_reason=stop_reason))


def calls(*tools: tuple[str, Json], usage: Usage = USAGE) -> Reply:
    """Ask for tools, all in one answer."""
    uses = [
        ToolUse(f"call_{number}", name, Raw(msgspec.json.encode(given)))
        for number, (name, given) in enumerate(tools, 1)
    ]
    return answers(a_response(*uses, usage=usage, stop_reason="tool_use"))


def fails(
    status: int,
    kind: str = "api_error",
    message: str = "scripted",
    *,
    code: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Reply:
    """Answer with an error in the words of the path's vendor."""
    return lambda request: [
        SendBytes(json_answer(error_body(request.dialect, kind, message, code), status, headers))
    ]


def grants(token: str, seconds: int = 3600) -> Reply:
    """Answer as a token endpoint does: with a token of OAuth 2.0."""
    told: Json = {"token_type": "Bearer", "expires_in": seconds, "access_token": token}
    return lambda _request: [SendBytes(json_answer(told))]


def does(*steps: Step) -> Reply:
    """Do the same on every request."""
    return lambda _request: steps


def a_response(*content: Block, usage: Usage = USAGE, stop_reason: StopReason = "end") -> Response:
    """Return a model's response."""
    return Response("scripted_1", content, stop_reason, usage)


def whole_answer(request: Received, response: Response, model: str | None = None) -> Json:
    """Return a whole answer to a request; it names the model that was asked for."""
    return whole(request.dialect, response, model or str(request.json.get("model", "")))


def answer_events(request: Received, response: Response, model: str | None = None) -> list[bytes]:
    """Return the events of an answer to a request."""
    options = request.json.get("stream_options")
    has_usage = isinstance(options, dict) and options.get("include_usage") is True
    name = model or str(request.json.get("model", ""))
    return events(request.dialect, response, name, has_usage=has_usage)


def head(
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    *,
    content_type: str = "application/json",
) -> bytes:
    """Return the head of an answer, without a word on its length unless `headers` has one."""
    lines = {"content-type": content_type, "x-request-id": "req_1", **(headers or {})}
    shown = "".join(f"{name}: {value}\r\n" for name, value in lines.items() if value)
    phrase = HTTPStatus(status).phrase if status in HTTPStatus.__members__.values() else "Other"
    return f"HTTP/1.1 {status} {phrase}\r\n{shown}\r\n".encode("latin-1")


def plain(
    body: bytes,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    *,
    content_type: str = "application/json",
) -> bytes:
    """Return a whole answer with its length."""
    length = {"content-length": str(len(body)), **(headers or {})}
    return head(status, length, content_type=content_type) + body


def json_answer(value: Json, status: int = 200, headers: Mapping[str, str] | None = None) -> bytes:
    """Write a JSON value as a whole answer."""
    return plain(msgspec.json.encode(value), status, headers)


STREAM_HEAD = head(headers={"transfer-encoding": "chunked"}, content_type="text/event-stream")
LAST_CHUNK = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    """Write bytes as one chunk."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def stream_answer(pieces: Iterable[bytes], begun: bytes = STREAM_HEAD) -> bytes:
    """Write events as a whole stream_answer answer, each in a chunk of its own."""
    return b"".join((begun, *map(chunk, pieces), LAST_CHUNK))


def stream_head(request: Received) -> bytes:
    """Return the head of a stream in the format of the path's vendor."""
    if request.dialect != "converse":
        return STREAM_HEAD
    chunked = {"transfer-encoding": "chunked", "x-amzn-requestid": "amzn-1"}
    return head(headers=chunked, content_type="application/vnd.amazon.eventstream")
