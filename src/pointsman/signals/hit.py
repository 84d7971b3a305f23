"""A hit: one place in a text that holds personal data or a secret, and why it is thought so."""

from __future__ import annotations

from typing import Literal, NamedTuple

from msgspec import Struct

Group = Literal["pii", "secret", "medical"]


class Hit(Struct, frozen=True, forbid_unknown_fields=True):
    """One finding; `start` and `end` count characters, `reason` never quotes the text."""

    kind: str
    group: Group
    start: int
    end: int
    reason: str


class KindInfo(Struct, frozen=True, forbid_unknown_fields=True):
    """A kind of hit; `has_checksum` says that every or nearly every hit passed a check digit."""

    name: str
    group: Group
    has_checksum: bool
    description: str


class Found(NamedTuple):
    """A hit before overlaps are settled; `start` and `end` count bytes of the scanned text."""

    kind: str
    start: int
    end: int
    reason: str
    is_labelled: bool = False
