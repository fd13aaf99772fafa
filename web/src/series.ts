import type { ChartBucket } from "./answers";
import { numeric } from "./format";
import type { Bucket, Point } from "./types";

/** Readings as they were sent, oldest first. truncated: older ones of the window were left out. */
export interface RawSeries {
  mode: "raw";
  ts: number[];
  values: number[];
  truncated: boolean;
}

/** Readings aggregated by step; each array has one element per step that has readings. */
export interface AggregateSeries {
  mode: "aggregate";
  /** What avg holds: averages with a band from min to max, or another aggregate alone. */
  of: string;
  step: number;
  ts: number[];
  avg: number[];
  min: number[];
  max: number[];
  count: number[];
}

export type Series = RawSeries | AggregateSeries;

/** Makes a series of points, oldest first, without those that cannot be drawn. */
export function fromPoints(points: readonly Point[], truncated = false): RawSeries {
  const series: RawSeries = { mode: "raw", ts: [], values: [], truncated };
  for (const point of points) {
    const value = numeric(point.value);
    if (value === undefined) continue;
    series.ts.push(point.ts);
    series.values.push(value);
  }
  return series;
}

export function fromBuckets(buckets: readonly ChartBucket[], step: number): AggregateSeries {
  const series: AggregateSeries = { mode: "aggregate", of: "avg", step, ts: [], avg: [], min: [], max: [], count: [] };
  for (const bucket of buckets) {
    if (!(bucket.count > 0)) continue;
    series.ts.push(bucket.ts);
    series.avg.push(bucket.avg);
    series.min.push(bucket.min);
    series.max.push(bucket.max);
    series.count.push(bucket.count);
  }
  return series;
}

/** An aggregate chosen by the user; steps without a value are omitted. */
export function fromAggregate(buckets: readonly Bucket[], of: string, step: number): AggregateSeries {
  const series: AggregateSeries = { mode: "aggregate", of, step, ts: [], avg: [], min: [], max: [], count: [] };
  for (const bucket of buckets) {
    const value = bucket[of];
    if (typeof value !== "number" || !((bucket["count"] ?? 0) > 0)) continue;
    series.ts.push(bucket.ts);
    for (const column of [series.avg, series.min, series.max]) column.push(value);
    series.count.push(bucket["count"] ?? 0);
  }
  return series;
}

/** Reports whether single readings can be added, which only averages allow. */
export function grows(series: Series): boolean {
  return series.mode === "raw" || series.of === "avg";
}

/** The first index whose time is at least ts. */
function position(times: readonly number[], ts: number): number {
  let low = 0;
  let high = times.length;
  if (high === 0 || (times[high - 1] as number) < ts) return high; // readings nearly always arrive in order
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((times[middle] as number) < ts) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Inserts a reading into the series in place. A reading with the same time is replaced. */
export function add(series: Series, ts: number, value: number): void {
  if (series.mode === "raw") {
    const at = position(series.ts, ts);
    if (series.ts[at] === ts) {
      series.values[at] = value;
    } else if (at === series.ts.length) {
      series.ts.push(ts);
      series.values.push(value);
    } else {
      series.ts.splice(at, 0, ts);
      series.values.splice(at, 0, value);
    }
    return;
  }
  const start = Math.floor(ts / series.step) * series.step;
  const at = position(series.ts, start);
  if (series.ts[at] !== start) {
    series.ts.splice(at, 0, start);
    for (const column of [series.avg, series.min, series.max]) column.splice(at, 0, value);
    series.count.splice(at, 0, 1);
    return;
  }
  const count = (series.count[at] ?? 0) + 1;
  const avg = series.avg[at] ?? value;
  series.count[at] = count;
  series.avg[at] = avg + (value - avg) / count;
  series.min[at] = Math.min(series.min[at] ?? value, value);
  series.max[at] = Math.max(series.max[at] ?? value, value);
}

/** Removes points before a time except the last of them, so that a line still enters the window from the left. */
export function trim(series: Series, from: number): void {
  const cut = position(series.ts, from) - 1;
  if (cut <= 0) return;
  const columns = series.mode === "raw" ? [series.ts, series.values] : [series.ts, series.avg, series.min, series.max, series.count];
  for (const column of columns) column.splice(0, cut);
}

export type Column = (number | null)[];

/**
 * Columns for the chart: times in seconds, then the line, then (aggregates) minimum and maximum.
 * A long interval without readings is a gap: a straight line across it would be invented data.
 */
export function columns(series: Series): Column[] {
  const half = series.mode === "aggregate" ? series.step / 2 : 0; // a bucket is drawn at its center
  const sources = series.mode === "raw" ? [series.values] : series.of === "avg" ? [series.avg, series.min, series.max] : [series.avg];
  const gap = series.mode === "raw" ? silence(series.ts) : series.step * 2.5;
  const out: Column[] = [[], ...sources.map((): Column => [])];
  let previous = Number.NaN;
  for (let i = 0; i < series.ts.length; i++) {
    const ts = series.ts[i] as number;
    if (ts - previous > gap) {
      (out[0] as Column).push((previous + half + 1) / 1000);
      for (let c = 1; c < out.length; c++) (out[c] as Column).push(null);
    }
    (out[0] as Column).push((ts + half) / 1000);
    for (let c = 0; c < sources.length; c++) (out[c + 1] as Column).push(sources[c]?.[i] ?? null);
    previous = ts;
  }
  return out;
}

/** How long a gap between readings must be to interrupt the line: well above the usual interval. */
function silence(times: readonly number[]): number {
  if (times.length < 4) return Number.POSITIVE_INFINITY;
  const pauses: number[] = [];
  const stride = Math.max(1, Math.floor(times.length / 200));
  for (let i = 1; i < times.length; i += stride) pauses.push((times[i] as number) - (times[i - 1] as number));
  pauses.sort((a, b) => a - b);
  const usual = pauses[Math.floor(pauses.length * 0.75)] ?? 0;
  return Math.max(usual * 8, 10_000);
}

export interface Summary {
  count: number;
  min: number;
  max: number;
  last: number;
}

/** Describes a series in words, for its caption and for screen readers. */
export function summarize(series: Series): Summary | null {
  const lows = series.mode === "raw" ? series.values : series.min;
  const highs = series.mode === "raw" ? series.values : series.max;
  const lasts = series.mode === "raw" ? series.values : series.avg;
  if (lows.length === 0) return null;
  let min = Number.POSITIVE_INFINITY;
  let max = Number.NEGATIVE_INFINITY;
  for (const value of lows) min = Math.min(min, value);
  for (const value of highs) max = Math.max(max, value);
  const count = series.mode === "raw" ? lows.length : series.count.reduce((sum, n) => sum + n, 0);
  return { count, min, max, last: lasts[lasts.length - 1] as number };
}
