import { entityRoute } from "./route";
import type { Relation } from "./types";

const width = 380;
const boxWidth = 118;
const rowHeight = 46;
const boxHeight = 36;

/** The most neighbors drawn on each side. */
const shownNeighbors = 6;

/** The number of characters that fit into a box. */
const fitting = 16;

function cut(text: string): string {
  return text.length > fitting ? `${text.slice(0, fitting - 1)}…` : text;
}

interface Neighbor {
  id: string;
  label: string;
}

/** The entities at the other ends, once each, with the types of their relations. */
function neighbors(relations: readonly Relation[], end: "from" | "to"): Neighbor[] {
  const types = new Map<string, string[]>();
  for (const relation of relations) types.set(relation[end], [...(types.get(relation[end]) ?? []), relation.type]);
  return [...types].map(([id, all]) => ({ id, label: all.join(", ") }));
}

function Box({ neighbor, x, y }: { neighbor: Neighbor; x: number; y: number }) {
  return (
    <a href={entityRoute(neighbor.id)}>
      <title>{`${neighbor.label}: ${neighbor.id}`}</title>
      <rect x={x} y={y} width={boxWidth} height={boxHeight} rx="7" />
      <text x={x + boxWidth / 2} y={y + 15}>
        {cut(neighbor.id)}
      </text>
      <text class="graph-type" x={x + boxWidth / 2} y={y + 29}>
        {cut(neighbor.label)}
      </text>
    </a>
  );
}

/** The neighbors of an entity: sources of its relations on the left, targets on the right. */
export function RelationGraph({ id, relations }: { id: string; relations: readonly Relation[] }) {
  const before = neighbors(relations.filter((relation) => relation.to === id && relation.from !== id), "from");
  const after = neighbors(relations.filter((relation) => relation.from === id && relation.to !== id), "to");
  const rows = Math.min(shownNeighbors, Math.max(before.length, after.length, 1));
  const height = rows * rowHeight;
  const middle = height / 2;
  const right = width - boxWidth;
  const center = { from: width / 2 - 50, to: width / 2 + 50 };
  const place = (list: readonly Neighbor[], i: number): number => middle + (i - (Math.min(list.length, shownNeighbors) - 1) / 2) * rowHeight;
  const hidden = Math.max(0, before.length - shownNeighbors) + Math.max(0, after.length - shownNeighbors);
  return (
    <figure class="graph">
      <svg viewBox={`0 0 ${width} ${height}`} role="group" aria-label={`Relations of ${id}`}>
        <defs>
          <marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
            <path d="M0 0 8 4 0 8z" />
          </marker>
        </defs>
        {before.slice(0, shownNeighbors).map((neighbor, i) => (
          <line key={neighbor.id} x1={boxWidth} y1={place(before, i)} x2={center.from} y2={middle} marker-end="url(#arrow)" />
        ))}
        {after.slice(0, shownNeighbors).map((neighbor, i) => (
          <line key={neighbor.id} x1={center.to} y1={middle} x2={right} y2={place(after, i)} marker-end="url(#arrow)" />
        ))}
        {before.slice(0, shownNeighbors).map((neighbor, i) => (
          <Box key={neighbor.id} neighbor={neighbor} x={0} y={place(before, i) - boxHeight / 2} />
        ))}
        {after.slice(0, shownNeighbors).map((neighbor, i) => (
          <Box key={neighbor.id} neighbor={neighbor} x={right} y={place(after, i) - boxHeight / 2} />
        ))}
        <rect class="graph-center" x={center.from} y={middle - 16} width={center.to - center.from} height="32" rx="16" />
        <text class="graph-name" x={width / 2} y={middle + 4}>
          {id.length > 13 ? `${id.slice(0, 12)}…` : id}
        </text>
      </svg>
      {hidden > 0 && <figcaption class="hint">{hidden} more are in the list.</figcaption>}
    </figure>
  );
}
