"""The test kit: what the product's own tests use, for users' tests too."""

from pointsman.testing.builders import a_home, a_policy, a_turn, some_facts
from pointsman.testing.replaying import assert_replays
from pointsman.testing.time import CountedIds, FrozenClock

__all__ = [
    "CountedIds",
    "FrozenClock",
    "a_home",
    "a_policy",
    "a_turn",
    "assert_replays",
    "some_facts",
]
