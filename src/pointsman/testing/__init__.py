"""The test kit of the product's own tests, for users' tests too."""

from pointsman.testing.builders import (
    CountedIds,
    FrozenClock,
    a_home,
    a_policy,
    a_turn,
    assert_replays,
    some_facts,
)
from pointsman.testing.certificates import TestAuthority
from pointsman.testing.upstream import ScriptedUpstream
from pointsman.testing.upstream_faults import FAULTS
from pointsman.testing.upstream_replies import answers, calls, does, fails, says

__all__ = [
    "FAULTS",
    "CountedIds",
    "FrozenClock",
    "ScriptedUpstream",
    "TestAuthority",
    "a_home",
    "a_policy",
    "a_turn",
    "answers",
    "assert_replays",
    "calls",
    "does",
    "fails",
    "says",
    "some_facts",
]
