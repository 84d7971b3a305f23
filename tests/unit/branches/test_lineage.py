"""Lineage: evaluations linked to what they looked at and where they led, and drawn."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from pointsman.app import Pointsman
from pointsman.errors import NotFound
from pointsman.storage.policies.decision_files import DecisionFiles
from pointsman.storage.policies.workflow_file import read_workflow
from pointsman.storage.stores.entries import LedgerReader
from pointsman.testing import CountedIds, FrozenClock
from pointsman.workflows.branch_log import BranchLog
from pointsman.workflows.branching import EvaluationRequest
from pointsman.workflows.graph import Graph, GraphEdge, GraphNode, dependency_graph, subgraph
from pointsman.workflows.graph_drawing import draw
from pointsman.workflows.lineage import impact, lineage_graph, matching_nodes

DECISIONS = """
decisions:
  - id: gate
    name: 'Gate "1" <b>'
    type: binary
    input: "{{ artifact.score }}"
    cases: [{condition: "input >= 0.8", target: deploy, label: Pass}]
    default: {target: rework}
    cache: {enabled: true}
  - id: many
    type: rule_table
    hit_policy: collect
    input: "{{ n }}"
    rules:
      - {condition: "input > 0", target: a, label: A}
      - {condition: "input > 1", target: b, label: B}
    default: {target: c}
    guardrails: [{type: no_disabled_targets, disabled_stages: [c], escalation_target: human}]
