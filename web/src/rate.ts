/** A monotonic counter at a time (milliseconds of the server's clock). */
export interface Observation {
  at: number;
  count: number;
}

/**
 * The rate per second between two observations; undefined if there is nothing to compare, or if the
 * counter went back, which means that its source was restarted.
 */
export function perSecond(before: Observation | undefined, after: Observation): number | undefined {
  if (!before || after.at <= before.at || after.count < before.count) return undefined;
  return ((after.count - before.count) * 1000) / (after.at - before.at);
}

/**
 * Appends an observation and removes those before the window except one, so that a rate over the whole
 * window can be computed from the first to the last. A counter that went back starts a new list.
 */
export function observe(past: readonly Observation[], next: Observation, window: number): Observation[] {
  const last = past[past.length - 1];
  if (last && (next.count < last.count || next.at < last.at)) return [next];
  const first = past.findLastIndex((observation) => observation.at <= next.at - window);
  const kept = past.slice(Math.max(0, first));
  return last?.at === next.at ? [...kept.slice(0, -1), next] : [...kept, next];
}
