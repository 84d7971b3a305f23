"""Which conversation a request belongs to: the first name it gives, else one made from its opening.

Always within the caller's key, so that nobody can join another's session by guessing its name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final, Literal

from msgspec import Struct

from pointsman.errors import InputError

MAX_NAME: Final = 255
LONGEST_KEPT: Final = 100

Source = Literal["header", "body", "derived"]

_HEADERS: Final = (b"x-session-id", b"x-claude-code-session-id", b"x-session-affinity")


class Conversation(Struct, frozen=True):
    """A session's name within a key, and where the name comes from."""

    id: str
    source: Source


class Named(Struct, frozen=True):
    """What a body says about the conversation it belongs to."""

    cache_key: str
    user: str
    opening: bytes


def conversation(key_id: str, headers: Mapping[bytes, bytes], named: Named) -> Conversation:
    """Name the conversation of a request."""
    if not headers.keys().isdisjoint(_HEADERS):
        for header in _HEADERS:
            value = headers.get(header)
            if value:
                return Conversation(_within(key_id, _checked(value, header.decode())), "header")
    if named.cache_key:
        return Conversation(_within(key_id, _bounded(named.cache_key, "prompt_cache_key")), "body")
    opening = hashlib.sha256(named.opening).hexdigest()[:32]
    if named.user:
        user = hashlib.sha256(named.user.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        return Conversation(_within(key_id, f"{user}-{opening}"), "derived")
    return Conversation(_within(key_id, opening), "derived")


def _within(key_id: str, name: str) -> str:
    if len(name) > LONGEST_KEPT or not name.isascii() or not name.isprintable():
        # The ledger names sessions too, and takes neither long names nor other letters.
        name = "sha256-" + hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:40]
    # A name with a slash must not read like another key's.
    return f"{key_id}/{name}" if key_id or "/" in name else name


def _checked(value: bytes, header: str) -> str:
    text = value.decode("latin-1")
    if not text.isascii() or not text.isprintable():
        raise InputError(f"`{header}` must be printable ASCII")
    return _bounded(text, header)


def _bounded(text: str, what: str) -> str:
    if len(text) > MAX_NAME:
        raise InputError(f"`{what}` is longer than {MAX_NAME} characters")
    return text
