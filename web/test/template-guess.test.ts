import assert from "node:assert/strict";
import { test } from "node:test";
import { guessTemplate } from "../src/template-guess";

test("a template to begin with is guessed from a message", () => {
  assert.deepEqual(guessTemplate("zigbee2mqtt/lamp", '{"a":1}'), { topic: "zigbee2mqtt/{id}", members: "*" });
  assert.deepEqual(guessTemplate("tele/plug/SENSOR", ' {"a":1}'), { topic: "tele/{id}/SENSOR", members: "*" });
  assert.deepEqual(guessTemplate("shellies/plug/relay/0/power", "21.5"), { topic: "shellies/{id}/relay/0/power", payload: "text", values: { power: "value" } });
  assert.deepEqual(guessTemplate("plug", "on"), { topic: "{id}", payload: "text", values: { plug: "value" } });
  assert.deepEqual(guessTemplate("a/b", "[1]"), { topic: "a/{id}", values: { first: "`0`" } });
  assert.deepEqual(guessTemplate("/b", "1"), { topic: "/{id}", payload: "text", values: { value: "value" } });
});
