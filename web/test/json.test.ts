import assert from "node:assert/strict";
import { test } from "node:test";
import { parseJSON, stringifyJSON } from "../src/json";

// The reviver's third argument came with V8 11.4; node 20 has an older one, browsers have had it since 2023.
let hasSource = false;
JSON.parse("1", function (this: unknown, ...args: unknown[]) {
  hasSource = (args[2] as { source?: string } | undefined)?.source === "1";
  return args[1];
} as (key: string, value: unknown) => unknown);

test("integers beyond 2^53 keep all digits where the engine can tell them", { skip: hasSource ? false : "this node has no JSON.parse source text access" }, () => {
  assert.deepEqual(parseJSON('{"a":9007199254740993,"b":-9223372036854775808}'), { a: 9007199254740993n, b: -9223372036854775808n });
});

test("other numbers stay numbers, long fractions included", () => {
  assert.deepEqual(parseJSON('{"a":0.00479298817650529,"ts":1451649600512,"s":"9007199254740993"}'), {
    a: 0.00479298817650529,
    ts: 1451649600512,
    s: "9007199254740993",
  });
});

test("big integers are written as the digits they are", () => {
  assert.equal(stringifyJSON({ a: 9007199254740993n, b: [-1n, "x"] }), '{"a":9007199254740993,"b":[-1,"x"]}');
  assert.equal(stringifyJSON([1n], 2), "[\n  1\n]");
});
