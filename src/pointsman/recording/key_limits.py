"""Limits of a key and its tenant: requests and tokens a minute, and calls at one time.

All processes of a home count them together; a caller without limits costs nothing here.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, Protocol

from msgspec import Struct

from pointsman.access.book import HomeBook
from pointsman.errors import CallerLimited
from pointsman.kernel.instant import SECOND, IdSource, Instant, instant_text
from pointsman.recording.rates import MINUTE, Bucket, count_left, free_at, full, refill, take
from pointsman.storage.policies.settings import NO_TERMS, RateTerms

BUSY_S: Final = 1
"""When a caller may try again that has as many calls under way as it may have."""

What = Literal["requests", "tokens"]


class LimitStore(Protocol):
    """Where limits are counted. May raise `BudgetUnavailable`."""

    def change_bucket(self, name: str, step: Callable[[Bucket | None], Bucket]) -> None:
        """Change a bucket in one step; it is new where nothing was counted."""
        ...

    def enter(self, hold_id: str, names: Mapping[str, int], at: Instant) -> str:
        """Count a call in each of these, up to a number; return the first that is full."""
        ...

    def leave(self, hold_id: str) -> None:
        """Count a call no more."""
        ...


class MemoryLimits:
    """Counts the limits of one process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._buckets: dict[str, Bucket] = {}
        self._running: Counter[str] = Counter()
        self._holds: dict[str, tuple[str, ...]] = {}

    def change_bucket(self, name: str, step: Callable[[Bucket | None], Bucket]) -> None:
        """Change a bucket in one step."""
        with self._lock:
            self._buckets[name] = step(self._buckets.get(name))

    def enter(self, hold_id: str, names: Mapping[str, int], at: Instant) -> str:  # noqa: ARG002
        """Count a call in each of these, up to a number; return the first that is full."""
        with self._lock:
            for name, most in names.items():
                if self._running[name] >= most:
                    return name
            self._running.update([*names])
            self._holds[hold_id] = (*names,)
        return ""

    def leave(self, hold_id: str) -> None:
        """Count a call no more."""
        with self._lock:
            self._running.subtract(self._holds.pop(hold_id, ()))


class HomeLimits:
    """Counts the limits of all processes of a home."""

    def __init__(self, book: HomeBook) -> None:
        self._book = book

    def change_bucket(self, name: str, step: Callable[[Bucket | None], Bucket]) -> None:
        """Change a bucket in one step."""

        def change(row: tuple[int, int, int] | None) -> tuple[int, int, int]:
            found = None if row is None else Bucket(row[0], row[1], Instant(row[2]))
            bucket = step(found)
            return bucket.per_minute, bucket.level, bucket.at

        self._book.counts.change_bucket(name, change)

    def enter(self, hold_id: str, names: Mapping[str, int], at: Instant) -> str:
        """Count a call in each of these, up to a number; return the first that is full."""
        busy = self._book.counts.enter(hold_id, names, at)
        if busy and self._book.free_dead():
            busy = self._book.counts.enter(hold_id, names, at)
        return busy

    def leave(self, hold_id: str) -> None:
        """Count a call no more."""
        self._book.counts.free([hold_id])


class Admission(Struct, frozen=True):
    """A call that was let in: its hold, and the buckets of its tokens."""

    hold_id: str
    tokens: tuple[tuple[str, int], ...]


