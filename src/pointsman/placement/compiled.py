"""A placement policy, compiled: its tests as functions, its rules by privacy level.

Made once when a policy is loaded, used for every question under it.
"""

from __future__ import annotations

from pointsman.placement.policy import PlacementPolicy, PlacementRule
from pointsman.placement.rules.policy_rule import test_of


class CompiledPlacement:
    """A placement policy with everything that is the same for all decisions under it."""

    __slots__ = ("by_level", "is_table_only", "label_zones", "policy", "reads_content", "tests")

    def __init__(self, policy: PlacementPolicy) -> None:
        self.policy = policy
        self.reads_content = policy.reads_content
        self.is_table_only = not policy.policy_rules and not policy.asks_detector
        """Whether nothing but the table can decide: no policy rule, no kind of text that stays."""
        self.label_zones = {label.name: label.within for label in policy.all_labels}
        self.tests = tuple((rule, test_of(rule)) for rule in policy.policy_rules)
        self.by_level: dict[str, tuple[PlacementRule, ...]] = {
            level: tuple(rule for rule in policy.rules if rule.privacy_level == level)
            for level in ("local", "cloud", "auto")
        }


def compile_policy(policy: PlacementPolicy) -> CompiledPlacement:
    """Compile a policy once, for every decision under it."""
    return CompiledPlacement(policy)
