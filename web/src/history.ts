import { api } from "./api";
import { chooseStep, stepParameter, type TimeWindow } from "./range";
import { fromAggregate, fromBuckets, fromPoints, type Series } from "./series";

/** Up to so many readings are drawn one by one; a chart a thousand pixels wide shows no more. */
const rawLimit = 1500;

/** About so many steps an aggregate has. */
const buckets = 360;

/** An aggregate that a person chose has fewer, so that it says something else than the readings. */
const chosenBuckets = 60;

/** Switches have no average: their changes are drawn, the newest so many. */
const switchLimit = 10_000;

/** When the oldest reading of these keys was, in milliseconds; undefined when there is none. */
export async function oldest(id: string, keys: readonly string[], signal: AbortSignal): Promise<number | undefined> {
  const pages = await Promise.all(keys.map((key) => api.points(id, key, { order: "asc", limit: 1 }, signal)));
  const times = pages.flatMap((page) => page.points[0]?.ts ?? []);
  return times.length > 0 ? Math.min(...times) : undefined;
}

/**
 * The history of a key in a window: the readings themselves while they are few, else averages with
 * their minima and maxima. Live windows are asked for with their whole last step and a little of the
 * future, for devices whose clocks are ahead. An aggregate that was chosen (agg) is shown however few the
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

/** Whether a live series has outgrown its form and should be loaded anew. */
export function outgrown(series: Series): boolean {
  return series.mode === "raw" && series.ts.length > rawLimit * 2;
}
