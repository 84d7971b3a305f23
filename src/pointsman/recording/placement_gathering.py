"""Gathering for placements of one home: the taint of a session, and what a text holds."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from pointsman.kernel.content import Sealed
from pointsman.placement.facts import GivenPlacement, PlacementFacts
from pointsman.placement.rules.sensitivity import Sensitivity
from pointsman.recording.placing import Turn, facts_given, facts_of_turn
from pointsman.recording.taints import Taints
from pointsman.signals.sensitivity import sensitivity
from pointsman.storage.home import Home
from pointsman.storage.policies.policies import InForce
from pointsman.turns.facts import TurnFacts


class PlacementGathering:
    """Gathers what placements may look at; may be shared by threads."""

    def __init__(self, home: Home, taints: Taints) -> None:
        self._home = home
        self._taints = taints

    def asked(
        self,
        in_force: InForce,
        facts: TurnFacts,
        about: Turn,
        text: Callable[[], str] | None = None,
    ) -> PlacementFacts:
        """Gather what the placement of a turn may look at.

        `text` gives everything that would leave with the message; without it, that is the message.
        """
        taint = None
        if in_force.placement.policy.taint != "off":
            taint = self._taints.of(about.session_id, about.items)
        found = None
        if in_force.placement.policy.stays_local:
            found = self._sensitivity(in_force, facts.message if text is None else text())
        return facts_of_turn(in_force, facts, about, taint=taint, sensitivity=found)

    def given(self, in_force: InForce, given: GivenPlacement) -> PlacementFacts:
        """Give the exact facts of a placement that a caller wrote; no record is looked at."""
        facts = facts_given(given)
        return replace(facts, sensitivity=self._sensitivity(in_force, facts.content))

    def _sensitivity(self, in_force: InForce, content: str | Sealed) -> Sensitivity | None:
        """Ask the detector, if the policy wants to know what a text holds."""
        if not in_force.placement.policy.stays_local or isinstance(content, Sealed):
            return None
        return sensitivity(content, self._home.content_key())
