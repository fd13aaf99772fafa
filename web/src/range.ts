/** The part of an entity's history that a page shows. */
export type Range = { kind: Preset } | { kind: "custom"; from: number; to: number };

export type Preset = "15m" | "1h" | "24h" | "7d" | "all";

export const presets: readonly { name: Preset; label: string; title: string }[] = [
  { name: "15m", label: "15 min", title: "the last 15 minutes" },
  { name: "1h", label: "1 h", title: "the last hour" },
  { name: "24h", label: "24 h", title: "the last 24 hours" },
  { name: "7d", label: "7 d", title: "the last 7 days" },
  { name: "all", label: "All", title: "all stored data" },
];

const spans: Record<Exclude<Preset, "all">, number> = {
  "15m": 15 * 60_000,
  "1h": 3_600_000,
  "24h": 86_400_000,
  "7d": 7 * 86_400_000,
};

/** What is known about an entity when a range is resolved, all in milliseconds. */
export interface Extent {
  now: number;
  /** Event time of the oldest reading: of all for "all", of those in the window for a followed preset. */
  oldest?: number;
  newest: number;
}

/** [from, to) in milliseconds; a live window moves with the clock and includes new readings. */
export interface TimeWindow {
  from: number;
  to: number;
  live: boolean;
}

/**
 * Resolves a range to times. Presets end now, or at a reading that is ahead of now (a replay that
 * runs faster than the clock). With follow, a preset that would be empty ends at the
 * newest reading instead (as in a replay of last year's file), and it starts no
 * earlier than its oldest reading: the first minute of a new sensor fills the chart, not its right edge.
 */
export function resolveRange(range: Range, extent: Extent, follow = false): TimeWindow {
  if (range.kind === "custom") return { from: range.from, to: range.to, live: false };
  const end = Math.max(extent.now, extent.newest + 1);
  if (range.kind === "all") {
    const oldest = extent.oldest ?? extent.newest;
    const old = extent.newest < extent.now - 3_600_000;
    const to = old ? extent.newest + 1 : end;
    return { from: Math.min(oldest, to - 60_000), to, live: true };
  }
  const span = spans[range.kind];
  const to = follow && extent.newest > 0 && extent.newest < extent.now - span ? extent.newest + 1 : end;
  const from = follow && extent.oldest !== undefined ? Math.max(to - span, Math.min(extent.oldest, to - 60_000)) : to - span;
  return { from, to, live: true };
}

/** The shortest preset that shows the newest reading. */
export function presetFor(age: number): Preset {
  for (const name of ["15m", "1h", "24h", "7d"] as const) {
    if (age < spans[name]) return name;
  }
  return "all";
}

const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400].map((s) => s * 1000);

/** The smallest round step (milliseconds) that divides a span into at most the given number of buckets. */
export function chooseStep(span: number, buckets: number): number {
  for (const step of steps) {
    if (span / step <= buckets) return step;
  }
  const day = 86_400_000;
  return Math.ceil(span / buckets / day) * day;
}

/** A step as the API takes it: whole hours, minutes or seconds. */
export function stepParameter(step: number): string {
  if (step % 3_600_000 === 0) return `${step / 3_600_000}h`;
  if (step % 60_000 === 0) return `${step / 60_000}m`;
  return `${Math.max(1, Math.round(step / 1000))}s`;
}

/** Formats a step. */
export function formatStep(step: number): string {
  if (step % 86_400_000 === 0) return `${step / 86_400_000} d`;
  if (step % 3_600_000 === 0) return `${step / 3_600_000} h`;
  if (step % 60_000 === 0) return `${step / 60_000} min`;
  return `${step / 1000} s`;
}
