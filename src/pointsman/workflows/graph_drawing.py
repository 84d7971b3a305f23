"""Graphs as pictures and texts: mermaid, dot, JSON and SVG, the same bytes for the same graph."""

from __future__ import annotations

from html import escape

import msgspec

from pointsman.kernel.document import printable
from pointsman.workflows.graph import Graph, GraphNode

FORMATS = ("mermaid", "dot", "json", "svg")

BOX_WIDTH, BOX_HEIGHT = 190, 44
GAP_X, GAP_Y = 40, 56
MARGIN = 20
MOST_LETTERS = 26

_FILLS = {
    "artifact": "#e8f0fe",
    "value": "#e8f0fe",
    "decision": "#fff4d6",
    "target": "#e6f4ea",
    "stage": "#e6f4ea",
    "workflow": "#f3e8fd",
}
_OTHER = "#f1f3f4"
_ARROW = (
    '<defs><marker id="end" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" '
    'orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="#5f6368"/></marker></defs>'
)
_SHAPES = {"decision": ("{{", "}}"), "artifact": ("([", "])"), "value": ("([", "])")}


def draw(graph: Graph, form: str) -> str:
    """Draw a graph."""
    return {"mermaid": mermaid, "dot": dot, "json": as_json, "svg": svg}[form](graph)


def mermaid(graph: Graph) -> str:
    """Write a graph for mermaid."""
    names = _node_names(graph)
    lines = ["flowchart TD"]
    for node in graph.nodes.values():
        opening, end = _SHAPES.get(node.type, ("[", "]"))
        lines.append(f'  {names[node.id]}{opening}"{_mermaid_text(node.label)}"{end}')
    for edge in graph.edges:
        label = f'|"{_mermaid_text(edge.label)}"|' if edge.label else ""
        lines.append(f"  {names[edge.source]} -->{label} {names[edge.target]}")
    return "\n".join(lines)


def dot(graph: Graph) -> str:
    """Write a graph for Graphviz."""
    lines = ["digraph pointsman {", "  rankdir=TB;", '  node [shape=box, style="rounded,filled"];']
    for node in graph.nodes.values():
        fill = _FILLS.get(node.type, _OTHER)
        lines.append(f'  {_quote(node.id)} [label={_quote(node.label)}, fillcolor="{fill}"];')
    for edge in graph.edges:
        label = f" [label={_quote(edge.label)}]" if edge.label else ""
        lines.append(f"  {_quote(edge.source)} -> {_quote(edge.target)}{label};")
    return "\n".join([*lines, "}"])


def as_json(graph: Graph) -> str:
    """Write a graph as JSON."""
    return msgspec.json.format(msgspec.json.encode(graph.value()), indent=2).decode()


def svg(graph: Graph) -> str:
    """Draw a graph: boxes level by level, from the top down. Nothing but this text is needed."""
    places = _places(graph)
    width = max((x for x, _ in places.values()), default=0) + BOX_WIDTH + MARGIN
    height = max((y for _, y in places.values()), default=0) + BOX_HEIGHT + MARGIN
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    font = 'font-family="sans-serif" font-size="12"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font}>', _ARROW]
    for edge in graph.edges:
        parts += _line(places[edge.source], places[edge.target], edge.label)
    for node in graph.nodes.values():
        parts += _box(places[node.id], node)
    return "\n".join([*parts, "</svg>"])


def _places(graph: Graph) -> dict[str, tuple[int, int]]:
    """Return every node's place: its level down, its place in the level across."""
    levels = [list(each) for each in graph.levels()]
    seen = {name for level in levels for name in level}
    rest = [name for name in graph.nodes if name not in seen]
    # A node in a cycle has no level of its own: one row a node, below the others.
    levels += [[name] for name in rest]
    places = {}
    for row, level in enumerate(levels):
        for column, name in enumerate(level):
            x = MARGIN + column * (BOX_WIDTH + GAP_X)
            places[name] = (x, MARGIN + row * (BOX_HEIGHT + GAP_Y))
    return places


def _line(start: tuple[int, int], end: tuple[int, int], label: str) -> list[str]:
    x1, y1 = start[0] + BOX_WIDTH // 2, start[1] + BOX_HEIGHT
    x2, y2 = end[0] + BOX_WIDTH // 2, end[1]
    if y2 < y1:
        # Back up: along the right-hand sides.
        x1, y1 = start[0] + BOX_WIDTH, start[1] + BOX_HEIGHT // 2
        x2, y2 = end[0] + BOX_WIDTH, end[1] + BOX_HEIGHT // 2
        middle = f"C{x1 + GAP_X} {y1} {x2 + GAP_X} {y2}"
    else:
        middle = f"C{x1} {y1 + GAP_Y // 2} {x2} {y2 - GAP_Y // 2}"
    path = f"M{x1} {y1} {middle} {x2} {y2}"
    parts = [f'<path d="{path}" fill="none" stroke="#5f6368" marker-end="url(#end)"/>']
    if label:
        at = f'x="{(x1 + x2) // 2}" y="{(y1 + y2) // 2}"'
        parts.append(f'<text {at} text-anchor="middle" fill="#5f6368">{_label_text(label)}</text>')
    return parts


def _box(place: tuple[int, int], node: GraphNode) -> list[str]:
    x, y = place
    fill = _FILLS.get(node.type, _OTHER)
    middle = f'x="{x + BOX_WIDTH // 2}" text-anchor="middle"'
    size = f'x="{x}" y="{y}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}"'
    small = 'fill="#5f6368" font-size="10"'
    return [
        f"<g><title>{escape(printable(node.id))}</title>",
        f'<rect {size} rx="8" fill="{fill}" stroke="#5f6368"/>',
        f'<text y="{y + 19}" {middle}>{_label_text(node.label)}</text>',
        f'<text y="{y + 35}" {middle} {small}>{_label_text(node.type)}</text></g>',
    ]


def _node_names(graph: Graph) -> dict[str, str]:
    return {name: f"n{number}" for number, name in enumerate(graph.nodes)}


def _mermaid_text(text: str) -> str:
    return printable(text).replace("&", "#amp;").replace('"', "#quot;").replace("<", "#lt;")


def _quote(text: str) -> str:
    return '"' + printable(text).replace("\\", "\\\\").replace('"', '\\"') + '"'


def _label_text(text: str) -> str:
    plain = printable(text)
    return escape(plain if len(plain) <= MOST_LETTERS else plain[: MOST_LETTERS - 1] + "…")
