"""Why an execution path was taken: evaluations linked to their inputs and their targets.

Read from the ledger on every call; nothing else stores it. Node ids are
`artifact:<id>@<version>`, `value:<digest>`, `decision:<decision id>:<evaluation id>`, and
`target:<stage>`, within a run `target:<run>/<stage>`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from pointsman.kernel.instant import instant_text
from pointsman.workflows.branch_log import LogEntry
from pointsman.workflows.graph import Graph, GraphEdge, GraphNode


class Impact(Struct, frozen=True):
    """The nodes that a change of one node would affect."""

    changed: str
    affected: tuple[str, ...]
    affected_decisions: tuple[str, ...]
    affected_targets: tuple[str, ...]
    affected_workflows: tuple[str, ...]


def lineage_graph(entries: Iterable[LogEntry]) -> Graph:
    """Link recorded evaluations; equal names are one node."""
    nodes: dict[str, GraphNode] = {}
    edges: dict[tuple[str, str, str, str], GraphEdge] = {}
    runs: set[str] = set()
    for entry in entries:
        parts = list(_parts(entry))
        if entry.about.workflow_id not in runs:
            runs.add(entry.about.workflow_id)
            parts += _sensor_edges(entry, nodes)
        for part in parts:
            if isinstance(part, GraphNode):
                nodes.setdefault(part.id, part)
            else:
                edges.setdefault((part.source, part.target, part.type, part.label), part)
    return Graph(nodes.values(), edges.values())


def impact(graph: Graph, name: str) -> Impact:
    """Return the successors of a node, which a change of it would affect."""
    found = graph.descendants(name)
    kinds = {each: graph.nodes[each].type for each in found}
    decisions = [
        str(graph.nodes[n].metadata["decision_id"]) for n in found if kinds[n] == "decision"
    ]
    runs = [str(graph.nodes[n].metadata.get("workflow_id", "")) for n in (name, *found)]
    return Impact(
        name,
        found,
        tuple(dict.fromkeys(decisions)),
        tuple(each for each in found if kinds[each] == "target"),
        tuple(dict.fromkeys(each for each in runs if each)),
    )


def matching_nodes(graph: Graph, name: str) -> list[str]:
    """Return the nodes a name may mean: by id, evaluation, decision, artifact or stage."""
    exact = [name] if name in graph.nodes else []
    return exact or [
        each.id
        for each in graph.nodes.values()
        if name in {each.metadata.get(key) for key in _KEYS} or each.id.endswith(f":{name}")
    ]


_KEYS = ("evaluation_id", "decision_id", "artifact_id", "stage_id", "workflow_id")


def _parts(entry: LogEntry) -> Iterator[GraphNode | GraphEdge]:
    about, outcome = entry.about, entry.outcome
    name = f"decision:{outcome.decision_id}:{entry.id}"
    yield GraphNode(
        name,
        "decision",
        entry.decision.name,
        {
            "decision_id": outcome.decision_id,
            "evaluation_id": entry.id,
            "workflow_id": about.workflow_id,
            "stage_id": about.stage_id,
            "at": instant_text(entry.at),
            "status": "fresh",
            "transformation": "decision",
            "cached": entry.is_cached,
        },
    )
    for artifact in about.artifacts:
        kind, _, label = artifact.partition(":")
        yield GraphNode(artifact, kind, label, {"artifact_id": label.partition("@")[0]})
        yield GraphEdge(artifact, name, "derived")
    if about.workflow_id and about.stage_id:
        yield from _target(about.workflow_id, about.stage_id)
        yield GraphEdge(_target_name(about.workflow_id, about.stage_id), name, "derived")
    yield from _target_parts(entry, name)


def _sensor_edges(entry: LogEntry, nodes: Mapping[str, GraphNode]) -> Iterator[GraphEdge]:
    """Link the first decision of a run to the target of the sensor that began it."""
    event, _, target = entry.about.workflow_id.rpartition(".")
    source = _target_name(event, target)
    if event and source in nodes:
        yield GraphEdge(source, f"decision:{entry.outcome.decision_id}:{entry.id}", "derived")


def _target_parts(entry: LogEntry, name: str) -> Iterator[GraphNode | GraphEdge]:
    outcome, run = entry.outcome, entry.about.workflow_id
    is_moved = outcome.selected_targets != outcome.chosen_targets
    for place, target in enumerate(outcome.selected_targets):
        indexes, labels = outcome.selected_indexes, outcome.selected_labels
        index = None if is_moved or place >= len(indexes) else indexes[place]
        label = outcome.verdict if is_moved else labels[min(place, len(labels) - 1)]
        yield from _target(run, target)
        about: dict[str, object] = {
            "label": label, "case_index": index, "cached": entry.is_cached
        }  # fmt: skip
        yield GraphEdge(name, _target_name(run, target), "generated", label, about)


def _target(run: str, stage: str) -> Iterator[GraphNode]:
    about: dict[str, object] = {"stage_id": stage, "workflow_id": run}
    yield GraphNode(_target_name(run, stage), "target", stage, about)


def _target_name(run: str, stage: str) -> str:
    return f"target:{run}/{stage}" if run else f"target:{stage}"
