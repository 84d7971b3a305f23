"""A directed graph whose every answer has one order: nodes and edges as they came, then by name.

Used for the lineage of decisions and for what decisions can lead to.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

from msgspec import Struct

from pointsman.errors import NotFound
from pointsman.kernel.nearest import nearest


class Node(Struct, frozen=True):
    """One thing: its id, what it is, and what to write on it."""

    id: str
    type: str
    label: str
    metadata: dict[str, object] = {}


class Edge(Struct, frozen=True):
    """One link, in the direction things go."""

    source: str
    target: str
    type: str
    label: str = ""
    metadata: dict[str, object] = {}


class Graph:
    """Nodes and edges. Reading it never changes it."""

    def __init__(self, nodes: Iterable[Node], edges: Iterable[Edge]) -> None:
        self.nodes: Mapping[str, Node] = {each.id: each for each in nodes}
        self.edges: tuple[Edge, ...] = tuple(edges)
        self._after: dict[str, list[str]] = {name: [] for name in self.nodes}
        self._before: dict[str, list[str]] = {name: [] for name in self.nodes}
        # DETERMINISM: neighbours are sorted, never in the order of a set.
        for edge in sorted(self.edges, key=lambda each: (each.source, each.target, each.type)):
            self._after[edge.source].append(edge.target)
            self._before[edge.target].append(edge.source)

    def node(self, name: str) -> Node:
        """Give a node by its id."""
        found = self.nodes.get(name)
        if found is None:
            near = nearest(name, self.nodes)
            hint = f"did you mean `{near}`?" if near else ""
            raise NotFound(f"there is no `{name}` in the graph", hint=hint)
        return found

    def inputs(self, name: str) -> tuple[str, ...]:
        """Give what leads straight to a node."""
        return tuple(dict.fromkeys(self._before[self.node(name).id]))

    def outputs(self, name: str) -> tuple[str, ...]:
        """Give what a node leads straight to."""
        return tuple(dict.fromkeys(self._after[self.node(name).id]))

    def ancestors(self, name: str) -> tuple[str, ...]:
        """Give everything a node comes from, the nearest first; the node itself is left out."""
        return self._reached(name, self._before)

    def descendants(self, name: str) -> tuple[str, ...]:
        """Give everything that comes from a node, the nearest first; without the node itself."""
        return self._reached(name, self._after)

    def path(self, start: str, end: str) -> tuple[str, ...]:
        """Give the shortest way between two nodes, along or against the links; empty for none.

        Of several that are as short, the one whose names come first.
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
        """Give the nodes level by level, each behind all it comes from; those in rings are left."""
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

    def rings(self) -> tuple[str, ...]:
        """Name the nodes that lead back to themselves."""
        return tuple(name for name in sorted(self.nodes) if self._leads_back(name))

    def value(self) -> dict[str, object]:
        """Give the graph as JSON shows it."""
        return {"version": "1.0", "nodes": list(self.nodes.values()), "edges": self.edges}

    def _reached(self, name: str, links: Mapping[str, list[str]]) -> tuple[str, ...]:
        seen = {self.node(name).id: None}
        waiting = deque([name])
        while waiting:
            for each in links[waiting.popleft()]:
                if each not in seen:
                    seen[each] = None
                    waiting.append(each)
        return tuple(seen)[1:]

    def _leads_back(self, name: str) -> bool:
        return name in self._after[name] or any(
            name in self._after[each] for each in self.descendants(name)
        )


def joined(graph: Graph, names: Iterable[str]) -> Graph:
    """Give the part of a graph that any of some nodes came from and led to."""
    kept = {
        each for name in names for each in (name, *graph.ancestors(name), *graph.descendants(name))
    }
    return Graph(
        [each for each in graph.nodes.values() if each.id in kept],
        [each for each in graph.edges if each.source in kept and each.target in kept],
    )
