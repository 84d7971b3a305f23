"""Complete and valid values for tests that care about one part of them, and the replay check."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

from msgspec.structs import replace

from pointsman.app import Pointsman
from pointsman.testing.time import CountedIds, FrozenClock
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
    report = pointsman.replay_all()
    lines = [f"{each.decision_id}: {each.code} {each.reason}" for each in report.others]
    assert report.is_clean, "\n".join(["not every decision replays:", *lines])  # noqa: S101 - an assertion is the purpose
    return report.total
