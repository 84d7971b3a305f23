"""Differences of small policies drawn at random against deciding turns under both of them."""

from random import Random

from msgspec.structs import replace
from tests.property.test_proofs_against_trial import random_policy, random_turn

from pointsman.turns.compiled import CompiledTurnPolicy, compile_policy
from pointsman.turns.decide import decide
from pointsman.turns.proofs.differences import differences, way_of
from pointsman.turns.proofs.examples import winner_of

PAIRS = 40
TURNS = 80


def other_policy(random: Random, policy: CompiledTurnPolicy) -> CompiledTurnPolicy:
    """Return a policy with rules left out, moved, or taken from another one."""
    rules = [*policy.policy.rules]
    drawn = [
        replace(each, name=f"new {each.name}") for each in random_policy(random).policy.rules[:1]
    ]
    kind = random.randrange(4)
    if kind == 0 and rules:
        del rules[random.randrange(len(rules))]
    elif kind == 1:
        random.shuffle(rules)
    elif kind == 2:
        rules[:0] = drawn
    return compile_policy(replace(policy.policy, rules=tuple(rules)))


def test_every_turn_that_differs_is_of_a_kind_that_is_told() -> None:
    random = Random(11)
    differing = same = 0
    for _ in range(PAIRS):
        before = random_policy(random)
        after = other_policy(random, before)
        found = differences(before, after)
        kinds = {(each.before, each.after) for each in found.kinds}
        assert found.is_complete
        assert all(each.example is not None for each in found.kinds)
        same += not kinds
        for _ in range(TURNS):
            facts = random_turn(random, before)
            if facts is None:
                continue
            then, now = (winner_of(*decide(each, facts)) for each in (before, after))
            if (then and then.model) != (now and now.model):
                differing += 1
                assert (way_of(then), way_of(now)) in kinds, (facts, before.policy, after.policy)
    assert differing > 20
    assert same > 0


def test_a_policy_does_not_differ_from_itself() -> None:
    random = Random(5)
    for _ in range(10):
        policy = random_policy(random)
        assert differences(policy, policy).kinds == ()
