"""The base of every event: its type, its class of privacy, its actor, its words."""

from __future__ import annotations

from typing import ClassVar, Literal

from msgspec import Struct

from pointsman.kernel.content import Sealed

Actor = Literal["user", "agent", "system", "tool", "worker"]
Sensitivity = Literal["private", "user_controlled", "pseudonymous", "aggregatable"]
Words = str | Sealed
"""Words of the conversation: as they are while they are told, sealed once they are recorded."""


class SessionEvent(Struct, frozen=True, forbid_unknown_fields=True):
    """The base of every payload: its type, its class of privacy, its actor, its words."""

    type: ClassVar[str] = ""
    sensitivity: ClassVar[Sensitivity] = "private"
    actor: ClassVar[Actor] = "system"
    words: ClassVar[tuple[str, ...]] = ()
