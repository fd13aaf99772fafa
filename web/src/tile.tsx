import type { ComponentChildren } from "preact";

/** One number of an overview: label, value, and optionally a note. */
export function Tile({ label, value, note, alarm }: { label: string; value: string; note?: ComponentChildren; alarm?: boolean }) {
  return (
    <div class={alarm ? "tile alarm" : "tile"}>
      <dt>{label}</dt>
      <dd>
        <span class="tile-value">{value}</span>
        {note !== undefined && <span class="tile-note">{note}</span>}
      </dd>
    </div>
  );
}
