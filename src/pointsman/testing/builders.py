"""Complete and valid values for tests that care about one part of them, and the replay check."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

from msgspec.structs import replace

from pointsman.app import Pointsman
from pointsman.kernel.instant import SECOND, Instant, read_instant
from pointsman.turns.compiled import CompiledTurnPolicy, compile_policy
from pointsman.turns.facts import TurnFacts
from pointsman.turns.policy import NO_ROUTING, turn_policy
from pointsman.turns.registry.models import (
    EMBEDDED_MODEL,
    GivenModel,
    GivenPrice,
    ModelsFile,
    registry,
)
from pointsman.turns.trace import Shown

START = read_instant("2026-01-01T00:00:00Z")


class FrozenClock:
    """A clock that shows one instant until it is moved."""

    def __init__(self, at: Instant = START) -> None:
        self._at = at

    def now(self) -> Instant:
        """Return the instant it was set to."""
        return self._at

    def advance(self, *, seconds: int = 0, microseconds: int = 0) -> None:
        """Move on, or back."""
        self._at = Instant(self._at + seconds * SECOND + microseconds)


class CountedIds:
    """Ids that count: the same test gives the same ids on every run."""

    def __init__(self, prefix: str = "id") -> None:
        self._prefix = prefix
        self._count = 0

    def new_id(self) -> str:
        """Return the next id."""
        self._count += 1
        return f"{self._prefix}-{self._count:06d}"


def a_policy(
    default: str | None = EMBEDDED_MODEL, *others: str, **changes: object
) -> CompiledTurnPolicy:
    """Return a policy with a global default; the models named are known, and run in the cloud.

    Further keywords replace parts of the policy: `rules`, `tiers`, `models`, …
    """
    cloud = GivenModel(location="cloud", price=GivenPrice(Decimal(1), Decimal(5)))
    models = registry(ModelsFile(1, models=dict.fromkeys(others, cloud)), lambda _name: None)
    policy = turn_policy(NO_ROUTING, models, "/")
    return compile_policy(replace(policy, **{"global_default": default, **changes}))


def some_facts(message: str = "hello", **changes: object) -> TurnFacts:
    """Return the facts of a turn; keywords replace parts of them."""
    return replace(TurnFacts(message, estimated_input_tokens={"*": 2}), **changes)


def a_home(path: Path, *, writer: str = "cli") -> Pointsman:
    """Open a home whose time stands still and whose ids count."""
    return Pointsman(path, writer=writer, clock=FrozenClock(), ids=CountedIds())


def a_turn(pointsman: Pointsman, message: str = "hello") -> Shown:
    """Record one turn."""
    return pointsman.route(some_facts(message))


def assert_replays(pointsman: Pointsman) -> int:
    """Assert that every recorded decision re-runs to the same bytes; return how many there are."""
    report = pointsman.replay_all(from_scratch=True)
    lines = [f"{each.decision_id}: {each.code} {each.reason}" for each in report.others]
    assert report.is_clean, "\n".join(["not every decision replays:", *lines])  # noqa: S101 - an assertion is the purpose
    return report.total
