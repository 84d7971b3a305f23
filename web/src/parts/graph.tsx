/** A directed graph in levels, from left to right, as inline SVG. */
import type { Graph } from "../types";

const WIDE = 168;
const HIGH = 38;
const GAP_X = 64;
const GAP_Y = 16;
const LETTERS = 24;

interface Place {
  x: number;
  y: number;
}

function levelsOf(graph: Graph): string[][] {
  const before = new Map(graph.nodes.map((node) => [node.id, new Set<string>()]));
  for (const edge of graph.edges) {
    if (edge.source !== edge.target) before.get(edge.target)?.add(edge.source);
  }
  const left = new Map([...before].map(([id, sources]) => [id, sources.size]));
  const levels: string[][] = [];
  let level = [...left].filter(([, many]) => many === 0).map(([id]) => id);
  const seen = new Set<string>();
  while (level.length > 0) {
    levels.push(level);
    level.forEach((id) => seen.add(id));
    const next = new Set<string>();
    for (const edge of graph.edges) {
      if (!level.includes(edge.source) || seen.has(edge.target)) continue;
      const sources = before.get(edge.target);
      if (sources && [...sources].every((id) => seen.has(id))) next.add(edge.target);
    }
    level = [...next];
  }
  const ringed = graph.nodes.map((node) => node.id).filter((id) => !seen.has(id));
  if (ringed.length > 0) levels.push(ringed);
  return levels;
}

function placesOf(graph: Graph): Map<string, Place> {
  const places = new Map<string, Place>();
  levelsOf(graph).forEach((level, column) =>
    level.forEach((id, row) => places.set(id, { x: column * (WIDE + GAP_X), y: row * (HIGH + GAP_Y) })),
  );
  return places;
}

function fitted(text: string): string {
  return text.length <= LETTERS ? text : `${text.slice(0, LETTERS - 1)}…`;
}

export function GraphView({ graph, label, tone }: {
  graph: Graph;
  label: string;
  tone?: (id: string) => string;
}) {
  const places = placesOf(graph);
  const at = [...places.values()];
  const width = Math.max(...at.map((each) => each.x), 0) + WIDE + 4;
  const height = Math.max(...at.map((each) => each.y), 0) + HIGH + 4;
  return (
    <div class="scroll graph" tabIndex={0} role="group" aria-label={label}>
      <svg width={width} height={height} viewBox={`-2 -2 ${width} ${height}`} role="img" aria-label={label}>
        {graph.edges.map((edge, index) => {
          const from = places.get(edge.source);
          const to = places.get(edge.target);
          if (!from || !to) return null;
          const x1 = from.x + WIDE;
          const y1 = from.y + HIGH / 2;
          const y2 = to.y + HIGH / 2;
          const middle = (x1 + to.x) / 2;
          return (
            <g key={index} class={`edge ${edge.type}`}>
              <path d={`M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${to.x} ${y2}`} />
              {edge.label && (
                <text x={middle} y={(y1 + y2) / 2 - 4} text-anchor="middle">
                  {fitted(edge.label)}
                </text>
              )}
            </g>
          );
        })}
        {graph.nodes.map((node) => {
          const place = places.get(node.id);
          if (!place) return null;
          return (
            <g key={node.id} class={`node ${node.type} ${tone?.(node.id) ?? ""}`}>
              <title>{node.id}</title>
              <rect x={place.x} y={place.y} width={WIDE} height={HIGH} rx="6" />
              <text x={place.x + 10} y={place.y + 16}>
                {fitted(node.label)}
              </text>
              <text class="kind" x={place.x + 10} y={place.y + 30}>
                {fitted(String(node.metadata.note ?? node.type))}
              </text>
            </g>
          );
        })}
      </svg>
    </div>
  );
}
