"""Pointsman decides where each piece of agent work goes, and can prove why.

from pointsman import Pointsman

with Pointsman(Path("home")) as pointsman:
    turn = pointsman.route(pointsman.facts("hello"))
    print(turn.outcome.chosen_model)
    print(why_screen(turn))
"""

import typing as _typing

if _typing.TYPE_CHECKING:
    from pointsman.app import Pointsman, SystemClock, Ulids, home_path
    from pointsman.audit.export import BundleSummary
    from pointsman.audit.replay import ReplayReport
    from pointsman.audit.verify import LedgerReport
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

_PLACES = {
    "BundleSummary": "pointsman.audit.export:BundleSummary",
    "ChainHeld": "pointsman.errors:ChainHeld",
    "Clock": "pointsman.kernel.instant:Clock",
    "DocumentError": "pointsman.errors:DocumentError",
    "Evaluation": "pointsman.turns.trace:Evaluation",
    "GivenFacts": "pointsman.turns.facts:GivenFacts",
    "HomeError": "pointsman.errors:HomeError",
    "IdSource": "pointsman.kernel.instant:IdSource",
    "InputError": "pointsman.errors:InputError",
    "Instant": "pointsman.kernel.instant:Instant",
    "IntegrityFailure": "pointsman.errors:IntegrityFailure",
    "LedgerBroken": "pointsman.errors:LedgerBroken",
    "LedgerError": "pointsman.errors:LedgerError",
    "LedgerReport": "pointsman.audit.verify:LedgerReport",
    "LedgerRolledBack": "pointsman.errors:LedgerRolledBack",
    "LedgerUnavailable": "pointsman.errors:LedgerUnavailable",
    "MissingSnapshot": "pointsman.errors:MissingSnapshot",
    "NotFound": "pointsman.errors:NotFound",
    "Place": "pointsman.errors:Place",
    "Pointsman": "pointsman.app:Pointsman",
    "PointsmanError": "pointsman.errors:PointsmanError",
    "Problem": "pointsman.errors:Problem",
    "ReplayError": "pointsman.errors:ReplayError",
    "ReplayReport": "pointsman.audit.replay:ReplayReport",
    "Replayed": "pointsman.kernel.replay:Replayed",
    "Shown": "pointsman.turns.trace:Shown",
    "SystemClock": "pointsman.app:SystemClock",
    "TurnFacts": "pointsman.turns.facts:TurnFacts",
    "TurnOutcome": "pointsman.turns.trace:TurnOutcome",
    "Ulids": "pointsman.app:Ulids",
    "Verdict": "pointsman.kernel.replay:Verdict",
    "home_path": "pointsman.app:home_path",
    "why_screen": "pointsman.turns.explain:to_screen",
}
"""Where each name is defined. All are loaded when they are asked for: a command that prints its
version, or reads one turn, does without most of them."""


def __getattr__(name: str) -> object:
    from importlib import import_module  # noqa: PLC0415 - no public name

    if name not in _PLACES:
        raise AttributeError(f"module `pointsman` has no attribute `{name}`")
    module, _, own_name = _PLACES[name].partition(":")
    found = globals()[name] = getattr(import_module(module), own_name)
    return found
