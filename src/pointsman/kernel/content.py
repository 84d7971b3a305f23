"""Message text, kept apart from the ledger: facts hold a keyed digest, the text can be erased.

A plain hash of a phone number is guessed in seconds; a keyed one is not, and destroying the key or
the text leaves every chain intact.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from pointsman.errors import IntegrityFailure

if TYPE_CHECKING:
    from hashlib import _Hash

_BLOCK = 64
_SEAL = re.compile("hmac-sha256:[0-9a-f]{64}")

Retain = Literal["full", "redacted", "digest"]
"""How much of a text is kept: all of it, its redacted form, or its digest alone."""


class Sealed(Struct, frozen=True, forbid_unknown_fields=True):
    """What facts hold in place of a text."""

    digest: str
    chars: int


Texts = Callable[[Sealed], str]
"""Gives a sealed text back, or raises MissingSnapshot saying why it cannot."""


def seal_text(text: str, key: bytes) -> Sealed:
    """Seal a text under a key: HMAC-SHA-256."""
    inner, outer = _hmac_start(key)
    inner, outer = inner.copy(), outer.copy()
    inner.update(text.encode("utf-8", "surrogatepass"))
    outer.update(inner.digest())
    return Sealed("hmac-sha256:" + outer.hexdigest(), len(text))


def seal_as_text(seal: Sealed) -> str:
    """Write a seal where a text would stand."""
    return f"{seal.digest}/{seal.chars}"


def read_seal_text(text: str) -> Sealed:
    """Read a seal that stands in place of a text."""
    digest, _, chars = text.partition("/")
    if not _SEAL.fullmatch(digest) or not (chars.isascii() and chars.isdigit()):
        raise IntegrityFailure("a text stands where only its seal may")
    return Sealed(digest, int(chars))


@lru_cache(maxsize=8)
def _hmac_start(key: bytes) -> tuple[_Hash, _Hash]:
    """Return both hashes of an HMAC with the key in them: a copy costs a quarter of a new one."""
    block = (key if len(key) <= _BLOCK else hashlib.sha256(key).digest()).ljust(_BLOCK, b"\0")
    inner, outer = (bytes(byte ^ pad for byte in block) for pad in (0x36, 0x5C))
    return hashlib.sha256(inner), hashlib.sha256(outer)
