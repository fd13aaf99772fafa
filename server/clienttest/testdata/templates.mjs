// A Zigbee2MQTT bridge, a Tasmota plug and a Shelly of the second generation, as their documentation
// describes what they send and take, with mqtt.js. It ends when each was sent a command.
import mqtt from "mqtt";

const { mqtt: address, version } = JSON.parse(process.argv[2]);
const seen = {};
const clients = [];

function done(name, command) {
  seen[name] = command;
  if (Object.keys(seen).length === 3) {
    console.log(JSON.stringify({ bridge: seen.bridge, tasmota: seen.tasmota, shelly: seen.shelly }));
    for (const client of clients) client.end();
  }
}

function connect(clientId, will, onConnect, onMessage) {
  const client = mqtt.connect(`mqtt://${address}`, { clientId, protocolVersion: version, reconnectPeriod: 0, will: { ...will, qos: 1, retain: true } });
  client.on("error", (err) => { console.error(err); process.exit(1); });
  client.on("connect", () => onConnect(client));
  client.on("message", (topic, payload) => onMessage(client, topic, payload.toString()));
  clients.push(client);
}

connect("mqttjs_z2m", { topic: "zigbee2mqtt/bridge/state", payload: JSON.stringify({ state: "offline" }) },
  async (client) => {
    await client.publishAsync("zigbee2mqtt/bridge/state", JSON.stringify({ state: "online" }), { retain: true });
    await client.subscribeAsync(["zigbee2mqtt/+/set", "zigbee2mqtt/+/get", "zigbee2mqtt/bridge/request/#"]);
    await client.publishAsync("zigbee2mqtt/lamp/availability", JSON.stringify({ state: "online" }), { retain: true, qos: 1 });
    await client.publishAsync("zigbee2mqtt/lamp", JSON.stringify({ state: "OFF", brightness: 215, color: { x: 0.123, y: 0.2 }, update: null }), { qos: 0 });
  },
  (client, topic, payload) => {
    const state = JSON.parse(payload);
    client.publish("zigbee2mqtt/lamp", JSON.stringify({ ...state, brightness: 215 }), () => done("bridge", { topic, payload }));
  });

connect("DVES_9CF9D1", { topic: "tele/tasmota_9CF9D1/LWT", payload: "Offline" },
  async (client) => {
    await client.publishAsync("tele/tasmota_9CF9D1/LWT", "Online", { retain: true, qos: 1 });
    await client.subscribeAsync(["cmnd/tasmota_9CF9D1/#", "cmnd/tasmotas/#", "cmnd/DVES_9CF9D1_fb/#"]);
    await client.publishAsync("tele/tasmota_9CF9D1/STATE", JSON.stringify({ Time: "2024-02-24T22:20:38", UptimeSec: 611, POWER: "OFF", Wifi: { RSSI: 44, Signal: -78 } }), { qos: 1 });
    await client.publishAsync("tele/tasmota_9CF9D1/SENSOR", JSON.stringify({ Time: "2024-02-24T22:20:38", ENERGY: { Power: 3.2 } }), { qos: 1 });
  },
  (client, topic, payload) => {
    client.publish("stat/tasmota_9CF9D1/RESULT", JSON.stringify({ POWER: payload }), { qos: 1 }, () => done("tasmota", { topic, payload }));
  });

const shelly = "shellyplus1pm-a8032ab12345";
connect(shelly, { topic: `${shelly}/online`, payload: "false" },
  async (client) => {
    await client.publishAsync(`${shelly}/online`, "true", { retain: true, qos: 1 });
    await client.subscribeAsync([`${shelly}/rpc`, `${shelly}/command`], { qos: 1 });
    await client.publishAsync(`${shelly}/events/rpc`, JSON.stringify({ src: shelly, dst: `${shelly}/events`, method: "NotifyEvent", params: { ts: 1631186545.04, events: [] } }), { qos: 1 });
    await client.publishAsync(`${shelly}/events/rpc`, JSON.stringify({
      src: shelly, dst: `${shelly}/events`, method: "NotifyStatus", params: { ts: 1631186545.04, "switch:0": { id: 0, apower: 8.9, output: true } },
    }), { qos: 1 });
  },
  (client, topic, payload) => {
    const { id, src, method, params } = JSON.parse(payload);
    client.publish(`${src}/rpc`, JSON.stringify({ id, src: shelly, dst: src, result: { was_on: true } }), { qos: 1 }, () => done("shelly", { topic, method, params }));
  });
