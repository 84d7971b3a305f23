"""Pointsman decides where each piece of agent work goes, and can prove why.

from pointsman import Pointsman

with Pointsman(Path("home")) as pointsman:
    turn = pointsman.route(pointsman.facts("hello"))
    print(turn.outcome.chosen_model)
    print(why_screen(turn))
"""

import typing as _typing

from pointsman.app import Pointsman, SystemClock, Ulids, home_path
from pointsman.errors import (
    ChainHeld,
    DocumentError,
    HomeError,
    InputError,
    IntegrityFailure,
    LedgerBroken,
    LedgerError,
    LedgerRolledBack,
    LedgerUnavailable,
    MissingSnapshot,
    NotFound,
    Place,
    PointsmanError,
    Problem,
    ReplayError,
)
from pointsman.kernel.instant import Clock, IdSource, Instant
from pointsman.kernel.replay import Replayed, Verdict
from pointsman.turns.explain import to_screen as why_screen
from pointsman.turns.facts import GivenFacts, TurnFacts
from pointsman.turns.trace import Evaluation, Shown, TurnOutcome

if _typing.TYPE_CHECKING:
    from pointsman.audit.export import BundleSummary
    from pointsman.audit.replay import ReplayReport
    from pointsman.audit.verify import LedgerReport

__all__ = [
    "BundleSummary",
    "ChainHeld",
    "Clock",
    "DocumentError",
    "Evaluation",
    "GivenFacts",
    "HomeError",
    "IdSource",
    "InputError",
    "Instant",
    "IntegrityFailure",
    "LedgerBroken",
    "LedgerError",
    "LedgerReport",
    "LedgerRolledBack",
    "LedgerUnavailable",
    "MissingSnapshot",
    "NotFound",
    "Place",
    "Pointsman",
    "PointsmanError",
    "Problem",
    "ReplayError",
    "ReplayReport",
    "Replayed",
    "Shown",
    "SystemClock",
    "TurnFacts",
    "TurnOutcome",
    "Ulids",
    "Verdict",
    "home_path",
    "why_screen",
]

_LATER = {"BundleSummary": "export", "ReplayReport": "replay", "LedgerReport": "verify"}
"""Loaded when they are asked for: a replay needs the code of every room, a gateway does not."""


def __getattr__(name: str) -> object:
    from importlib import import_module  # noqa: PLC0415 - no public name

    if name not in _LATER:
        raise AttributeError(f"module `pointsman` has no attribute `{name}`")
    return getattr(import_module(f"pointsman.audit.{_LATER[name]}"), name)