"""


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    (tmp_path / "decisions").mkdir()
    (tmp_path / "decisions" / "d.yaml").write_text(DECISIONS)
    with Pointsman(tmp_path, clock=FrozenClock(), ids=CountedIds()) as pointsman:
        ask = pointsman.branching.evaluate
        artifact: Any = {"artifact": {"id": "doc", "version": 2, "score": 1}}
        ask("gate", artifact, EvaluationRequest("run-1", "check"))
        ask("gate", artifact, EvaluationRequest("run-2", "check"))
        ask("many", {"n": 2})
        ask("many", {"n": 0})
        ask("gate", {"artifact": {"score": 0}})
    with closing(LedgerReader(tmp_path / "ledger.db")) as ledger:
        return lineage_graph(BranchLog(ledger).every())


@pytest.mark.req(347)
def test_each_evaluation_is_linked_to_its_inputs_and_the_branch_it_chose(graph: Graph) -> None:
    decisions = [each for each in graph.nodes.values() if each.type == "decision"]
    assert len(decisions) == 5
    for each in decisions:
        assert graph.inputs(each.id)
        assert graph.outputs(each.id)
    first = decisions[0].id
    assert graph.inputs(first) == ("artifact:doc@2", "target:run-1/check")
    assert graph.outputs(first) == ("target:run-1/deploy",)
    (edge,) = [each for each in graph.edges if each.source == first]
    assert (edge.type, edge.label) == ("generated", "Pass")
    assert edge.metadata == {"label": "Pass", "case_index": 0, "cached": False}
    assert decisions[1].metadata["cached"] is True


def test_the_first_decision_of_a_run_is_linked_to_the_sensor_that_began_it(tmp_path: Path) -> None:
    (tmp_path / "decisions").mkdir()
    (tmp_path / "decisions" / "d.yaml").write_text(DECISIONS)
    with Pointsman(tmp_path, clock=FrozenClock(), ids=CountedIds()) as pointsman:
        ask = pointsman.branching.evaluate
        by_sensor = ask("many", {"n": 1}, EvaluationRequest("s-1", "s"))
        in_run = ask("gate", {"artifact": {"score": 1}}, EvaluationRequest("s-1.a", "check"))
        elsewhere = ask("gate", {"artifact": {"score": 1}}, EvaluationRequest("s-2.a", "check"))
    with closing(LedgerReader(tmp_path / "ledger.db")) as ledger:
        graph = lineage_graph(BranchLog(ledger).every())
    assert by_sensor.outcome.selected_targets == ("a",)
    first, other = (f"decision:gate:{each.evaluation_id}" for each in (in_run, elsewhere))
    assert GraphEdge("target:s-1/a", first, "derived") in graph.edges
    assert not [each for each in graph.edges if each.target == other and "s-1" in each.source]


def test_several_targets_and_a_target_that_a_guardrail_moved_are_all_there(graph: Graph) -> None:
    labels = {(each.target, each.label) for each in graph.edges if each.type == "generated"}
    assert {("target:a", "A"), ("target:b", "B"), ("target:human", "block")} <= labels
    assert "target:c" not in graph.nodes


def test_ancestors_descendants_impact_and_the_shortest_way(graph: Graph) -> None:
    found = impact(graph, "artifact:doc@2")
    assert found.affected_decisions == ("gate",)
    assert found.affected_targets == ("target:run-1/deploy", "target:run-2/deploy")
    assert found.affected_workflows == ("run-1", "run-2")
    assert graph.ancestors("target:run-1/deploy")[1:] == ("artifact:doc@2", "target:run-1/check")
    way = graph.path("target:run-1/deploy", "target:run-2/deploy")
    assert (len(way), way[2]) == (5, "artifact:doc@2")
    assert graph.path("target:a", "artifact:doc@2") == ()


def test_nodes_are_found_by_what_people_call_them(graph: Graph) -> None:
    assert matching_nodes(graph, "doc") == ["artifact:doc@2"]
    assert len(matching_nodes(graph, "many")) == 2
    assert matching_nodes(graph, "deploy") == ["target:run-1/deploy", "target:run-2/deploy"]
    assert matching_nodes(graph, "nothing") == []
    with pytest.raises(NotFound) as caught:
        graph.ancestors("target:aa")
    assert caught.value.hint == "did you mean `target:a`?"


def test_a_graph_is_drawn_in_four_ways_and_text_in_it_stays_text(graph: Graph) -> None:
    picture = draw(graph, "svg")
    tree = ET.fromstring(picture)
    texts = [each.text for each in tree.iter() if each.tag.endswith("text")]
    assert 'Gate "1" <b>' in texts
    assert len([each for each in tree.iter() if each.tag.endswith("rect")]) == len(graph.nodes)
    assert "Gate #quot;1#quot; #lt;b>" in draw(graph, "mermaid")
    assert r"Gate \"1\" <b>" in draw(graph, "dot")
    value = json.loads(draw(graph, "json"))
    assert len(value["nodes"]) == len(graph.nodes)
    assert draw(Graph([], []), "svg").endswith("</svg>")


def test_part_of_a_graph_holds_what_its_nodes_came_from_and_led_to(graph: Graph) -> None:
    part = subgraph(graph, ["artifact:doc@2"])
    assert "target:a" not in part.nodes
    assert len(part.nodes) == 5


def test_levels_leave_out_cycles() -> None:
    nodes = [GraphNode(name, "stage", name) for name in "abcd"]
    edges = [
        GraphEdge("a", "b", "t"),
        GraphEdge("b", "c", "t"),
        GraphEdge("c", "b", "t"),
        GraphEdge("a", "d", "t"),
    ]
    graph = Graph(nodes, edges)
    assert graph.levels() == (("a",), ("d",))
    assert "<svg" in draw(graph, "svg"), "cycles are drawn too"


@pytest.mark.req(349)
def test_targets_are_resolved_through_the_dependency_graph(tmp_path: Path) -> None:
    (tmp_path / "decisions").mkdir()
    (tmp_path / "decisions" / "d.yaml").write_text(DECISIONS)
    decisions = DecisionFiles(tmp_path, is_kept=False).current().decisions
    text = (
        b"workflow: {id: w, stages: [{id: x, decision: gate}, {id: deploy}, {id: rework, next: x}]}"
    )
    graph = dependency_graph([read_workflow(text, "w.yaml")], decisions)
    assert graph.descendants("workflow:w") == (
        "stage:w/x", "decision:w/gate", "stage:w/deploy", "stage:w/rework",
    )  # fmt: skip
    alone = dependency_graph([], decisions)
    assert alone.outputs("decision:many") == ("target:a", "target:b", "target:c", "target:human")
