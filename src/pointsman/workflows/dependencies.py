"""The dependency graph: workflows, their stages, the decisions these use, and their targets.

An unknown target is refused when the files are read; this draws the graph they form.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from pointsman.branches.policy import Decision
from pointsman.storage.policies.workflow_file import Workflow, possible_targets
from pointsman.workflows.graph import Graph, GraphEdge, GraphNode


def dependency_graph(workflows: Iterable[Workflow], decisions: Mapping[str, Decision]) -> Graph:
    """Build the graph of workflows and decisions; without workflows, of the decisions alone."""
    given = list(workflows)
    used = {stage.decision for each in given for stage in each.stages if stage.decision}
    alone = [each for name, each in decisions.items() if name not in used] if not given else []
    nodes: dict[str, GraphNode] = {}
    edges: dict[tuple[str, str, str], GraphEdge] = {}
    for each in given:
        for part in _workflow(each, decisions):
            _add(part, nodes, edges)
    for decision in alone:
        for part in _decision(decision, "target:"):
            _add(part, nodes, edges)
    return Graph(nodes.values(), edges.values())


def _add(
    part: GraphNode | GraphEdge,
    nodes: dict[str, GraphNode],
    edges: dict[tuple[str, str, str], GraphEdge],
) -> None:
    if isinstance(part, GraphNode):
        nodes.setdefault(part.id, part)
    else:
        edges.setdefault((part.source, part.target, part.type), part)


def _workflow(each: Workflow, decisions: Mapping[str, Decision]) -> Iterator[GraphNode | GraphEdge]:
    prefix = f"stage:{each.id}/"
    name = f"workflow:{each.id}"
    yield GraphNode(name, "workflow", each.name or each.id)
    for stage in each.stages:
        yield GraphNode(prefix + stage.id, "stage", stage.id)
    yield GraphEdge(name, prefix + each.first, "invokes")
    for stage in each.stages:
        if stage.next is not None:
            yield GraphEdge(prefix + stage.id, prefix + stage.next, "triggers")
        found = decisions.get(stage.decision or "")
        if found is not None:
            yield from _decision(found, prefix)
            yield GraphEdge(prefix + stage.id, _name(found, prefix), "uses")


def _decision(decision: Decision, prefix: str) -> Iterator[GraphNode | GraphEdge]:
    name = _name(decision, prefix)
    yield GraphNode(name, "decision", decision.name)
    for target in possible_targets(decision):
        yield GraphNode(
            prefix + target, "stage" if prefix.startswith("stage:") else "target", target
        )
        labels = [each.label for each in decision.cases if each.target == target]
        label = ", ".join(labels) if labels else "default"
        yield GraphEdge(name, prefix + target, "triggers", label)


def _name(decision: Decision, prefix: str) -> str:
    # One decision may serve several workflows, and leads to other stages in each.
    workflow = prefix.removeprefix("stage:").rstrip("/")
    return (
        f"decision:{decision.id}" if prefix == "target:" else f"decision:{workflow}/{decision.id}"
    )
