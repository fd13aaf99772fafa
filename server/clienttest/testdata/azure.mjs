// Devices with the device SDK of Azure IoT Hub: one that sends a message, answers a method, and has a twin; one that
// gets messages from the cloud; one that speaks HTTP.
import https from "node:https";
import tls from "node:tls";
import device from "azure-iot-device";
import { Mqtt } from "azure-iot-device-mqtt";
import { Http } from "azure-iot-device-http";

const { mqtt, http, ca, keys } = JSON.parse(process.argv[2]);
const { Client, Message } = device;
const steps = [];
const fail = (err) => { console.error(err); process.exit(1); };
process.on("unhandledRejection", fail);

const connection = (host, id, key = keys[id]) => `HostName=${host};DeviceId=${id};SharedAccessKey=${key}`;
const once = (f) => new Promise((resolve, reject) => f((err, value) => (err ? reject(err) : resolve(value))));

async function open(text, transport, options = { ca }) {
  const client = Client.fromConnectionString(text, transport);
  client.on("error", fail);
  await once((done) => client.setOptions(options, done));
  await once((done) => client.open(done));
  return client;
}

// Somebody with another key.
const stranger = Client.fromConnectionString(connection(mqtt, "pump-1", Buffer.from("another key of thirty-two bytes!").toString("base64")), Mqtt);
stranger.setRetryPolicy({ shouldRetry: () => false, nextRetryTimeout: () => -1 });
await once((done) => stranger.setOptions({ ca }, done));
steps.push({ stranger: await stranger.open().then(() => "let in", () => "refused") });

const pump = await open(connection(mqtt, "pump-1"), Mqtt);
const message = new Message(JSON.stringify({ temperature: 21.5 }));
message.properties.add("alert", "false");
message.contentType = "application/json";
message.contentEncoding = "utf-8";
await once((done) => pump.sendEvent(message, done));

const twin = await once((done) => pump.getTwin(done));
steps.push({ desired: twin.properties.desired.interval ?? null });
const changed = new Promise((resolve) => twin.on("properties.desired", (patch) => patch.interval === 10 && resolve(patch)));
await once((done) => twin.properties.reported.update({ fw: "2.1", old: 1 }, done));
await once((done) => twin.properties.reported.update({ old: null }, done));
steps.push({ wrong: await once((done) => twin.properties.reported.update({ "a.b": 1 }, done)).then(() => "taken", (err) => err.message) });
steps.push({ patch: (await changed).interval });

const called = new Promise((resolve) => pump.onDeviceMethod("reboot", (request, response) => {
  response.send(200, { restarted: true }, () => resolve(request.payload));
}));
pump.onDeviceMethod("explode", (request, response) => response.send(418, "a teapot", () => undefined));
console.log("ready pump-1");
steps.push({ method: await called });

const lamp = await open(connection(mqtt, "lamp-1"), Mqtt);
const bound = new Promise((resolve) => lamp.on("message", (msg) => lamp.complete(msg, () => resolve(msg))));
console.log("ready lamp-1");
const told = await bound;
steps.push({ message: JSON.parse(told.getData()), command: told.properties.getValue("command") });

// The SDK speaks HTTP to the port 443 only: the agent goes to another one.
const [host, port] = http.split(":");
const agent = new https.Agent();
agent.createConnection = (options, done) => tls.connect({ ...options, host, port: Number(port), ca, servername: host }, done);
const fan = await open(connection(host, "fan-1"), Http, { ca, http: { agent, receivePolicy: { interval: 1 } } });
await once((done) => fan.sendEvent(new Message(JSON.stringify({ rpm: 900 })), done));
await once((done) => fan.sendEventBatch([new Message(JSON.stringify({ rpm: 901 })), new Message(JSON.stringify({ on: true }))], done));
const pulled = new Promise((resolve) => fan.on("message", (msg) => fan.complete(msg, (err) => (err ? fail(err) : resolve(msg)))));
console.log("ready fan-1");
steps.push({ pulled: JSON.parse((await pulled).getData()) });

console.log(JSON.stringify(steps));
process.exit(0);
