"""Pointsman decides where each piece of agent work goes, and can prove why.

from pointsman import Pointsman

with Pointsman(Path("home")) as pointsman:
    turn = pointsman.route(pointsman.facts("hello"))
    print(turn.outcome.chosen_model)
    print(why_screen(turn))
"""

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
from pointsman.runs.export import BundleSummary
from pointsman.runs.replay import ReplayReport
from pointsman.runs.verify import LedgerReport
from pointsman.turns.explain import Shown, why_screen
from pointsman.turns.facts import GivenFacts, TurnFacts
from pointsman.turns.trace import Evaluation, TurnOutcome

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
