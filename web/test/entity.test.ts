import assert from "node:assert/strict";
import { test } from "node:test";
import type { LiveEntity } from "../src/answers";
import { applyChange, chartableKeys, newEntity } from "../src/entity";
import { applyPresence, presenceText } from "../src/presence";
import { sparkPoints } from "../src/sparkline";

const boiler: LiveEntity = {
  id: "boiler",
  created_ms: 1,
  presence: { state: "online", connected: true, since_ms: 500 },
  updated_ms: 100,
  latest: { temperature: { value: 20, ts: 100, seq: 4 }, open: { value: true, ts: 50, seq: 1 }, mode: { value: "eco", ts: 1, seq: 1 } },
};

test("a newer reading changes its keys only", () => {
  const after = applyChange(boiler, { entity: "boiler", ts: 200, values: { temperature: 21 }, committed_ms: 201 });
  assert.equal(after.latest["temperature"]?.value, 21);
  assert.equal(after.updated_ms, 200);
  assert.equal(after.latest["open"], boiler.latest["open"]);
  assert.equal(boiler.latest["temperature"]?.value, 20, "the old state must not change");
});

test("a late reading changes nothing that is newer", () => {
  const after = applyChange(boiler, { entity: "boiler", ts: 70, values: { temperature: 3, open: false }, committed_ms: 201 });
  assert.equal(after.latest["temperature"]?.value, 20);
  assert.equal(after.latest["open"]?.value, false);
  assert.equal(after.updated_ms, 100);
  assert.equal(applyChange(boiler, { entity: "boiler", ts: 0, values: { mode: "x" }, committed_ms: 9 }), boiler);
});

test("of equal times the later commit counts", () => {
  assert.equal(applyChange(boiler, { entity: "boiler", ts: 100, values: { temperature: 5 }, committed_ms: 9 }).latest["temperature"]?.value, 5);
});

test("the first reading makes an entity", () => {
  assert.deepEqual(newEntity({ entity: "a", ts: 5, values: { x: 1 }, committed_ms: 7 }), {
    id: "a",
    created_ms: 7,
    updated_ms: 5,
    presence: { state: "unknown", connected: false },
    latest: { x: { value: 1, ts: 5, seq: 1 } },
  });
});

test("numbers can be drawn, then switches, texts not", () => {
  assert.deepEqual(chartableKeys(boiler), ["temperature", "open"]);
});

test("a sparkline ends at the right edge and stays in its box", () => {
  const points = sparkPoints([1, 5, 3], 40).split(" ");
  assert.equal(points.length, 3);
  assert.match(points[2] as string, /^96\.0,/);
  for (const point of points) {
    const y = Number(point.split(",")[1]);
    assert.ok(y >= 3 && y <= 21, point);
  }
  assert.equal(sparkPoints([4], 40), "");
  assert.match(sparkPoints([4, 4], 40), /,12\.0 .*,12\.0$/);
});

test("a presence is said in words", () => {
  const at = Date.UTC(2026, 0, 2, 12);
  assert.equal(presenceText({ state: "unknown", connected: false }, at), "never seen");
  assert.match(presenceText({ state: "online", connected: true, since_ms: at - 60_000 }, at), /^online since .*, connected$/);
  assert.match(presenceText({ state: "online", connected: false, since_ms: at - 60_000 }, at), /^online since [^,]*$/);
  assert.match(presenceText({ state: "offline", connected: false, since_ms: at - 60_000, seen_ms: at - 120_000 }, at), /^offline, last seen 2 ?min.* ago$/);
  assert.match(presenceText({ state: "offline", connected: false, since_ms: at - 60_000 }, at), /^offline since /);
});

test("an event that is older than what was fetched says nothing", () => {
  const event = { entity: "boiler", ts: 600, committed_ms: 601, presence: { state: "offline" as const, connected: false, since_ms: 600 } };
  assert.equal(applyPresence(boiler, event).presence.state, "offline");
  assert.equal(applyPresence(boiler, { ...event, presence: { ...event.presence, since_ms: 400 } }), boiler);
});
