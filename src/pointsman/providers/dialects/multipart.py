"""Forms with a file in them (`multipart/form-data`): where each part stands, and another model's
name in its place. No other byte is changed, and files are not looked into.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

from pointsman.errors import InputError

_BOUNDARY: Final = re.compile(r"""boundary=("?)([0-9A-Za-z'()+_,./:=? -]{1,70})\1(?:;|$)""")
_DISPOSITION: Final = re.compile(
    rb'(?:^|\r\n)content-disposition:[ \t]*form-data((?:;[ \t]*[a-z*]+=(?:"[^"\r\n]*"|[^";\s]+))+)',
    re.IGNORECASE,
)
_PARAMETER: Final = re.compile(rb';[ \t]*([a-z*]+)=(?:"([^"\r\n]*)"|([^";\s]+))', re.IGNORECASE)
_CODING: Final = re.compile(rb"(?:^|\r\n)content-transfer-encoding:", re.IGNORECASE)
_MOST_PARTS: Final = 256


def is_form(media_type: str) -> bool:
    """Tell a form by its content type."""
    return media_type.lower().startswith("multipart/form-data")


class FormPart(Struct, frozen=True):
    """One part: its name, whether it is a file, and where its value stands."""

    name: str
    is_file: bool
    start: int
    end: int


def form_parts(body: bytes, media_type: str) -> tuple[FormPart, ...]:
    """Find the parts of a form, or raise that it is none."""
    found = _BOUNDARY.search(media_type)
    if found is None:
        raise InputError("the form names no boundary")
    line = b"--" + found[2].strip().encode()
    if not body.startswith(line):
        raise InputError("the form does not begin with its boundary")
    parts: list[FormPart] = []
    at, ending = len(line), b"\r\n" + line
    while body[at : at + 2] == b"\r\n" and len(parts) < _MOST_PARTS:
        head = body.find(b"\r\n\r\n", at)
        end = body.find(ending, max(head, 0))
        if head < 0 or end < 0 or end < head + 4:
            raise InputError("the form breaks off")
        parts.append(_part(body[at + 2 : head], head + 4, end))
        at = end + len(ending)
    if body[at : at + 2] != b"--":
        raise InputError("the form breaks off")
    return tuple(parts)


def form_texts(body: bytes, parts: tuple[FormPart, ...]) -> dict[str, list[str]]:
    """Return the values of a form that are no files, by name."""
    texts: dict[str, list[str]] = {}
    for part in parts:
        if part.is_file:
            continue
        try:
            text = body[part.start : part.end].decode("utf-8")
        except UnicodeDecodeError:
            raise InputError(f"`{part.name}` is not utf-8") from None
        texts.setdefault(part.name, []).append(text)
    return texts


def form_with_model(body: bytes, media_type: str, model: str) -> bytes:
    """Return a form with another `model`, every other byte unchanged."""
    parts = form_parts(body, media_type)
    part = next(each for each in parts if each.name == "model" and not each.is_file)
    return body[: part.start] + model.encode() + body[part.end :]


def _part(head: bytes, start: int, end: int) -> FormPart:
    found = _DISPOSITION.search(head)
    if found is None or _CODING.search(head):
        # The detector could not read a packed text.
        raise InputError("a part of the form has no name, or is packed")
    values = {key.lower(): quoted or plain for key, quoted, plain in _PARAMETER.findall(found[1])}
    is_file = b"filename" in values or b"filename*" in values
    return FormPart(values.get(b"name", b"").decode("utf-8", "replace"), is_file, start, end)
