import assert from "node:assert/strict";
import { test } from "node:test";
import { conventions, idProblem, isLocalOnly, type Place, principalName, quote } from "../src/connect";
import { templateConventions, templateMessage, templateTopic } from "../src/connect-template";
import { base64, sparkplugBirth } from "../src/sparkplug";

const plain: Place = {
  host: "plant.example",
  addresses: { http: { port: 8080, tls: false }, mqtt: { port: 1884, tls: false } },
  base: "http://plant.example:8080/",
  ca: "",
};
const encrypted: Place = { ...plain, base: "https://plant.example:8443/", addresses: { http: { port: 8443, tls: true }, mqtt: { port: 8883, tls: true } } };
const pump = { entity: "pump-1", name: "pump-1", token: "gr_pump-1_x" };

function commands(id: string, device: { entity: string; name: string; token: string }, place: Place): string[] {
  return conventions.find((each) => each.id === id)?.commands(device, place).map(({ text }) => text) ?? [];
}

test("a command has the host, the port, the credentials and what TLS needs", () => {
  assert.deepEqual(commands("native", pump, plain), [
    `mosquitto_pub -h plant.example -p 1884 -u pump-1 -P gr_pump-1_x -q 1 -t e/pump-1/telemetry -m '{"temperature":21.5}'`,
    `curl --fail-with-body http://plant.example:8080/v1/entities/pump-1/telemetry -H 'Authorization: Bearer gr_pump-1_x' -H 'Content-Type: application/json' -d '{"temperature":21.5}'`,
    `mosquitto_sub -h plant.example -p 1884 -u pump-1 -P gr_pump-1_x -q 1 -v -t e/pump-1/commands`,
  ]);
  assert.match(commands("native", pump, encrypted)[0] ?? "", / -p 8883 --tls-use-os-certs -u /);
  assert.match(commands("native", pump, { ...encrypted, ca: "my ca.pem" })[0] ?? "", / --cafile 'my ca.pem' /);
  assert.match(commands("native", pump, { ...encrypted, ca: "ca.pem" })[1] ?? "", / --cacert ca.pem https:/);
});

test("where nobody has to log in a command has no credentials", () => {
  const open = { entity: "hall 3", name: "", token: "" };
  assert.deepEqual(commands("native", open, plain), [
    `mosquitto_pub -h plant.example -p 1884 -q 1 -t 'e/hall 3/telemetry' -m '{"temperature":21.5}'`,
    `curl --fail-with-body http://plant.example:8080/v1/entities/hall%203/telemetry -H 'Content-Type: application/json' -d '{"temperature":21.5}'`,
    `mosquitto_sub -h plant.example -p 1884 -q 1 -v -t 'e/hall 3/commands'`,
  ]);
  assert.match(commands("thingsboard", { ...open, entity: "pump-1" }, plain)[0] ?? "", / -u pump-1 -q 1 -t v1\/devices\/me\/telemetry /);
});

test("a device of Azure's has its hub and its version in the user name", () => {
  assert.match(commands("azure", pump, plain)[0] ?? "", / -u 'plant\.example\/pump-1\/\?api-version=2021-04-12' -P gr_pump-1_x -q 1 -t devices\/pump-1\/messages\/events\/ /);
  assert.match(commands("azure", pump, plain)[1] ?? "", /\/devices\/pump-1\/messages\/events\?api-version=2021-04-12/);
});

test("a device of Homie's publishes the value alone", () => {
  assert.deepEqual(commands("homie", pump, plain), ["mosquitto_pub -h plant.example -p 1884 -u pump-1 -P gr_pump-1_x -q 1 -t homie/5/pump-1/sensor/temperature -m 21.5"]);
});

test("each convention says which entities it cannot speak for", () => {
  const problem = (id: string, entity: string): string => conventions.find((each) => each.id === id)?.problem(entity) ?? "";
  assert.equal(idProblem("hall 3"), "");
  assert.notEqual(idProblem("hall/3"), "");
  assert.equal(problem("native", "hall 3"), "");
  assert.equal(problem("thingsboard", "pump-1"), "");
  assert.notEqual(problem("thingsboard", "pump 1"), "");
  assert.equal(problem("sparkplug", "plant|line-1"), "");
  assert.notEqual(problem("sparkplug", "line-1"), "");
  assert.equal(problem("homie", "pump-1"), "");
  assert.notEqual(problem("homie", "Pump"), "");
});

test("a name of a principal is made of an id, and a grant is over the entity", () => {
  assert.equal(principalName("plant|line-1"), "plant-line-1");
  assert.equal(principalName("büro #1"), "b-ro-1");
  const sparkplug = conventions.find((each) => each.id === "sparkplug");
  assert.equal(sparkplug?.filter("plant|line-1", "plant-line-1"), 'id = "plant|line-1" or id prefix "plant|line-1|"');
  assert.equal(conventions[0]?.filter("pump-1", "pump-1"), "");
  assert.equal(conventions[0]?.filter('a "b"', "a-b"), 'id = "a \\"b\\""');
});

test("words are quoted for a shell", () => {
  assert.equal(quote("it's"), `'it'\\''s'`);
  assert.equal(quote(""), "''");
  assert.equal(quote("a/b-1"), "a/b-1");
});

test("a birth certificate is the one that Sparkplug's Protobuf has", () => {
  // From sparkplug-payload of npm, for {metrics: [bdSeq 0 Int64, temperature 21.5 Double], seq: 0}.
  assert.equal(base64(sparkplugBirth("temperature", 21.5)), "EgsKBWJkU2VxIARYABIYCgt0ZW1wZXJhdHVyZSAKaQAAAAAAgDVAGAA=");
});

test("a listener for this machine alone is told from one that others reach", () => {
  const local = { ...plain, addresses: { ...plain.addresses, mqtt: { host: "127.0.0.1", port: 1883, tls: false } } };
  assert.equal(isLocalOnly(local), true);
  assert.equal(isLocalOnly({ ...local, host: "localhost" }), false);
  assert.equal(isLocalOnly(plain), false);
});

test("a topic and a message are made of a template", () => {
  assert.equal(templateTopic({ topic: "tele/{id}/SENSOR" }, "plug"), "tele/plug/SENSOR");
  assert.equal(templateTopic({ topic: "shellies/{id}/relay/{relay}/{key}" }, "s", "shellies/x/relay/0/power"), "shellies/s/relay/0/power");
  assert.equal(templateTopic({ topic: "{building}/{room}/+", entity: "{building}-{room}" }, "a-b"), "a/b/1");
  assert.equal(templateTopic({ topic: "{building}/{room}/+", entity: "{building}-{room}" }, "ab"), null);
  assert.equal(templateMessage({ topic: "t/{id}", values: { t: "air.t / 10", h: "air.rh" } }), '{"air":{"t":21.5,"rh":21.5}}');
  assert.equal(templateMessage({ topic: "t/{id}", members: "params.*" }), '{"params":{"temperature":21.5}}');
  assert.equal(templateMessage({ topic: "t/{id}", payload: "text" }), "21.5");
  const template = { etag: "1", name: "sensor", updated_ms: 0, template: { topic: "tele/{id}/SENSOR" } };
  const ready = { name: "tasmota", title: "", topic: "tele/x/SENSOR", payload: "{}", template: { topic: "tele/{id}/SENSOR" } };
  const [made] = templateConventions([template, { ...template, name: "gone", problem: "wrong" }], [ready]);
  assert.equal(made?.message, "{}");
  assert.equal(made?.topic("plug"), "tele/plug/SENSOR");
});
