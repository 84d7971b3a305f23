"""Reading JSON bodies: whatever is wrong with one becomes one clear `InputError`."""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec
from msgspec import Raw

from pointsman.errors import InputError

T = TypeVar("T")

NULL = Raw(b"null")
EMPTY_OBJECT = Raw(b"{}")
NO_PARAMETERS = Raw(b'{"type":"object","properties":{}}')

_PLACE = re.compile(r" - at `(?:key in )?\$\.?([^`]*)`$")
_WORDS = {
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
_TYPES = re.compile(r"`(\w+)(?: \| (\w+))*`")
_NUMBER_STARTS = tuple(b"-0123456789"[at : at + 1] for at in range(11))


def decode(decoder: msgspec.json.Decoder[T], body: bytes | Raw, where: str = "") -> T:
    """Decode JSON; `where` is the place of these bytes inside the whole body."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise InputError(_validation_message(str(error), where)) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{_in(where)} is not valid json: {_lower(str(error))}") from None
    except RecursionError:
        raise InputError(f"{_in(where)} is nested too deeply") from None


def is_null(raw: Raw) -> bool:
    """Say whether a value is absent or null."""
    return bytes(raw) == b"null"


def number(raw: Raw, where: str) -> Raw | None:
    """Return a number as it is written, or none."""
    if is_null(raw):
        return None
    if bytes(raw)[:1] not in _NUMBER_STARTS:
        raise InputError(f"`{where}`: expected a number")
    return raw


def json_object(text: str, where: str) -> Raw:
    """Return the JSON object a text holds, as it is written; the empty text is the empty object."""
    data = text.strip(" \t\r\n").encode("utf-8", "surrogatepass")
    if not data:
        return EMPTY_OBJECT
    decode(_OBJECT, data, where)
    return Raw(data)


def checked_object(raw: Raw, where: str) -> Raw:
    """Return the value when it is an object."""
    if not bytes(raw).startswith(b"{"):
        raise InputError(f"`{where}`: expected an object")
    return raw


def text_of(raw: Raw) -> str:
    """Return the JSON text of a value."""
    return bytes(raw).decode("utf-8", "surrogatepass")


def join_places(*places: str) -> str:
    """Join places inside a body: `messages[0]` and `content` is `messages[0].content`."""
    return ".".join(place for place in places if place).replace(".[", "[")


def _validation_message(message: str, where: str) -> str:
    found = _PLACE.search(message)
    place = join_places(where, found[1].replace("[...]", "[]") if found else "")
    text = _PLACE.sub("", message)
    text = _TYPES.sub(lambda match: _words(match[0]), text)
    return f"`{place}`: {_lower(text)}" if place else f"the body: {_lower(text)}"


def _words(types: str) -> str:
    return " or ".join(_WORDS.get(each, f"`{each}`") for each in types.strip("`").split(" | "))


def _in(where: str) -> str:
    return f"`{where}`" if where else "the body"


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


_OBJECT = msgspec.json.Decoder(dict[str, Raw])
