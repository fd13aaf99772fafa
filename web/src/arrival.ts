import { type Json, stringifyJSON } from "./json";
import type { JsonObject, Latest, Metadata } from "./types";

/** The parts of an entity that show whether something has arrived. */
export interface Seen {
  latest: Record<string, Latest>;
  reported: JsonObject;
  metadata: Metadata;
}

/** Something that a device has sent. */
export interface Arrival {
  key: string;
  value: Json;
  /** When it was measured; 0 for reported state, which has no time of its own. */
  ts: number;
}

/** What an entity has now and did not have before, newest reading first; null for nothing. */
export function arrivalOf(before: Seen | null, after: Seen | null): Arrival | null {
  if (!after) return null;
  let newest: Arrival | null = null;
  for (const [key, { value, ts, seq }] of Object.entries(after.latest)) {
    const had = before?.latest[key];
    if (had?.ts === ts && had.seq === seq && stringifyJSON(had.value as Json) === stringifyJSON(value as Json)) continue;
    if (!newest || ts > newest.ts) newest = { key, value: value as Json, ts };
  }
  if (newest) return newest;
  for (const [key, value] of Object.entries(after.reported)) {
    const said = (seen: Seen | null): string => stringifyJSON([seen?.reported[key] ?? null, seen?.metadata.reported[key] ?? null] as Json);
    if (said(before) !== said(after)) return { key, value: value as Json, ts: 0 };
  }
  return null;
}
