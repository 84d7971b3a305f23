"""The messages of a request as JSON: those of earlier turns stand written, the new are written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from pointsman.providers.dialects.loss import Loss, Losses
from pointsman.providers.messages import ChatMessage, ModelRequest, Text, WrittenMessages
from pointsman.providers.port import Dialect

Write = Callable[[Sequence[ChatMessage], Losses], Iterable[object]]
"""Writes messages that follow no result of a tool."""


def all_written(
    request: ModelRequest,
    dialect: Dialect,
    write: Write,
    losses: Losses,
    head: Sequence[object] = (),
) -> object:
    """Return a request's messages, after `head`."""
    if request.earlier is None:
        return [*head, *write(request.messages, losses)]
    earlier = request.earlier.in_dialect(dialect, lambda messages: passage(write, messages))
    for each in earlier.lost:
        losses.add_named(each)
    new = write(request.messages, losses)
    parts = (_items(head), earlier.items, _items(new))
    return Raw(b"[%b]" % b",".join(part for part in parts if part))


def move_system(request: ModelRequest, losses: Losses) -> tuple[ModelRequest, list[Text]]:
    """Return a request without its system messages, and all system texts in their order."""
    system = [*request.system]
    moved = [each for each in request.messages if each.role == "system"]
    if not moved:
        return request, system
    losses.add(Loss.SYSTEM_PLACE)
    system += [text for each in moved for text in each.content if isinstance(text, Text)]
    kept = tuple(each for each in request.messages if each.role != "system")
    return replace(request, messages=kept), system


def passage(write: Write, messages: Sequence[ChatMessage]) -> WrittenMessages:
    """Write messages once and for all."""
    losses = Losses()
    items = _items(write(messages, losses))
    return WrittenMessages(items, tuple(each.what for each in losses.all()))


def _items(values: Iterable[object]) -> bytes:
    return msgspec.json.encode([*values])[1:-1]
