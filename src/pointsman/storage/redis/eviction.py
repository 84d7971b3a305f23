"""Whether a Redis forgets keys when its memory is full, as far as it says so.

Lost counts are noticed and made again; until then calls under a cap are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from msgspec import Struct

from pointsman.storage.redis.connection import told_errors

if TYPE_CHECKING:
    from redis import Redis

WANTED: Final = "noeviction"
ANY_KEY: Final = "allkeys"
"""The prefix of policies that evict keys without an expiry. Other policies evict reseeded keys."""

POLICY: Final = ("maxmemory_policy", "maxmemory-policy")
LIMIT: Final = ("maxmemory", "maxmemory")
"""Their names in INFO, and in CONFIG GET."""

HINT: Final = f"set maxmemory-policy to {WANTED}"
MIB: Final = 1024 * 1024


class Eviction(Struct, frozen=True):
    """What Redis says: which keys it forgets, and from how many bytes on.

    An empty policy is one that it does not tell; a limit of 0 is none.
    """

    policy: str = ""
    limit_bytes: int | None = None

    @property
    def is_known(self) -> bool:
        """Whether Redis told its policy."""
        return bool(self.policy)

    @property
    def takes_any_key(self) -> bool:
        """Whether the policy evicts keys that must stay."""
        return self.policy.startswith(ANY_KEY)

    @property
    def is_harmful(self) -> bool:
        """Whether keys that must stay are forgotten when the memory is full."""
        return self.takes_any_key and self.limit_bytes != 0

    @property
    def summary(self) -> str:
        """Say how it is, in one line."""
        if not self.is_known:
            return "redis does not tell whether it forgets keys"
        if not self.takes_any_key:
            return f"redis keeps what must stay: maxmemory-policy is `{self.policy}`"
        if self.limit_bytes == 0:
            return f"redis would forget any key if it had a limit: the policy is `{self.policy}`"
        limit = "" if self.limit_bytes is None else f" of {self.limit_bytes // MIB} MiB"
        return f"redis forgets any key at its limit{limit}: maxmemory-policy is `{self.policy}`"

    @property
    def hint(self) -> str:
        """Say what to do; nothing where all is well."""
        if not self.is_known:
            return f"make sure that maxmemory-policy is {WANTED}"
        return HINT if self.takes_any_key else ""


def eviction_of(redis: Redis) -> Eviction:
    """Read the eviction policy of a Redis; unknown where it answers neither INFO nor CONFIG."""
    from redis.exceptions import ResponseError  # noqa: PLC0415 - an extra

    with told_errors():
        # INFO first: servers that are run for others forbid CONFIG.
        for place, asked in enumerate((_info, _config)):
            try:
                found = asked(redis)
            except ResponseError:
                continue
            if policy := found.get(POLICY[place]):
                limit = found.get(LIMIT[place])
                return Eviction(str(policy), None if limit is None else int(str(limit)))
    return Eviction()


def _info(redis: Redis) -> dict[str, object]:
    return cast("dict[str, object]", redis.info("memory"))


def _config(redis: Redis) -> dict[str, object]:
    return cast("dict[str, object]", redis.config_get("maxmemory*"))
