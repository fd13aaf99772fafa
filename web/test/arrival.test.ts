import assert from "node:assert/strict";
import { test } from "node:test";
import { arrivalOf, type Seen } from "../src/arrival";

const none = { attributes: {}, desired: {}, delta: {} };

function seen(latest: Seen["latest"], reported: Seen["reported"] = {}, at = 0): Seen {
  return { latest, reported, metadata: { ...none, reported: Object.fromEntries(Object.keys(reported).map((key) => [key, { timestamp: at }])) } };
}

test("the newest of what has arrived is shown", () => {
  const before = seen({ t: { ts: 1000, seq: 1, value: 20 }, h: { ts: 1000, seq: 1, value: 50 } });
  assert.equal(arrivalOf(before, before), null);
  assert.equal(arrivalOf(null, null), null);
  assert.deepEqual(arrivalOf(before, seen({ t: { ts: 3000, seq: 3, value: 21 }, h: { ts: 2000, seq: 2, value: 51 } })), { key: "t", value: 21, ts: 3000 });
  assert.deepEqual(arrivalOf(null, before), { key: "t", value: 20, ts: 1000 });
});

test("the same value at another time has arrived, too", () => {
  const before = seen({ t: { ts: 1000, seq: 1, value: 20 } });
  assert.deepEqual(arrivalOf(before, seen({ t: { ts: 1001, seq: 2, value: 20 } })), { key: "t", value: 20, ts: 1001 });
  assert.deepEqual(arrivalOf(before, seen({ t: { ts: 1000, seq: 0, value: 20 } })), { key: "t", value: 20, ts: 1000 });
});

test("what a device reports of itself has arrived", () => {
  const before = seen({}, { fw: "1" }, 5);
  assert.equal(arrivalOf(before, seen({}, { fw: "1" }, 5)), null);
  assert.deepEqual(arrivalOf(before, seen({}, { fw: "1" }, 6)), { key: "fw", value: "1", ts: 0 });
  assert.deepEqual(arrivalOf(null, seen({}, { fw: "1" }, 5)), { key: "fw", value: "1", ts: 0 });
});
