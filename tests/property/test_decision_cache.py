"""The cache never changes an answer, and lineage has one order, whatever is asked."""

import random
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pointsman.app import Pointsman
from pointsman.branches.decide import decide
from pointsman.branches.facts import read_facts
from pointsman.branches.trace import OUTCOME_FORM, TRACE_FORM
from pointsman.testing import CountedIds, FrozenClock
from pointsman.workflows.graph import Graph, GraphEdge, GraphNode
from pointsman.workflows.graph_drawing import FORMATS, draw

DECISIONS = """
decisions:
  - id: table
    type: rule_table
    hit_policy: collect
    input: "{{ default(order, context) }}"
    rules:
      - {condition: "input.size > 3 and kind in ['a', 'b']", target: t1}
      - {condition: "input['size'] == limits[kind]", target: t2}
      - {condition: "not (flag == true) or input.size < 0.5", target: t3}
    default: {target: t0}
    cache: {enabled: true, ttl: 10s}
  - id: wheel
    type: weighted
    input: "{{ kind }}"
    cases: [{target: t1, weight: 1}, {target: t2, weight: 2}]
    default: {target: t0}
    cache: {enabled: true, ttl: 10s}
"""
SCALARS = st.sampled_from([None, True, False, 0, 1, 3, 4, 5, "a", "b", "3"])
MAPS = st.dictionaries(st.sampled_from(["size", "a", "b"]), SCALARS, max_size=3)
CONTEXTS = st.dictionaries(
    st.sampled_from(["order", "kind", "limits", "flag", "size", "other", "context"]),
    SCALARS | MAPS,
    max_size=6,
)
STEPS = st.lists(
    st.tuples(st.sampled_from(["table", "wheel"]), CONTEXTS, st.integers(0, 12)),
    min_size=1, max_size=12,
)  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(STEPS)
def test_the_cache_gives_what_evaluating_would_give_to_the_byte(steps: list[Any]) -> None:
    with TemporaryDirectory() as folder:
        (Path(folder) / "decisions").mkdir()
        (Path(folder) / "decisions" / "d.yaml").write_text(DECISIONS)
        clock = FrozenClock()
        with Pointsman(Path(folder), clock=clock, ids=CountedIds()) as pointsman:
            for name, context, seconds in [*steps, *steps]:
                clock.advance(seconds=seconds)
                made = pointsman.branching.evaluate(name, context)
                ready = pointsman.branching.in_force().ready
                outcome, trace = decide(ready, read_facts(name, context))
                assert OUTCOME_FORM.encode(made.outcome) == OUTCOME_FORM.encode(outcome)
                assert TRACE_FORM.encode(made.trace) == TRACE_FORM.encode(trace)
                assert made.at - made.evaluated_at < 10_000_000
            assert pointsman.replay_all().is_clean


EDGES = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=25)


@given(EDGES, st.randoms(use_true_random=False))
def test_a_graph_answers_the_same_in_whatever_order_it_was_built(
    pairs: list[tuple[int, int]], chance: random.Random
) -> None:
    nodes = [GraphNode(f"n{number}", "target", f"n{number}") for number in range(10)]
    edges = [GraphEdge(f"n{a}", f"n{b}", "derived") for a, b in dict.fromkeys(pairs)]
    first = Graph(nodes, edges)
    shuffled = list(edges)
    chance.shuffle(shuffled)
    second = Graph(nodes, shuffled)
    for start in first.nodes:
        assert first.ancestors(start) == second.ancestors(start)
        assert first.descendants(start) == second.descendants(start)
        assert start not in first.descendants(start)
        for end in first.nodes:
            way = first.path(start, end)
            assert way == second.path(start, end)
            assert not way or (way[0], way[-1]) == (start, end)
            assert bool(way) == bool(first.path(end, start))
            assert len(way) == len(first.path(end, start))
    assert first.levels() == second.levels()
    for form in FORMATS:
        assert draw(first, form) == draw(Graph(nodes, edges), form)
