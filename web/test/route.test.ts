import assert from "node:assert/strict";
import { test } from "node:test";
import { apiPath, problemMessage } from "../src/api";
import { entityRoute, formatRoute, parseRoute, type Route } from "../src/route";

test("every state survives the way through the address", () => {
  const routes: Route[] = [
    { page: "entities", search: "", selected: "" },
    { page: "entities", search: "room & hall", selected: "büro #1?" },
    { page: "entity", id: "a b%c?d", range: null, keys: null },
    { page: "entity", id: "boiler", range: { kind: "24h" }, keys: ["temperature", "a,b&c"] },
    { page: "entity", id: "boiler", range: { kind: "custom", from: 1, to: 2 }, keys: [] },
    { page: "actors", search: "type:x" },
  ];
  for (const route of routes) assert.deepEqual(parseRoute(formatRoute(route)), route);
});

test("an address nobody wrote shows the entities", () => {
  for (const hash of ["", "#", "#/", "#/nowhere", "#/e/"]) assert.deepEqual(parseRoute(hash), { page: "entities", search: "", selected: "" });
});

test("a lone percent sign and a nonsensical range do not break the page", () => {
  const route = parseRoute("#/e/100%?from=9&to=2&range=forever");
  assert.deepEqual(route, { page: "entity", id: "100%", range: null, keys: null });
  assert.equal(entityRoute("100%"), "#/e/100%25");
});

test("paths of the API escape each part and leave out what is empty", () => {
  assert.equal(apiPath(["entities"], { search: "", cursor: undefined, limit: 50 }), "v1/entities?limit=50");
  assert.equal(apiPath(["entities", "a b?", "telemetry", "k#1"]), "v1/entities/a%20b%3F/telemetry/k%231");
  assert.equal(apiPath(["stream"], { entity: ["a", "b&c"] }), "v1/stream?entity=a&entity=b%26c");
  assert.equal(apiPath(["stream"], { entity: [] }), "v1/stream");
});

test("a refusal is told in the words of its problem document", () => {
  assert.equal(problemMessage(404, '{"title":"Not Found","detail":"there is no entity \\"x\\""}'), 'there is no entity "x"');
  assert.equal(problemMessage(503, '{"title":"Service Unavailable"}'), "Service Unavailable");
  assert.equal(problemMessage(502, "<html>Bad Gateway</html>"), "The server answered 502.");
});
