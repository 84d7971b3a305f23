"""What the limits of providers (`rpm`, `tpm` in models.yaml) leave; one that is used up is out.

The limits hold for all gateways of a home together, and for each other process alone.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple, Protocol

from msgspec import Struct

from pointsman.errors import LedgerUnavailable
from pointsman.kernel.instant import SECOND, Clock, Instant
from pointsman.turns.registry.models import ModelsFile
from pointsman.turns.registry.provider_state import Health

MINUTE: Final = 60 * SECOND


class Bucket(Struct, frozen=True):
    """The rest of a limit at an instant.

    `level` counts in parts: `MINUTE` of them are one request or token, so that a minute's limit
    comes back in whole parts each microsecond. It may be below zero: what a call takes is known
    only when it has ended.
    """

    per_minute: int
    level: int
    at: Instant


def full(per_minute: int, at: Instant) -> Bucket:
    """Return a bucket of which nothing was taken."""
    return Bucket(per_minute, per_minute * MINUTE, at)


def refill(bucket: Bucket, now: Instant) -> Bucket:
    """Return the bucket as it is now; a clock that was set back fills nothing."""
    passed = max(0, now - bucket.at)
    most = bucket.per_minute * MINUTE
    level = min(most, bucket.level + passed * bucket.per_minute)
    return Bucket(bucket.per_minute, level, max(bucket.at, now))


def take(bucket: Bucket, amount: int, now: Instant) -> Bucket:
    """Take something out, also where less is left; a negative amount gives it back."""
    found = refill(bucket, now)
    most = found.per_minute * MINUTE
    return Bucket(found.per_minute, min(most, found.level - amount * MINUTE), found.at)


def count_left(bucket: Bucket, now: Instant) -> int:
    """Return how many are left, in whole ones."""
    return refill(bucket, now).level // MINUTE


def free_at(bucket: Bucket, now: Instant) -> Instant:
    """Return the instant at which the next one is free."""
    found = refill(bucket, now)
    missing = MINUTE - found.level
    if missing <= 0:
        return now
    return Instant(now + -(-missing // found.per_minute))


class _Limits(NamedTuple):
    rpm: int | None
    tpm: int | None

    def bucket_names(self, provider: str) -> list[tuple[str, int]]:
        both = ((f"{provider} rpm", self.rpm), (f"{provider} tpm", self.tpm))
        return [(name, each) for name, each in both if each is not None]


class Rate(Struct, frozen=True):
    """What one provider's limits leave; None where there is no such limit."""

    provider: str
    rpm: int | None
    tpm: int | None
    requests_left: int | None
    tokens_left: int | None
    free_in_s: float


class SharedBuckets(Protocol):
    """Where several processes count limits together. May raise `LedgerUnavailable`."""

    @property
    def is_shared(self) -> bool:
        """Whether another process counts there, too."""
        ...

    def buckets(self) -> dict[str, Bucket]:
        """Return the rest of each limit that was counted."""
        ...

    def change_bucket(self, name: str, step: Callable[[Bucket | None], Bucket]) -> None:
        """Change the rest of a limit, in one step."""
        ...


class ProviderRates:
    """The limits of everything this process calls, by `PROVIDER rpm` and `PROVIDER tpm`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._limits: dict[str, _Limits] = {}
        self._buckets: dict[str, Bucket] = {}
        self._is_together = False
        self.store: SharedBuckets | None = None
        self.is_limited = False
        """Whether any provider has a limit."""

    def follow(self, models: ModelsFile) -> None:
        """Hold to the limits of a configuration; those that did not change go on as they are."""
        now = self._clock.now()
        self._limits = {
            name: _Limits(each.rpm, each.tpm)
            for name, each in models.providers.items()
            if each.rpm is not None or each.tpm is not None
        }
        limits = {
            name: per_minute
            for provider, each in self._limits.items()
            for name, per_minute in each.bucket_names(provider)
        }
        self._buckets = {
            name: _current(self._buckets.get(name), per_minute, now)
            for name, per_minute in limits.items()
        }
        self.is_limited = bool(limits)

    def take_over(self) -> None:
        """Learn how much the processes that count together have left of each limit."""
        store, now = self.store, self._clock.now()
        if store is None or not store.is_shared or not self._buckets:
            return
        if not self._is_together:
            self._bring_own(store, now)
        shared = store.buckets()
        self._buckets = {
            name: _current(shared.get(name, own), own.per_minute, now)
            for name, own in self._buckets.items()
        }

    def note_call(self, provider: str, tokens: int) -> None:
        """Count a call, and the tokens it sends."""
        self._take(f"{provider} rpm", 1)
        self._take(f"{provider} tpm", tokens)

    def note_tokens(self, provider: str, tokens: int) -> None:
        """Count tokens that came on top of those sent; fewer than zero were not taken after all."""
        self._take(f"{provider} tpm", tokens)

    def out(self) -> dict[str, Health]:
        """Return the providers whose limits are used up now."""
        return dict.fromkeys(self.free_at(), "rate_limited")

    def free_at(self) -> dict[str, Instant]:
        """Return when each provider that has nothing left now will have something again."""
        now = self._clock.now()
        found = {name: self._free_at(name, now) for name in self._limits}
        return {name: at for name, at in found.items() if at > now}

    def rows(self) -> list[Rate]:
        """Tell what every limit leaves."""
        now = self._clock.now()
        return [
            Rate(
                provider=name,
                rpm=each.rpm,
                tpm=each.tpm,
                requests_left=self._rest_of(f"{name} rpm", now),
                tokens_left=self._rest_of(f"{name} tpm", now),
                free_in_s=(self._free_at(name, now) - now) / SECOND,
            )
            for name, each in self._limits.items()
        ]

    def _take(self, name: str, amount: int) -> None:
        own = self._buckets.get(name)
        if own is None:
            return
        now, store = self._clock.now(), self.store
        if store is not None and store.is_shared:
            # A store that takes nothing fails no call: then this process counts for itself.
            with suppress(LedgerUnavailable):
                self._take_together(store, name, amount, now)
                return
        self._buckets[name] = take(own, amount, now)

    def _take_together(self, store: SharedBuckets, name: str, amount: int, now: Instant) -> None:
        if not self._is_together:
            self.take_over()

        def step(found: Bucket | None) -> Bucket:
            own = self._buckets[name]
            self._buckets[name] = take(_current(found, own.per_minute, now), amount, now)
            return self._buckets[name]

        store.change_bucket(name, step)

    def _bring_own(self, store: SharedBuckets, now: Instant) -> None:
        """Count the calls with the others that were made before there were any."""
        for name, own in self._buckets.items():
            used = full(own.per_minute, now).level - refill(own, now).level

            def step(found: Bucket | None, own: Bucket = own, used: int = used) -> Bucket:
                current = _current(found, own.per_minute, now)
                return Bucket(current.per_minute, current.level - used, now)

            store.change_bucket(name, step)
        self._is_together = True

    def _free_at(self, provider: str, now: Instant) -> Instant:
        both = (self._buckets.get(f"{provider} {each}") for each in ("rpm", "tpm"))
        return max((free_at(each, now) for each in both if each is not None), default=now)

    def _rest_of(self, name: str, now: Instant) -> int | None:
        found = self._buckets.get(name)
        return None if found is None else count_left(found, now)


def _current(found: Bucket | None, per_minute: int, now: Instant) -> Bucket:
    """Return a bucket as it is now; one of another limit begins anew."""
    if found is None or found.per_minute != per_minute:
        return full(per_minute, now)
    return refill(found, now)
