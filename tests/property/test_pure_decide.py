"""Deciding changes neither the compiled policy nor the facts."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, reject, settings
from hypothesis import strategies as st
from msgspec import Struct
from tests.models.agents_jobs import a_job, a_router
from tests.property.test_short_ways import placements
from tests.property.turns_drawn import Case, exact_facts

from pointsman.agents.decide import decide as choose_agent
from pointsman.branches.compiled import compile_policy as compile_branches
from pointsman.branches.decide import decide as choose_branch
from pointsman.branches.facts import read_facts
from pointsman.branches.policy import branch_policy, read_policy
from pointsman.errors import InputError
from pointsman.placement.compiled import compile_policy as compile_placement
from pointsman.placement.decide import decide as place
from pointsman.placement.policy import BUILT_IN, placement_policy
from pointsman.turns.decide import decide as choose_model

EXAMPLES = settings(max_examples=60, derandomize=True, deadline=None, database=None)
SEEDS = st.integers(0, 2**32)
CASES = [{"target": f"t{n}", "condition": f"input.kind == 'k{n}'"} for n in range(12)]
DECISIONS = [
    {"id": "indexed", "type": "switch", "cases": CASES},
    {"id": "one", "type": "binary", "cases": [{"target": "y", "condition": "input.size > 3"}]},
    {"id": "all", "type": "rule_table", "hit_policy": "collect", "cases": CASES[:3]},
    {
        "id": "weighted",
        "type": "weighted",
        "input": "kind",
        "cases": [{"target": "a", "weight": 1}, {"target": "b", "weight": 2}],
    },
]
HOUSE = {
    "modules": {
        "agent:a": {"apt": 0.9, "status": "healthy", "capabilities": ["math"]},
        "agent:b": {"apt": 0.4, "status": "healthy"},
        "agent:c": {"apt": 0.4, "status": "offline"},
    },
    "intents": [{"intent": "math", "patterns": ["add"]}],
}


def state(value: object, seen: dict[int, int] | None = None) -> Any:
    """Return all that an object holds, down to plain values; a thing met again by its number."""
    seen = {} if seen is None else seen
    if isinstance(value, str | bytes | int | float | None):
        return value
    if id(value) in seen:
        return ("again", seen[id(value)])
    seen[id(value)] = len(seen)
    if isinstance(value, dict):
        return ("dict", [(state(key, seen), state(each, seen)) for key, each in value.items()])
    if isinstance(value, list | tuple):
        return [state(each, seen) for each in value]
    if isinstance(value, set | frozenset):
        return ("set", len(value), sorted(map(repr, value)))
    names = set(getattr(value, "__dict__", ()))
    if isinstance(value, Struct):
        names |= set(value.__struct_fields__)
    else:
        names |= {each for kind in type(value).__mro__ for each in getattr(kind, "__slots__", ())}
    return (type(value), [(n, state(getattr(value, n, None), seen)) for n in sorted(names)])


def check(decide: Any, compiled: Any, facts: Any) -> None:
    before = state((compiled, facts))
    first = decide(compiled, facts)
    assert state((compiled, facts)) == before
    assert decide(compiled, facts) == first


@EXAMPLES
@given(SEEDS)
def test_a_turn_leaves_its_policy_as_it_was(seed: int) -> None:
    case = Case(seed)
    try:
        facts = exact_facts(case.draw.facts(case.known), case.ready)
    except InputError:
        # Some messages begin with an override that names no model.
        reject()
    check(choose_model, case.ready, facts)


@EXAMPLES
@given(placements)
def test_a_placement_leaves_its_policy_as_it_was(facts: Any) -> None:
    check(place, compile_placement(placement_policy(BUILT_IN)), facts)


@EXAMPLES
@given(st.sampled_from(["add 1", "hello"]), st.sampled_from(["", "math", "other"]))
def test_a_job_leaves_its_policy_as_it_was(query: str, intent: str) -> None:
    router = a_router(HOUSE)
    check(choose_agent, router, a_job(router, {"query": query, "intent": intent}))


@EXAMPLES
@given(
    st.sampled_from([each["id"] for each in DECISIONS]),
    st.sampled_from(["k1", "k99", 3, None, [1]]),
    st.integers(0, 9),
)
def test_a_branch_leaves_its_policy_as_it_was(name: str, kind: Any, size: int) -> None:
    written = {"decisions": [{**each, "default": {"target": "d"}} for each in DECISIONS]}
    policy = branch_policy([read_policy(json.dumps(written).encode(), "test")])
    check(choose_branch, compile_branches(policy), read_facts(name, {"kind": kind, "size": size}))
