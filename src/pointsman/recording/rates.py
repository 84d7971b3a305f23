"""What the limits of providers (`rpm`, `tpm` in models.yaml) leave; one that is used up is out.

The limits hold for this process: several that share a provider share its limits by configuration.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from msgspec import Struct

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


class Rate(Struct, frozen=True):
    """What one provider's limits leave; None where there is no such limit."""

    provider: str
    rpm: int | None
    tpm: int | None
    requests_left: int | None
    tokens_left: int | None
    free_in_s: float


class _Buckets:
    """The two buckets of a provider."""

    def __init__(self, limits: _Limits, now: Instant) -> None:
        self.limits = limits
        self.requests = None if limits.rpm is None else full(limits.rpm, now)
        self.tokens = None if limits.tpm is None else full(limits.tpm, now)

    def note_call(self, tokens: int, now: Instant) -> None:
        if self.requests is not None:
            self.requests = take(self.requests, 1, now)
        if self.tokens is not None:
            self.tokens = take(self.tokens, tokens, now)

    def note_tokens(self, tokens: int, now: Instant) -> None:
        if self.tokens is not None:
            self.tokens = take(self.tokens, tokens, now)

    def free_at(self, now: Instant) -> Instant:
        both: list[Bucket] = [each for each in (self.requests, self.tokens) if each is not None]
        return max((free_at(each, now) for each in both), default=now)


class ProviderRates:
    """The limits of everything this process calls."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._buckets: dict[str, _Buckets] = {}
        self.is_limited = False
        """Whether any provider has a limit."""

    def follow(self, models: ModelsFile) -> None:
        """Hold to the limits of a configuration; those that did not change go on as they are."""
        now = self._clock.now()
        limits = {
            name: _Limits(each.rpm, each.tpm)
            for name, each in models.providers.items()
            if each.rpm is not None or each.tpm is not None
        }
        self._buckets = {
            name: self._unchanged_buckets(name, each) or _Buckets(each, now)
            for name, each in limits.items()
        }
        self.is_limited = bool(limits)

    def note_call(self, provider: str, tokens: int) -> None:
        """Count a call, and the tokens it sends."""
        found = self._buckets.get(provider)
        if found is not None:
            found.note_call(tokens, self._clock.now())

    def note_tokens(self, provider: str, tokens: int) -> None:
        """Count tokens that came on top of those sent; fewer than zero were not taken after all."""
        found = self._buckets.get(provider)
        if found is not None:
            found.note_tokens(tokens, self._clock.now())

    def out(self) -> dict[str, Health]:
        """Return the providers whose limits are used up now."""
        return dict.fromkeys(self.free_at(), "rate_limited")

    def free_at(self) -> dict[str, Instant]:
        """Return when each provider that has nothing left now will have something again."""
        now = self._clock.now()
        found = {name: each.free_at(now) for name, each in self._buckets.items()}
        return {name: at for name, at in found.items() if at > now}

    def rows(self) -> list[Rate]:
        """Tell what every limit leaves."""
        now = self._clock.now()
        return [
            Rate(
                provider=name,
                rpm=each.limits.rpm,
                tpm=each.limits.tpm,
                requests_left=None if each.requests is None else count_left(each.requests, now),
                tokens_left=None if each.tokens is None else count_left(each.tokens, now),
                free_in_s=(each.free_at(now) - now) / SECOND,
            )
            for name, each in self._buckets.items()
        ]

    def _unchanged_buckets(self, name: str, limits: _Limits) -> _Buckets | None:
        found = self._buckets.get(name)
        return found if found is not None and found.limits == limits else None
