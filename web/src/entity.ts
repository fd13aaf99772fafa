import type { LiveEntity } from "./answers";
import { numeric } from "./format";
import type { Change, Latest } from "./types";

/**
 * Applies a committed reading: each key keeps the newest value by event time, as the entity itself
 * does. The stream has no sequence: of equal times the one committed later, this one, is newer.
 */
export function applyChange(entity: LiveEntity, change: Change): LiveEntity {
  let latest: Record<string, Latest> | undefined;
  for (const [key, value] of Object.entries(change.values)) {
    const before = entity.latest[key];
    if (before && before.ts > change.ts) continue;
    latest ??= { ...entity.latest };
    latest[key] = { value, ts: change.ts, seq: (before?.seq ?? 0) + 1 };
  }
  return latest ? { ...entity, latest, updated_ms: Math.max(entity.updated_ms, change.ts) } : entity;
}

/** An entity of which only the first reading is known. */
export function newEntity(change: Change): LiveEntity {
  return applyChange({ id: change.entity, created_ms: change.committed_ms, updated_ms: change.ts, presence: { state: "unknown", connected: false }, latest: {} }, change);
}

/** Keys of values that can be drawn, in alphabetical order, measurements before switches. */
export function chartableKeys(entity: LiveEntity): string[] {
  const weight = (key: string): number => (typeof entity.latest[key]?.value === "boolean" ? 1 : 0);
  return Object.keys(entity.latest)
    .filter((key) => numeric(entity.latest[key]?.value ?? null) !== undefined)
    .sort((a, b) => weight(a) - weight(b) || (a < b ? -1 : 1));
}
