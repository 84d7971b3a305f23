"""What depends on what: workflows, their stages, the decisions these use, and where they can lead.

An unknown target is refused when the files are read; this shows the graph that they make.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from pointsman.branches.policy import Decision
from pointsman.storage.policies.workflow_file import Workflow, possible_targets
from pointsman.workflows.graph import Edge, Graph, Node


def dependency_graph(workflows: Iterable[Workflow], decisions: Mapping[str, Decision]) -> Graph:
    """Put workflows and decisions together; decisions that no stage uses stand by themselves."""
    given = list(workflows)
    used = {stage.decision for each in given for stage in each.stages if stage.decision}
    alone = [each for name, each in decisions.items() if name not in used] if not given else []
    nodes: dict[str, Node] = {}
    edges: dict[tuple[str, str, str], Edge] = {}
    for each in given:
        for part in _workflow(each, decisions):
            _add(part, nodes, edges)
    for decision in alone:
        for part in _decision(decision, "target:"):
            _add(part, nodes, edges)
    return Graph(nodes.values(), edges.values())


def _add(
    part: Node | Edge, nodes: dict[str, Node], edges: dict[tuple[str, str, str], Edge]
) -> None:
    if isinstance(part, Node):
        nodes.setdefault(part.id, part)
    else:
        edges.setdefault((part.source, part.target, part.type), part)


def _workflow(each: Workflow, decisions: Mapping[str, Decision]) -> Iterator[Node | Edge]:
    prefix = f"stage:{each.id}/"
    name = f"workflow:{each.id}"
    yield Node(name, "workflow", each.name or each.id)
    for stage in each.stages:
        yield Node(prefix + stage.id, "stage", stage.id)
    yield Edge(name, prefix + each.first, "invokes")
    for stage in each.stages:
        if stage.next is not None:
            yield Edge(prefix + stage.id, prefix + stage.next, "triggers")
        found = decisions.get(stage.decision or "")
        if found is not None:
            yield from _decision(found, prefix)
            yield Edge(prefix + stage.id, _name(found, prefix), "uses")


def _decision(decision: Decision, prefix: str) -> Iterator[Node | Edge]:
    name = _name(decision, prefix)
    yield Node(name, "decision", decision.name)
    for target in possible_targets(decision):
        yield Node(prefix + target, "stage" if prefix.startswith("stage:") else "target", target)
        labels = [each.label for each in decision.cases if each.target == target]
        label = ", ".join(labels) if labels else "default"
        yield Edge(name, prefix + target, "triggers", label)


def _name(decision: Decision, prefix: str) -> str:
    # One decision may serve several workflows, and leads to other stages in each.
    workflow = prefix.removeprefix("stage:").rstrip("/")
    return (
        f"decision:{decision.id}" if prefix == "target:" else f"decision:{workflow}/{decision.id}"
    )
