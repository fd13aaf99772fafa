// A device as ThingsBoard's documentation describes one, with mqtt.js.
import mqtt from "mqtt";

const { mqtt: address, token, version } = JSON.parse(process.argv[2]);
const client = mqtt.connect(`mqtt://${address}`, { username: token, protocolVersion: version, reconnectPeriod: 0 });
client.on("error", (err) => { console.error(err); process.exit(1); });

const seen = {};
client.on("message", (topic, payload) => {
  const value = JSON.parse(payload.toString());
  if (topic === "v1/devices/me/attributes/response/1") {
    seen.asked = value;
    client.publish("v1/devices/me/telemetry", JSON.stringify({ state: "listening" }), { qos: 1 });
  } else if (topic === "v1/devices/me/attributes") {
    seen.update = value;
  }
  if (seen.asked && seen.update) {
    console.log(JSON.stringify(seen));
    client.end();
  }
});
client.on("connect", async () => {
  await client.subscribeAsync("v1/devices/me/attributes", { qos: 1 });
  await client.subscribeAsync("v1/devices/me/attributes/response/+", { qos: 1 });
  await client.publishAsync("v1/devices/me/telemetry", JSON.stringify({ ts: 1451649600512, values: { temperature: 21.5 } }), { qos: 1 });
  await client.publishAsync("v1/devices/me/attributes", JSON.stringify({ fw: "1.2" }), { qos: 1 });
  await client.publishAsync("v1/devices/me/attributes/request/1", JSON.stringify({ clientKeys: "fw", sharedKeys: "period" }), { qos: 1 });
});
