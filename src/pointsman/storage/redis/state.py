"""How calls ended, who may try, and what changed: told through Redis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from pointsman.storage.redis.connection import lua, told_errors
from pointsman.storage.redis.eviction import Eviction, eviction_of
from pointsman.storage.sharing import Event

if TYPE_CHECKING:
    from redis import Redis
    from redis.client import PubSub

MOST_KEPT: Final = 100_000
MOST_EVENTS: Final = 1000
FIRST: Final = "0-0"


class RedisState:
    """Events and claims of the replicas of one ledger; may be shared by threads."""

    def __init__(self, redis: Redis, ledger: str) -> None:
        self._redis = redis
        self._root = f"{{pointsman:{ledger}}}:"
        self._give_up = redis.register_script(lua("give_up"))
        self._listening: PubSub | None = None

    def tell(self, body: bytes) -> None:
        """Append an event."""
        with told_errors():
            self._redis.xadd(
                f"{self._root}events", {b"body": body}, maxlen=MOST_KEPT, approximate=True
            )

    def after(self, place: str) -> list[Event]:
        """Return the events after a place, the oldest first; all events for an empty place."""
        with told_errors():
            found = self._redis.xrange(
                f"{self._root}events", min=f"({place or FIRST}", count=MOST_EVENTS
            )
        rows = cast("list[tuple[bytes, dict[bytes, bytes]]]", found)
        return [Event(place.decode(), fields[b"body"]) for place, fields in rows]

    def claim(self, name: str, holder: str, for_s: int) -> bool:
        """Claim something for so long; False while another has it."""
        with told_errors():
            return bool(
                self._redis.set(f"{self._root}claim:{name}", holder, nx=True, ex=max(1, for_s))
            )

    def give_up(self, name: str, holder: str) -> None:
        """Release a claim."""
        with told_errors():
            self._give_up([f"{self._root}claim:{name}"], [holder])

    def notify(self) -> None:
        """Tell all replicas that something changed which they keep in memory."""
        with told_errors():
            self._redis.publish(f"{self._root}changed", b"")

    def wait(self, timeout_s: float) -> bool:
        """Wait for a notification, but no longer than this; return whether one came.

        For one thread only, which should close the subscription.
        """
        with told_errors():
            if self._listening is None:
                self._listening = self._redis.pubsub(  # type: ignore[no-untyped-call] # theirs
                    ignore_subscribe_messages=True
                )
                self._listening.subscribe(f"{self._root}changed")
            return self._listening.get_message(timeout=timeout_s) is not None

    def eviction(self) -> Eviction:
        """Ask what Redis forgets when its memory is full."""
        return eviction_of(self._redis)

    def close(self) -> None:
        """Wait no more."""
        listening, self._listening = self._listening, None
        if listening is not None:
            listening.close()
