"""State that replicas share beside money: who lives, turns that wait for a tool, ended calls."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct


class Beat(Struct, frozen=True):
    """What a replica says about itself with every sign of life."""

    process: str
    chain: str
    policy_id: str
    version: str
    epoch: str = ""
    holding: int = 0


class Peer(Struct, frozen=True):
    """A replica as the others know it; times are the database's, in microseconds."""

    beat: Beat
    beat_at_us: int
    is_alive: bool


class WaitingTurn(Struct, frozen=True):
    """A turn that waits for a tool, and the model it is bound to."""

    turn_id: str
    decision_id: str
    model: str
    calls: int
    is_escalated: bool


class LookAhead(Struct, frozen=True):
    """What all replicas know of a session: the model it is bound to, and the turn that waits."""

    pinned_model: str
    waiting: WaitingTurn | None


class Event(Struct, frozen=True):
    """Something that was told to all, and its place in the one order that all see."""

    place: str
    body: bytes


class Events(Protocol):
    """One ordered stream that all replicas write to and read. Every call blocks on the network."""

    def tell(self, body: bytes) -> None:
        """Append an event."""
        ...

    def after(self, place: str) -> list[Event]:
        """Return the events after a place, the oldest first; all events for an empty place."""
        ...


class Claims(Protocol):
    """What one replica at a time may do. Every call blocks on the network."""

    def claim(self, name: str, holder: str, for_s: int) -> bool:
        """Claim something for so long; False while another has it."""
        ...

    def give_up(self, name: str, holder: str) -> None:
        """Release a claim."""
        ...
