"""A request to one of the other endpoints, read: its model, and its texts as routing looks at them.

The vendors say what else may stand in it; that passes through.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec
from msgspec import Raw, Struct

from pointsman.errors import InputError
from pointsman.gateway.serving.http import Asked
from pointsman.providers.dialects.body import decode
from pointsman.providers.dialects.conversation import all_texts
from pointsman.providers.dialects.look import RequestLook, look
from pointsman.providers.dialects.multipart import form_parts, form_texts, is_form
from pointsman.providers.dialects.spans import unique
from pointsman.providers.port import Operation

_Part = dict[str, object]


class _Body(Struct):
    """The fields that are read; token ids stand for text that cannot be read here."""

    model: str
    input: str | list[str | int | list[int] | _Part] | None = None
    prompt: str | list[str | int | list[int]] | None = None
    query: str | _Part | None = None
    documents: list[str | _Part] | None = None
    stream: bool | Literal["true", "false"] | None = None
    max_tokens: int | None = None
    user: str | None = None


_BODY: Final = msgspec.json.Decoder(_Body)

_NEEDED: Final[dict[Operation, tuple[str, ...]]] = {
    "embeddings": ("input",),
    "completions": ("prompt",),
    "images/generations": ("prompt",),
    "images/edits": ("prompt",),
    "audio/speech": ("input",),
    "moderations": ("input",),
    "rerank": ("query", "documents"),
}
"""Without which there is nothing to do; a transcription's file is the provider's to look for."""

TELLS_NO_OUTPUT: Final[frozenset[Operation]] = frozenset({"embeddings", "moderations", "rerank"})
"""Answers of numbers: no tokens of output, and providers do not report any."""

STREAMED: Final[frozenset[Operation]] = frozenset(
    {"completions", "images/generations", "images/edits", "audio/transcriptions"}
)
"""Where `stream` asks for events."""

_BEGINNING_BYTES: Final = 64 * 1024


class NamedRequest(Struct, frozen=True):
    """What a request asks for."""

    model: str
    user: str
    look: RequestLook
    beginning: bytes
    """Names the conversation where no text does."""


def read_named(asked: Asked, operation: Operation) -> NamedRequest:
    """Read a request, or raise why it cannot be served."""
    media_type, text = asked.header(b"content-type"), asked.body
    if is_form(media_type):
        members = _form_members(asked.body, media_type)
        text = _json(members)
    else:
        members = unique(asked.body)
    body = decode(_BODY, text)
    for name in _NEEDED.get(operation, ()):
        if getattr(body, name) is None:
            raise InputError(f"`{name}` is missing")
    value = {
        "model": body.model,
        "messages": [{"role": "user", "content": _content(body)}],
        "stream": body.stream in {True, "true"} and operation in STREAMED,
        "max_completion_tokens": 1 if operation in TELLS_NO_OUTPUT else body.max_tokens,
        # All other fields leave with the request, so the detector reads them, too.
        "pointsman_rest": {
            name: raw for name, raw in members.items() if name not in _Body.__struct_fields__
        },
    }
    seen = look("chat", _json(value))
    return NamedRequest(body.model, body.user or "", seen, asked.body[:_BEGINNING_BYTES])


def _form_members(body: bytes, media_type: str) -> dict[str, Raw]:
    """Return the fields of a form that are no files; which of two counts, readers disagree."""
    parts = form_parts(body, media_type)
    names = [part.name for part in parts]
    for name in _Body.__struct_fields__:
        if names.count(name) > 1:
            raise InputError(f"`{name}` stands twice in the form")
    texts = form_texts(body, parts)
    return {
        name: Raw(_json(values if len(values) > 1 else values[0])) for name, values in texts.items()
    }


def _content(body: _Body) -> object:
    """Return the texts of a request as the content of one message."""
    given: list[object] = []
    for value in (body.input, body.prompt, body.query, body.documents):
        given += value if isinstance(value, list) else [] if value is None else [value]
    if given and all(isinstance(each, dict) and "type" in each for each in given):
        return given
    return "\n".join(_text(each) for each in given)


def _text(value: object) -> str:
    if isinstance(value, dict):
        return "\n".join(all_texts(Raw(_json(value))))
    return value if isinstance(value, str) else str(value)


def _json(value: object) -> bytes:
    return msgspec.json.encode(value)
