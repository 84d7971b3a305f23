"""A limit of so many a minute, as a bucket that fills steadily. Whole numbers; time is given."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from pointsman.kernel.instant import SECOND, Instant

MINUTE: Final = 60 * SECOND


class Bucket(Struct, frozen=True):
    """What is left of a limit at an instant.

    `level` counts in parts: `MINUTE` of them are one of what is limited, so that a minute's limit
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
