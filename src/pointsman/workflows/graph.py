"""A directed graph whose every answer has one order; and the graph of what workflows use."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from pointsman.branches.policy import Decision
from pointsman.errors import NotFound
from pointsman.kernel.nearest import nearest
from pointsman.storage.policies.workflow_file import Workflow, possible_targets


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


class GraphNode(Struct, frozen=True):
    """One node: its id, its type, and its label."""

    id: str
    type: str
    label: str
    metadata: dict[str, object] = {}


class GraphEdge(Struct, frozen=True):
    """One directed link."""

    source: str
    target: str
    type: str
    label: str = ""
    metadata: dict[str, object] = {}


class Graph:
    """Nodes and edges. Reading it never changes it."""

    def __init__(self, nodes: Iterable[GraphNode], edges: Iterable[GraphEdge]) -> None:
        self.nodes: Mapping[str, GraphNode] = {each.id: each for each in nodes}
        self.edges: tuple[GraphEdge, ...] = tuple(edges)
        self._after: dict[str, list[str]] = {name: [] for name in self.nodes}
        self._before: dict[str, list[str]] = {name: [] for name in self.nodes}
        # DETERMINISM: neighbours are sorted, never in the order of a set.
        for edge in sorted(self.edges, key=lambda each: (each.source, each.target, each.type)):
            self._after[edge.source].append(edge.target)
            self._before[edge.target].append(edge.source)

    def node(self, name: str) -> GraphNode:
        """Return a node by its id."""
        found = self.nodes.get(name)
        if found is None:
            near = nearest(name, self.nodes)
            hint = f"did you mean `{near}`?" if near else ""
            raise NotFound(f"there is no `{name}` in the graph", hint=hint)
        return found

    def inputs(self, name: str) -> tuple[str, ...]:
        """Return the direct predecessors of a node."""
        return tuple(dict.fromkeys(self._before[self.node(name).id]))

    def outputs(self, name: str) -> tuple[str, ...]:
        """Return the direct successors of a node."""
        return tuple(dict.fromkeys(self._after[self.node(name).id]))

    def ancestors(self, name: str) -> tuple[str, ...]:
        """Return all predecessors of a node, the nearest first, without the node itself."""
        return self._reach(name, self._before)

    def descendants(self, name: str) -> tuple[str, ...]:
        """Return all successors of a node, the nearest first, without the node itself."""
        return self._reach(name, self._after)

    def path(self, start: str, end: str) -> tuple[str, ...]:
        """Return the shortest path between two nodes, along or against the links; empty for none.

        Of equally short ones, the one whose names come first.
        """
        self.node(end)
        came_from: dict[str, str] = {self.node(start).id: ""}
        waiting = deque([start])
        while waiting and end not in came_from:
            here = waiting.popleft()
            for each in sorted({*self._after[here], *self._before[here]}):
                if each not in came_from:
                    came_from[each] = here
                    waiting.append(each)
        if end not in came_from:
            return ()
        way = [end]
        while came_from[way[-1]]:
            way.append(came_from[way[-1]])
        return tuple(reversed(way))

    def levels(self) -> tuple[tuple[str, ...], ...]:
        """Return the nodes level by level, each after its predecessors; without those in cycles."""
        left = {name: len(set(self._before[name])) for name in self.nodes}
        found: list[tuple[str, ...]] = []
        level = sorted(name for name, count in left.items() if count == 0)
        while level:
            found.append(tuple(level))
            following = set()
            for each in level:
                for after in set(self._after[each]):
                    left[after] -= 1
                    following |= {after} if left[after] == 0 else set()
            level = sorted(following)
        return tuple(found)

    def value(self) -> dict[str, object]:
        """Return the graph as JSON."""
        return {"version": "1.0", "nodes": list(self.nodes.values()), "edges": self.edges}

    def _reach(self, name: str, links: Mapping[str, list[str]]) -> tuple[str, ...]:
        seen = {self.node(name).id: None}
        waiting = deque([name])
        while waiting:
            for each in links[waiting.popleft()]:
                if each not in seen:
                    seen[each] = None
                    waiting.append(each)
        return tuple(seen)[1:]


def subgraph(graph: Graph, names: Iterable[str]) -> Graph:
    """Return the part of a graph that leads to or from any of some nodes."""
    kept = {
        each for name in names for each in (name, *graph.ancestors(name), *graph.descendants(name))
    }
    return Graph(
        [each for each in graph.nodes.values() if each.id in kept],
        [each for each in graph.edges if each.source in kept and each.target in kept],
    )
