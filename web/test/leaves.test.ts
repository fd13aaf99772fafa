import assert from "node:assert/strict";
import { test } from "node:test";
import { completed, offsetOf } from "../src/completion";
import { leaves, times, twins } from "../src/leaves";
import { fromAggregate, grows } from "../src/series";

test("leaves are found by path, arrays and empty objects are leaves", () => {
  const document = { b: { c: 1, a: { x: null } }, list: [1, { y: 2 }], none: {} };
  assert.deepEqual(
    leaves(document).map(({ path }) => path),
    ["b.a.x", "b.c", "list", "none"],
  );
});

test("the times of leaves are milliseconds, also of a leaf that is named timestamp", () => {
  const metadata = { floor: { timestamp: 5 }, vendor: { name: { timestamp: 6 }, timestamp: { timestamp: 7 } } };
  assert.deepEqual([...times(metadata)], [["floor", 5000], ["vendor.name", 6000], ["vendor.timestamp", 7000]]);
});

test("desired and reported stand side by side, and what differs is what the server says", () => {
  assert.deepEqual(twins({ a: 1, b: { c: 2 } }, { a: 1, z: true }, { b: { c: 2 } }), [
    { path: "a", desired: 1, reported: 1, differs: false },
    { path: "b.c", desired: 2, differs: true },
    { path: "z", reported: true, differs: false },
  ]);
});

test("a suggestion takes its place in bytes, whatever is before and after it", () => {
  assert.equal(offsetOf("°C temp", 7), 8);
  assert.deepEqual(completed("ü = te and x", { from: 5, to: 7 }, "temp"), { value: "ü = temp and x", cursor: 8 });
  assert.deepEqual(completed("ag", { from: 0, to: 2 }, "age("), { value: "age(", cursor: 4 });
  assert.deepEqual(completed("te", { from: 0, to: 2 }, "temp"), { value: "temp ", cursor: 5 });
});

test("a chosen aggregate leaves out steps without a value and does not grow by readings", () => {
  const series = fromAggregate([{ ts: 0, p95: 3, count: 4 }, { ts: 10, p95: null, count: 0 }], "p95", 10);
  assert.deepEqual([series.ts, series.avg, series.count], [[0], [3], [4]]);
  assert.equal(grows(series), false);
});
