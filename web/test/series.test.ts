import assert from "node:assert/strict";
import { test } from "node:test";
import { add, columns, fromBuckets, fromPoints, summarize, trim } from "../src/series";

test("points that cannot be drawn are left out", () => {
  const series = fromPoints([
    { ts: 1, value: 1 },
    { ts: 2, value: "off" },
    { ts: 3, value: true },
  ]);
  assert.deepEqual([series.ts, series.values], [
    [1, 3],
    [1, 1],
  ]);
});

test("late readings are put in their place, repeated ones replace", () => {
  const series = fromPoints([
    { ts: 10, value: 1 },
    { ts: 30, value: 3 },
  ]);
  add(series, 20, 2);
  add(series, 40, 4);
  add(series, 20, 2.5);
  add(series, 5, 0);
  assert.deepEqual(series.ts, [5, 10, 20, 30, 40]);
  assert.deepEqual(series.values, [0, 1, 2.5, 3, 4]);
});

test("a live aggregate equals the aggregate of all its readings", () => {
  const values = [3, 9, 1, 7, 7, 2];
  const live = fromBuckets([{ ts: 0, avg: 6, min: 3, max: 9, count: 2 }], 1000);
  for (const value of values.slice(2)) add(live, 500, value);
  add(live, 1700, 4);
  assert.deepEqual(live.ts, [0, 1000]);
  assert.equal(live.count[0], 6);
  assert.ok(Math.abs((live.avg[0] as number) - values.reduce((a, b) => a + b) / 6) < 1e-12);
  assert.deepEqual([live.min[0], live.max[0]], [1, 9]);
  assert.deepEqual([live.avg[1], live.min[1], live.max[1], live.count[1]], [4, 4, 4, 1]);
});

test("empty buckets are no buckets", () => {
  assert.deepEqual(fromBuckets([{ ts: 0, avg: 0, min: 0, max: 0, count: 0 }], 1000).ts, []);
});

test("trimming keeps the reading before the window", () => {
  const series = fromPoints([10, 20, 30, 40].map((ts) => ({ ts, value: ts })));
  trim(series, 30);
  assert.deepEqual(series.ts, [20, 30, 40]);
  trim(series, 5);
  assert.deepEqual(series.ts, [20, 30, 40]);
  trim(series, 100);
  assert.deepEqual(series.ts, [40]);
});

test("a silence is a gap in the line, an ordinary pause is not", () => {
  const times = [...Array.from({ length: 20 }, (_, i) => i * 1000), 15 * 60_000, 15 * 60_000 + 1000];
  const [xs, ys] = columns(fromPoints(times.map((ts) => ({ ts, value: 1 }))));
  assert.equal(ys?.filter((y) => y === null).length, 1);
  assert.equal(ys?.[20], null);
  assert.deepEqual(xs, [...(xs ?? [])].sort((a, b) => (a ?? 0) - (b ?? 0)), "times must ascend");
});

test("aggregates are drawn in the middle of their step and break where steps are missing", () => {
  const bucket = (ts: number) => ({ ts, avg: 2, min: 1, max: 3, count: 5 });
  const [xs, avg, min, max] = columns(fromBuckets([bucket(0), bucket(1000), bucket(9000)], 1000));
  assert.deepEqual(avg, [2, 2, null, 2]);
  assert.deepEqual([min, max], [
    [1, 1, null, 1],
    [3, 3, null, 3],
  ]);
  assert.equal(xs?.[0], 0.5);
});

test("a summary covers the band and counts readings, not steps", () => {
  const series = fromBuckets(
    [
      { ts: 0, avg: 2, min: 1, max: 3, count: 5 },
      { ts: 1, avg: 4, min: 3, max: 8, count: 2 },
    ],
    1,
  );
  assert.deepEqual(summarize(series), { count: 7, min: 1, max: 8, last: 4 });
  assert.equal(summarize(fromPoints([])), null);
});
