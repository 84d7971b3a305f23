"""Values that are complete and valid, for tests that care about one part of them."""

from __future__ import annotations

from pathlib import Path

from pointsman.app import Pointsman
from pointsman.testing.time import CountedIds, FrozenClock
from pointsman.turns.explain import Shown
from pointsman.turns.facts import Availability, TurnFacts
from pointsman.turns.policy import EMBEDDED_MODEL, Model, TurnPolicy


def a_policy(default: str | None = EMBEDDED_MODEL, *others: str) -> TurnPolicy:
    """Give a policy with a global default; the models named are known, and run in the cloud."""
    models = {EMBEDDED_MODEL: Model("local"), **{name: Model("cloud") for name in others}}
    return TurnPolicy(default, models)


def some_facts(
    message: str = "hello",
    *,
    configured: tuple[str, ...] | None = None,
    allowed_models: tuple[str, ...] | None = None,
    availability: dict[str, Availability] | None = None,
) -> TurnFacts:
    """Give the facts of a turn."""
    return TurnFacts(message, configured, allowed_models, availability or {})


def a_home(path: Path, *, writer: str = "cli") -> Pointsman:
    """Open a home whose time stands still and whose ids count."""
    return Pointsman(path, writer=writer, clock=FrozenClock(), ids=CountedIds())


def a_turn(pointsman: Pointsman, message: str = "hello") -> Shown:
    """Record one turn."""
    return pointsman.route(some_facts(message))
