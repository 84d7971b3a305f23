"""One byte string per value (RFC 8785), and the content id made from it.

Our own records are frozen structs written through a `Form`, which proves once, from the types,
that nothing inexact can be inside. What a user brings goes through `canonical_json`, which looks.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from decimal import Decimal
from math import isfinite
from typing import Final, Generic, NewType, TypeVar

import msgspec
from msgspec import inspect

from pointsman.errors import IntegrityFailure, ValueRefused
from pointsman.kernel.document import Json

ContentId = NewType("ContentId", str)
T = TypeVar("T")

MAX_INT: Final = 2**53 - 1
MAX_DEPTH: Final = 64
MAX_PLACE: Final = 80

_ENCODER = msgspec.json.Encoder(order="sorted")
_AS_GIVEN = msgspec.json.Encoder()
# DETERMINISM: RFC 8785 sorts keys by UTF-16 unit, msgspec by UTF-8 byte. The two orders differ only
# where a character past U+FFFF meets one from U+E000 up, so only then are the keys sorted again.
_PAST_BMP = re.compile(rb"[\xf0-\xf4]")
_TAGGED = re.compile(r"[ds]:")
_EXACT = (
    inspect.NoneType, inspect.BoolType, inspect.IntType, inspect.StrType, inspect.EnumType,
    inspect.LiteralType, inspect.RawType, inspect.Metadata, inspect.UnionType,
    inspect.VarTupleType, inspect.DictType,
)  # fmt: skip


def content_id(canonical: bytes) -> ContentId:
    """Return the content id of canonical bytes."""
    return ContentId("sha256:" + hashlib.sha256(canonical).hexdigest())


def check_content(expected: str, canonical: bytes, what: str) -> None:
    """Raise unless the bytes are the ones the id was made from."""
    if content_id(canonical) != expected:
        raise IntegrityFailure(f"{what} `{expected}` holds other bytes than those it is named by")


class Form(Generic[T]):
    """The canonical form of one struct type: encode, decode, and name by content.

    Making a form fails if the type could hold a float, an untyped value, a set, or a name outside
    ASCII, so that encoding need not look.
    """

    def __init__(self, kind: type[T]) -> None:
        _check_exact(inspect.type_info(kind), kind.__name__, set())
        self.kind = kind
        self._decoder = msgspec.json.Decoder(kind)

    def encode(self, value: T) -> bytes:
        """Return the canonical bytes."""
        return _encode(value)

    def decode(self, canonical: bytes) -> T:
        """Read canonical bytes back; whatever this type would not have written is refused.

        A missing key is refused too: a default of today must not replace a recorded value.
        """
        value = self.read(canonical)
        if self.encode(value) != canonical:
            what = self.kind.__name__.lower()
            raise IntegrityFailure(f"stored {what}: a key is missing, unknown or out of order")
        return value

    def read(self, stored: bytes) -> T:
        """Read bytes without asking whether they are canonical.

        For types without defaults, where the caller compares the bytes themselves.
        """
        try:
            return self._decoder.decode(stored)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise IntegrityFailure(f"stored {self.kind.__name__.lower()}: {error}") from error

    def id(self, value: T) -> ContentId:
        """Return the content id."""
        return content_id(self.encode(value))


def canonical_json(value: Json) -> bytes:
    """Return the canonical bytes of a value a user brings: any keys, decimals as tagged strings."""
    return _encode(_tag(value, MAX_DEPTH))


def untag(value: Json) -> Json:
    """Turn the tagged strings of `canonical_json` back into decimals and plain strings."""
    if isinstance(value, str) and _TAGGED.match(value):
        return Decimal(value[2:]) if value[0] == "d" else value[2:]
    if isinstance(value, list):
        return [untag(item) for item in value]
    if isinstance(value, dict):
        return {key: untag(item) for key, item in value.items()}
    return value


def _encode(value: object) -> bytes:
    try:
        written = _ENCODER.encode(value)
    except (UnicodeEncodeError, msgspec.MsgspecError, OverflowError) as error:
        raise ValueRefused(f"this value has no canonical bytes: {error}") from error
    return written if written.isascii() else _in_order(written)


def _in_order(written: bytes) -> bytes:
    """Sort keys as RFC 8785 does, where that differs from how they were sorted."""
    if _PAST_BMP.search(written):
        return _AS_GIVEN.encode(_sorted_utf16(msgspec.json.decode(written)))
    return written


def _sorted_utf16(value: Json) -> Json:
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: key.encode("utf-16-be"))
        return {key: _sorted_utf16(value[key]) for key in keys}
    if isinstance(value, list):
        return [_sorted_utf16(item) for item in value]
    return value


def _tag(value: Json, depth: int) -> Json:
    """Check a value and tag its decimals; a refusal collects its place on the way out."""
    if isinstance(value, str):
        return "s:" + value if _TAGGED.match(value) else value
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return _whole(value)
    if isinstance(value, dict):
        return _tagged_map(value, depth)
    if isinstance(value, list):
        return _tagged_list(value, depth)
    if isinstance(value, Decimal):
        return _tagged_decimal(value)
    raise _refusal_of(value)


def _refusal_of(value: object) -> ValueRefused:
    if isinstance(value, float) and isfinite(value):
        hint = f'give `Decimal("{value!r}")`: a float is seldom the number that was written'
        return ValueRefused(f"the float {value!r} is not exact", hint=hint)
    return ValueRefused("only text, whole numbers, decimals, lists and maps are exact")


def _tagged_map(value: dict[str, Json], depth: int) -> dict[str, Json]:
    tagged: dict[str, Json] = {}
    key = ""
    try:
        for key, item in value.items():
            _check_key(key, depth)
            tagged[key] = _tag(item, depth - 1)
    except ValueRefused as refusal:
        raise _inside(f".{key}", refusal) from None
    return tagged


def _tagged_list(value: list[Json], depth: int) -> list[Json]:
    tagged: list[Json] = []
    try:
        for item in value:
            _check_key("", depth)
            tagged.append(_tag(item, depth - 1))
    except ValueRefused as refusal:
        raise _inside(f"[{len(tagged)}]", refusal) from None
    return tagged


def _inside(step: str, refusal: ValueRefused) -> ValueRefused:
    where = (step + refusal.where)[:MAX_PLACE]
    return ValueRefused(refusal.message, where=where, hint=refusal.hint)


def _check_key(key: object, depth: int) -> None:
    if depth <= 0:
        raise ValueRefused(f"nested deeper than {MAX_DEPTH}")
    if not isinstance(key, str):
        raise ValueRefused(f"the key `{key}` is not text")


def _whole(value: int) -> int:
    if abs(value) > MAX_INT:
        raise ValueRefused("a whole number is past 2^53 - 1")
    return value


def _tagged_decimal(value: Decimal) -> int | str:
    if not value.is_finite() or abs(value.adjusted()) > MAX_DEPTH:
        raise ValueRefused(f"the number `{value}` cannot be kept exactly")
    if value == value.to_integral_value() and abs(value) <= MAX_INT:
        # 1.0 and 1 are one number and must have one content id.
        return int(value)
    text = f"{value:f}"
    return "d:" + (text.rstrip("0").rstrip(".") if "." in text else text)


def _check_exact(kind: inspect.Type, path: str, seen: set[type]) -> None:
    """Walk a type and refuse whatever could carry an inexact or unordered value."""
    if isinstance(kind, inspect.StructType):
        if kind.cls in seen:
            return
        seen.add(kind.cls)
    elif not isinstance(kind, _EXACT):
        raise ValueRefused(f"a {type(kind).__name__} has no exact canonical form", where=path)
    for inner_path, inner in _parts(kind, path):
        _check_exact(inner, inner_path, seen)


def _parts(kind: inspect.Type, path: str) -> Iterator[tuple[str, inspect.Type]]:
    if isinstance(kind, inspect.StructType):
        for field in kind.fields:
            if not field.encode_name.isascii():
                raise ValueRefused(f"the name `{field.encode_name}` is not ASCII", where=path)
            yield f"{path}.{field.encode_name}", field.type
    elif isinstance(kind, inspect.Metadata):
        yield path, kind.type
    elif isinstance(kind, inspect.UnionType):
        yield from ((path, each) for each in kind.types)
    elif isinstance(kind, inspect.VarTupleType):
        yield f"{path}[]", kind.item_type
    elif isinstance(kind, inspect.DictType):
        if not isinstance(kind.key_type, inspect.StrType):
            raise ValueRefused("only text names a member", where=path)
        yield f"{path}{{}}", kind.value_type
