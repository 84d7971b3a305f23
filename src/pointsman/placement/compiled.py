"""A placement policy made ready: its tests as functions, its rules by level, what it gave before.

Made once when a policy is loaded, used for every question under it.
"""

from __future__ import annotations

from typing import Final

from pointsman.placement.facts import PlacementFacts
from pointsman.placement.policy import PlacementPolicy, Rule
from pointsman.placement.rules.policy_rule import test_of
from pointsman.placement.trace import PlacementOutcome, PlacementTrace

MOST_PLAIN: Final = 1024

Key = tuple[object, ...]
Decided = tuple[PlacementOutcome, PlacementTrace]


class ReadyPlacement:
    """A placement policy with what is worked out once, for all decisions under it."""

    __slots__ = ("by_level", "plain", "policy", "reads_content", "tests")

    def __init__(self, policy: PlacementPolicy) -> None:
        self.policy = policy
        self.plain: dict[Key, Decided] = {}
        """What was decided before, by all that it depends on: saves most of a placement."""
        self.reads_content = policy.reads_content
        self.tests = tuple((rule, test_of(rule)) for rule in policy.policy_rules)
        self.by_level: dict[str, tuple[Rule, ...]] = {
            level: tuple(rule for rule in policy.rules if rule.privacy_level == level)
            for level in ("local", "cloud", "auto")
        }

    def keep(self, key: Key, decided: Decided) -> None:
        """Keep what was decided, to be given again."""
        if len(self.plain) >= MOST_PLAIN:
            self.plain.clear()
        self.plain[key] = decided


def plain_key(policy: PlacementPolicy, facts: PlacementFacts) -> Key | None:
    """Give all that a decision by the table depends on; none where anything else has a say."""
    if policy.policy_rules or policy.stays_local:
        return None
    if facts.taint is not None or facts.sensitivity is not None or facts.failed is not None:
        return None
    return (
        facts.privacy_level, facts.intent, facts.local_model, facts.cloud_model,
        facts.network_state, facts.token_count, facts.human_override,
    )  # fmt: skip
