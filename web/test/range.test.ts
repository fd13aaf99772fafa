import assert from "node:assert/strict";
import { test } from "node:test";
import { freshness } from "../src/freshness";
import { chooseStep, formatStep, presetFor, resolveRange, stepParameter } from "../src/range";

const now = 1_700_000_000_000;
const minute = 60_000;

test("a preset ends now", () => {
  assert.deepEqual(resolveRange({ kind: "15m" }, { now, newest: now - 1000 }), { from: now - 15 * minute, to: now, live: true });
});

test("a preset reaches to a reading that is ahead of now", () => {
  const ahead = now + minute;
  assert.equal(resolveRange({ kind: "1h" }, { now, newest: ahead }).to, ahead + 1);
});

test("a followed preset without readings ends at the newest one, another one stays empty", () => {
  const newest = now - 365 * 86_400_000;
  assert.equal(resolveRange({ kind: "15m" }, { now, newest }, true).to, newest + 1);
  assert.equal(resolveRange({ kind: "15m" }, { now, newest }, false).to, now);
});

test("a followed preset begins at its oldest reading, but is at least a minute wide", () => {
  const width = (oldest: number): number => {
    const { from, to } = resolveRange({ kind: "15m" }, { now, newest: now - 1, oldest }, true);
    return to - from;
  };
  assert.equal(width(now - 5_000), minute);
  assert.equal(width(now - 3 * minute), 3 * minute);
  assert.equal(width(now - 60 * minute), 15 * minute);
});

test("everything begins at the oldest reading, and ends at the newest when that is long ago", () => {
  const oldest = now - 1_000_000_000;
  assert.deepEqual(resolveRange({ kind: "all" }, { now, newest: now, oldest }), { from: oldest, to: now + 1, live: true });
  assert.equal(resolveRange({ kind: "all" }, { now, newest: now - 3_700_000, oldest }).to, now - 3_700_000 + 1);
});

test("everything of a single reading is still a minute wide", () => {
  const window = resolveRange({ kind: "all" }, { now, newest: now, oldest: now });
  assert.equal(window.to - window.from, minute);
});

test("a custom range is fixed", () => {
  assert.deepEqual(resolveRange({ kind: "custom", from: 1, to: 9 }, { now, newest: now }), { from: 1, to: 9, live: false });
});

test("the first range shown is the shortest that has the newest reading", () => {
  assert.equal(presetFor(0), "15m");
  assert.equal(presetFor(-1000), "15m");
  assert.equal(presetFor(16 * minute), "1h");
  assert.equal(presetFor(3 * 86_400_000), "7d");
  assert.equal(presetFor(400 * 86_400_000), "all");
});

test("steps are the smallest readable ones that are few enough", () => {
  for (const span of [minute, 15 * minute, 3_600_000, 86_400_000, 7 * 86_400_000, 10 * 365 * 86_400_000]) {
    const step = chooseStep(span, 360);
    assert.ok(span / step <= 360, `${span} by ${step}`);
  }
  assert.equal(chooseStep(86_400_000, 360), 5 * minute);
  assert.equal(chooseStep(7 * 86_400_000, 360), 30 * minute);
  assert.equal(chooseStep(3 * 365 * 86_400_000, 360), 4 * 86_400_000);
});

test("a step is written as the API takes it and as people say it", () => {
  assert.equal(stepParameter(86_400_000), "24h");
  assert.equal(stepParameter(300_000), "5m");
  assert.equal(stepParameter(15_000), "15s");
  assert.equal(formatStep(86_400_000), "1 d");
  assert.equal(formatStep(1_800_000), "30 min");
});

test("freshness changes at a minute and at an hour", () => {
  assert.deepEqual([0, 59_999, 60_000, 3_599_999, 3_600_000].map(freshness), ["fresh", "fresh", "late", "late", "stale"]);
});