class KeyLimiter:
    """Admits the calls of keys within their limits, and those of their tenants."""

    def __init__(self, store: LimitStore, tenants: Mapping[str, RateTerms], ids: IdSource) -> None:
        self._store = store
        self._tenants = tenants
        self._ids = ids

    def admit(self, key_id: str, tenant: str, own: RateTerms, now: Instant) -> Admission | None:
        """Count a call in, or raise when it may come again; None where nothing limits it."""
        terms = self._tenants.get(tenant) or self._tenants.get("*") or NO_TERMS
        if (own is NO_TERMS and terms is NO_TERMS) or not key_id:
            return None
        limits = ((f"key {key_id}", own), (f"tenant {tenant}", terms))
        hold_id = self._enter(limits, now)
        taken: list[tuple[str, int]] = []
        try:
            for name, each in limits:
                if each.tpm is not None:
                    self._take(f"{name} tpm", each.tpm, 0, "tokens", now)
                if each.rpm is not None:
                    self._take(f"{name} rpm", each.rpm, 1, "requests", now)
                    taken.append((f"{name} rpm", each.rpm))
        except CallerLimited:
            for name, per_minute in taken:
                self._change(name, per_minute, -1, now)
            if hold_id:
                self._store.leave(hold_id)
            raise
        tokens = tuple((f"{name} tpm", each.tpm) for name, each in limits if each.tpm is not None)
        return Admission(hold_id, tokens)

    def finish(self, admission: Admission, tokens: int, now: Instant) -> None:
        """Count a call out, and the tokens it used."""
        if admission.hold_id:
            self._store.leave(admission.hold_id)
        for name, per_minute in admission.tokens if tokens else ():
            self._change(name, per_minute, tokens, now)

    def _enter(self, limits: Sequence[tuple[str, RateTerms]], now: Instant) -> str:
        most = {name: each.concurrent for name, each in limits if each.concurrent is not None}
        if not most:
            return ""
        hold_id = self._ids.new_id()
        busy = self._store.enter(hold_id, most, now)
        if busy:
            message = f"the {busy.partition(' ')[0]} has {most[busy]} calls under way already"
            raise _limit_error(message, BUSY_S, ())
        return hold_id

    def _change(self, name: str, per_minute: int, amount: int, now: Instant) -> None:
        def step(found: Bucket | None) -> Bucket:
            return take(_current(found, per_minute, now), amount, now)

        self._store.change_bucket(name, step)

    def _take(self, name: str, per_minute: int, amount: int, what: What, now: Instant) -> None:
        """Take from a bucket that has at least one left, or raise when it will."""
        seen: list[Bucket] = []

        def step(found: Bucket | None) -> Bucket:
            bucket = _current(found, per_minute, now)
            seen.append(bucket)
            return take(bucket, amount, now) if count_left(bucket, now) >= 1 else bucket

        self._store.change_bucket(name, step)
        bucket = seen[-1]
        if count_left(bucket, now) < 1:
            wait_s = max(1, -(-(free_at(bucket, now) - now) // SECOND))
            message = f"the {name.partition(' ')[0]} may use {per_minute} {what} a minute"
            raise _limit_error(message, wait_s, rate_headers(what, bucket, now))


def _limit_error(
    message: str, wait_s: float, headers: tuple[tuple[str, str], ...]
) -> CallerLimited:
    error = CallerLimited(message)
    error.retry_after_s, error.headers = wait_s, headers
    return error


def _current(found: Bucket | None, per_minute: int, now: Instant) -> Bucket:
    """Return the bucket as it is now; a limit that was changed keeps its use."""
    if found is None:
        return full(per_minute, now)
    if found.per_minute == per_minute:
        return refill(found, now)
    used = found.per_minute * MINUTE - refill(found, now).level
    return Bucket(per_minute, per_minute * MINUTE - used, now)


def rate_headers(what: What, bucket: Bucket, now: Instant) -> tuple[tuple[str, str], ...]:
    """Return the state of a limit as OpenAI and Anthropic tell it in headers."""
    left = max(0, count_left(bucket, now))
    whole = full(bucket.per_minute, now)
    missing_us = -(-(whole.level - refill(bucket, now).level) // bucket.per_minute)
    reset_s = -(-missing_us // SECOND)
    return (
        (f"x-ratelimit-limit-{what}", str(bucket.per_minute)),
        (f"x-ratelimit-remaining-{what}", str(left)),
        (f"x-ratelimit-reset-{what}", f"{reset_s}s"),
        (f"anthropic-ratelimit-{what}-limit", str(bucket.per_minute)),
        (f"anthropic-ratelimit-{what}-remaining", str(left)),
        (f"anthropic-ratelimit-{what}-reset", _instant_after(now, reset_s)),
    )


def _instant_after(now: Instant, seconds: int) -> str:
    return instant_text(Instant(now + seconds * SECOND))[:19] + "Z"
