import { api } from "./api";
import { chooseStep, stepParameter, type TimeWindow } from "./range";
import { fromAggregate, fromBuckets, fromPoints, type Series } from "./series";

/** The most readings that are drawn one by one; a chart a thousand pixels wide cannot show more. */
const rawLimit = 1500;

/** The approximate number of steps of an aggregate. */
const buckets = 360;

/** An aggregate chosen by the user has fewer, so that it differs from the readings. */
const chosenBuckets = 60;

/** Switches have no average; the most recent changes are drawn, at most this many. */
const switchLimit = 10_000;

/** The time of the oldest reading of these keys in milliseconds; undefined if there is none. */
export async function oldest(id: string, keys: readonly string[], signal: AbortSignal): Promise<number | undefined> {
  const pages = await Promise.all(keys.map((key) => api.points(id, key, { order: "asc", limit: 1 }, signal)));
  const times = pages.flatMap((page) => page.points[0]?.ts ?? []);
  return times.length > 0 ? Math.min(...times) : undefined;
}

/**
 * The history of a key in a window: raw readings if there are few, else averages with
 * minima and maxima. Live windows are requested with their whole last step and a little of the
 * future, for devices whose clocks are ahead. A chosen aggregate (agg) is shown however few the
 * readings are; switches have none.
 */
export async function loadSeries(id: string, key: string, window: TimeWindow, isSwitch: boolean, agg: string, signal: AbortSignal): Promise<Series> {
  const from = Math.floor(window.from);
  const to = Math.ceil(window.to) + (window.live ? 5_000 : 0);
  if (isSwitch) {
    const page = await api.points(id, key, { from, to, order: "desc", limit: switchLimit }, signal);
    return fromPoints(page.points.reverse(), page.next !== undefined);
  }
  if (agg !== "") {
    const step = chooseStep(to - from, chosenBuckets);
    const functions = agg === "count" ? agg : `${agg},count`;
    const answer = await api.aggregate(id, key, functions, { from: Math.floor(from / step) * step, to, step: stepParameter(step) }, signal);
    return fromAggregate(answer.buckets, agg, answer.step_ms);
  }
  const page = await api.points(id, key, { from, to, order: "asc", limit: rawLimit }, signal);
  if (page.next === undefined) return fromPoints(page.points);
  const step = chooseStep(to - from, buckets);
  const answer = await api.buckets(id, key, { from: Math.floor(from / step) * step, to, step: stepParameter(step) }, signal);
  return fromBuckets(answer.buckets, answer.step_ms);
}

/** Reports whether a live series has become too long for its form and should be loaded again. */
export function outgrown(series: Series): boolean {
  return series.mode === "raw" && series.ts.length > rawLimit * 2;
}
