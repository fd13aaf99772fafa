import assert from "node:assert/strict";
import { test } from "node:test";
import {
  formatAge,
  formatAverage,
  formatBytes,
  formatCount,
  formatLatency,
  formatNumber,
  formatPlural,
  formatTicks,
  formatUptime,
  formatValue,
  kindOf,
  numeric,
  toLocalInput,
} from "../src/format";

test("numbers are shown in full when whole and to six digits when not", () => {
  assert.equal(formatNumber(21.5), "21.5");
  assert.equal(formatNumber(0.00479298817650529), "0.00479299");
  assert.equal(formatNumber(1_451_649_600_512), "1,451,649,600,512");
  assert.equal(formatNumber(-0.25), "-0.25");
  assert.equal(formatNumber(1e21), "1.0000e+21");
  assert.equal(formatNumber(0), "0");
  assert.equal(formatNumber(9007199254740993n), "9,007,199,254,740,993");
});

test("averages have no more digits than their readings could have", () => {
  assert.equal(formatAverage(937.078), "937.1");
  assert.equal(formatAverage(46.3588), "46.36");
  assert.equal(formatAverage(35_746_629.31), "35,746,629.3");
  assert.equal(formatAverage(0.00479298), "0.004793");
});

test("counts become short without jumping at the edge of a unit", () => {
  assert.equal(formatCount(0), "0");
  assert.equal(formatCount(6.14), "6.1");
  assert.equal(formatCount(950), "950");
  assert.equal(formatCount(9_999), "9,999");
  assert.equal(formatCount(12_345), "12.3 k");
  assert.equal(formatCount(999_999), "1.0 M");
  assert.equal(formatCount(141_000_000), "141 M");
});

test("bytes and latencies carry their unit", () => {
  assert.equal(formatBytes(512), "512 B");
  assert.equal(formatBytes(64 << 20), "64.0 MiB");
  assert.equal(formatLatency(0.421), "0.42 ms");
  assert.equal(formatLatency(3.14), "3.1 ms");
  assert.equal(formatLatency(1_204), "1.20 s");
  assert.equal(formatLatency(0), "–");
});

test("ages have one unit and tell readings of the future", () => {
  assert.equal(formatAge(400), "now");
  assert.equal(formatAge(-3_000), "now");
  assert.equal(formatAge(-90_000), "1 min ahead");
  assert.equal(formatAge(59_999), "59 s");
  assert.equal(formatAge(60_000), "1 min");
  assert.equal(formatAge(47 * 3_600_000), "47 h");
  assert.equal(formatAge(49 * 3_600_000), "2 d");
  assert.equal(formatAge(11 * 365.25 * 86_400_000), "11 y");
});

test("uptimes have two units", () => {
  assert.equal(formatUptime(59_000), "59 s");
  assert.equal(formatUptime(61_000), "1 min 1 s");
  assert.equal(formatUptime(3 * 3_600_000 + 12 * 60_000), "3 h 12 min");
  assert.equal(formatUptime(75 * 3_600_000), "3 d 3 h");
});

test("values of every kind have a line and a kind", () => {
  assert.deepEqual([kindOf(1), kindOf(1n), kindOf(true), kindOf("a"), kindOf({}), kindOf(null), kindOf([1])], [
    "number",
    "number",
    "bool",
    "string",
    "json",
    "json",
    "json",
  ]);
  assert.equal(formatValue({ a: [1, 9007199254740993n] }), '{"a":[1,9007199254740993]}');
  assert.equal(formatValue(false), "false");
  assert.equal(formatValue("open"), "open");
});

test("only numbers and switches can be drawn", () => {
  assert.equal(numeric(true), 1);
  assert.equal(numeric(2n ** 60n), 2 ** 60);
  assert.equal(numeric("21"), undefined);
  assert.equal(numeric({ x: 1 }), undefined);
  assert.equal(numeric(Number.NaN), undefined);
});

test("ticks name the day where it begins, and first when it is not today", () => {
  const today = new Date(2026, 10, 21, 12).getTime();
  const at = (day: number, hour: number): number => new Date(2026, 10, day, hour).getTime() / 1000;
  assert.deepEqual(formatTicks([at(21, 9), at(21, 10)], 3600, today), ["09:00", "10:00"]);
  assert.deepEqual(formatTicks([at(20, 18), at(21, 0), at(21, 6)], 21_600, today), ["18:00\n20 Nov", "00:00\n21 Nov", "06:00"]);
  assert.deepEqual(formatTicks([at(20, 0), at(21, 0)], 86_400, today), ["20 Nov", "21 Nov"]);
  assert.deepEqual(formatTicks([at(21, 9)], 10, today), ["09:00:00"]);
});

test("a local input reads back as the same second, also in summer time", () => {
  for (const ms of [Date.UTC(2026, 6, 1, 12, 30, 5), Date.UTC(2026, 0, 1, 0, 0, 59)]) {
    assert.equal(new Date(toLocalInput(ms)).getTime(), ms);
  }
});

test("one thing is not plural", () => {
  assert.equal(formatPlural(1, "mapping"), "1 mapping");
  assert.equal(formatPlural(0, "mapping"), "0 mappings");
  assert.equal(formatPlural(1200, "entity", "entities"), "1,200 entities");
});
