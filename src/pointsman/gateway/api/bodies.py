"""Reading the JSON bodies of the product's own API."""

from __future__ import annotations

from typing import TypeVar

from pointsman.gateway.http import Asked
from pointsman.kernel.document import Document, Limits
from pointsman.kernel.json_text import read_json
from pointsman.kernel.schema import conform

T = TypeVar("T")


def document(asked: Asked) -> Document:
    """Read a body as JSON, or raise saying where it is none."""
    return read_json(asked.body, "the body", Limits(bytes=max(len(asked.body), 1)))


def body_as(asked: Asked, kind: type[T]) -> T:
    """Read a body as a `kind`, or raise with all that is wrong with it."""
    return conform(document(asked), kind)
