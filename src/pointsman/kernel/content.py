"""Message text, kept apart from the ledger: facts hold a keyed digest, the text can be erased.

A plain hash of a phone number is guessed in seconds; a keyed one is not, and destroying the key or
the text leaves every chain intact.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from pointsman.errors import MissingSnapshot

Retain = Literal["full", "redacted", "digest"]
"""What is kept of a text: all of it, what is left after redaction, or its digest alone."""


class Sealed(Struct, frozen=True, forbid_unknown_fields=True):
    """What facts hold in place of a text."""

    digest: str
    chars: int


Texts = Callable[[Sealed], str]
"""Gives a sealed text back, or raises MissingSnapshot saying why it cannot."""


def sealed(text: str, key: bytes) -> Sealed:
    """Seal a text under a key."""
    digest = hmac.new(key, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()
    return Sealed("hmac-sha256:" + digest, len(text))


def no_texts(text: Sealed) -> str:
    """Stand in where no content store is at hand."""
    raise MissingSnapshot(f"the text `{text.digest}` is not at hand")
