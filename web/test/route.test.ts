import assert from "node:assert/strict";
import { test } from "node:test";
import { apiPath, problemMessage } from "../src/api";
import { actorRoute, entityRoute, formatRoute, parseRoute, type Route } from "../src/route";

test("every state survives the way through the address", () => {
  const routes: Route[] = [
    { page: "entities", search: "", filter: "", selected: "" },
    { page: "entities", search: "room & hall", filter: "power > 5 and id like \"a%\"", selected: "büro #1?" },
    { page: "types", id: "" },
    { page: "types", id: "dtmi:com:example:Room;1" },
    { page: "mappings", id: "heat / rooms" },
    { page: "alarms", state: "raised" },
    { page: "alarms", state: "any" },
    { page: "templates", id: "tasmota-state" },
    { page: "scripts", id: "" },
    { page: "scripts", id: "dry-run" },
    { page: "cluster" },
    { page: "access" },
    { page: "connect", entity: "", convention: "" },
    { page: "provisioning", key: "" },
    { page: "provisioning", key: "pumps & co" },
    { page: "claims" },
    { page: "connect", entity: "plant|line-1", convention: "template a b" },
    { page: "entity", id: "a b%c?d", range: null, keys: null, agg: "" },
    { page: "entity", id: "boiler", range: { kind: "24h" }, keys: ["temperature", "a,b&c"], agg: "p95" },
    { page: "entity", id: "boiler", range: { kind: "custom", from: 1, to: 2 }, keys: [], agg: "" },
    { page: "actors", search: "type:x" },
    { page: "actor", path: "/", pid: "" },
    { page: "actor", path: "/entities/a b%c?d", pid: "" },
    { page: "actor", path: "/pool/$1z", pid: "greenroom/pool/$1z#1z" },
  ];
  for (const route of routes) assert.deepEqual(parseRoute(formatRoute(route)), route);
});

test("an address nobody wrote shows the entities", () => {
  for (const hash of ["", "#", "#/", "#/nowhere", "#/e/"]) assert.deepEqual(parseRoute(hash), { page: "entities", search: "", filter: "", selected: "" });
});

test("a lone percent sign and a nonsensical range do not break the page", () => {
  const route = parseRoute("#/e/100%?from=9&to=2&range=forever");
  assert.deepEqual(route, { page: "entity", id: "100%", range: null, keys: null, agg: "" });
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

test("a link to an actor keeps the PID only of one without a name", () => {
  assert.equal(actorRoute("greenroom/entities/room-1#2c"), "#/actors/entities/room-1");
  assert.equal(actorRoute("greenroom/#1"), "#/actors/");
  assert.equal(actorRoute("greenroom/pool/$1z#1z"), "#/actors/pool/%241z?pid=greenroom%2Fpool%2F%241z%231z");
});
