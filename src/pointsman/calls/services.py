"""Services shared by a process's model calls."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from pointsman.access.budgets import BudgetPort
from pointsman.kernel.instant import Clock, IdSource, Instant
from pointsman.providers.http.pool import PoolSettings
from pointsman.providers.http.proxy import NO_PROXIES, read_proxies
from pointsman.providers.port import Deadlines
from pointsman.providers.registry.providers import LiveProviders
from pointsman.recording.decision_recorder import DecisionRecorder
from pointsman.recording.health import LiveHealth
from pointsman.recording.stops import Stops
from pointsman.storage.policies.settings import Settings

if TYPE_CHECKING:
    from pointsman.calls.call_end import CallEnd
    from pointsman.calls.model_call import ModelCall


class CallListener(Protocol):
    """Learns how every call of a process ended: turns, shadow runs, judges, conversations alike."""

    def call_ended(self, call: ModelCall, end: CallEnd, at: Instant) -> None:
        """Count the call, and tell of it. Does not wait."""
        ...

    def absurd_charge(self, call: ModelCall, end: CallEnd) -> None:
        """Raise the alarm about a bill that is out of all proportion to its estimate."""
        ...


class CallServices(Struct, frozen=True):
    """The parts that every call uses."""

    decision_recorder: DecisionRecorder
    clock: Clock
    ids: IdSource
    price_table_id: str
    providers: LiveProviders
    health: LiveHealth
    budgets: BudgetPort
    deadlines: Callable[[], Deadlines]
    listener: CallListener | None = None
    stops: Stops | None = None
    """The orders that forbid calls, each asked about at the door."""
    run_blocking: Callable[[Callable[[], Any]], Awaitable[Any]] | None = None
    """Runs blocking network calls in a thread; None where budgets are kept in this process."""


def deadlines_of(settings: Settings) -> Deadlines:
    """Return how long a provider may take."""
    limits = settings.limits
    return Deadlines(limits.connect_s, limits.head_s, limits.idle_s, limits.total_s)


def pool_of(settings: Settings, home: Path) -> PoolSettings:
    """Return how connections to providers are made and kept."""
    upstream = settings.upstream
    is_by_environment = upstream.proxy == "environment"
    return PoolSettings(
        upstream.max_connections,
        upstream.max_idle,
        upstream.idle_s,
        is_warm=upstream.warm,
        max_age_s=upstream.max_age_s,
        ca_file=home / Path(upstream.ca_file).expanduser() if upstream.ca_file else None,
        proxies=read_proxies(os.environ) if is_by_environment else NO_PROXIES,
    )
