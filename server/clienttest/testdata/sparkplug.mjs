// An edge node with the Sparkplug client of the Eclipse Tahu project. With publishDeath it says
// that it leaves; without, its connection is cut and the broker says so.
import sparkplug from "sparkplug-client";

const { mqtt: address, user, publishDeath, compress } = JSON.parse(process.argv[2]);
const client = sparkplug.newClient({
  serverUrl: `mqtt://${address}`, username: user, password: "", groupId: "plant", edgeNode: "line-1", clientId: "line-1",
  version: "spBv1.0", publishDeath, mqttOptions: { reconnectPeriod: 0 },
});
const options = compress ? { compress: true, algorithm: compress } : undefined;
let births = 0;

client.on("birth", () => {
  births++;
  client.publishNodeBirth({
    timestamp: 1451649600000,
    metrics: [
      { name: "Node Control/Rebirth", type: "Boolean", value: false },
      { name: "births", type: "Int32", value: births },
    ],
  }, options);
  client.publishDeviceBirth("pump", {
    timestamp: 1451649600000,
    metrics: [{ name: "Inlet/Pressure", alias: 7, type: "Double", value: 1.5 }, { name: "running", alias: 8, type: "Boolean", value: true },
      { name: "speed", alias: 9, type: "Float", value: 0 }],
  }, options);
  if (births === 1) {
    // By alias, with what was buffered before it.
    client.publishDeviceData("pump", {
      timestamp: 1451649601000,
      metrics: [
        { alias: 7, type: "Double", value: 1.75 },
        { alias: 7, type: "Double", value: 1.25, timestamp: 1451649590000, isHistorical: true },
        { alias: 8, type: "Boolean", value: false },
      ],
    }, options);
    client.seq += 3; // as if messages had been lost
    client.publishNodeData({ timestamp: 1451649602000, metrics: [{ name: "uptime", type: "UInt64", value: 12 }] }, options);
  }
});
client.on("ncmd", ({ metrics }) => {
  console.log("ncmd", metrics.map((m) => `${m.name}=${m.value}`).join());
  client.emit("birth"); // its births for the second time
  client.publishNodeData({ timestamp: 1451649603000, metrics: [{ name: "reborn", type: "Boolean", value: true }] }, options);
});
client.on("dcmd", (device, { metrics }) => {
  console.log("dcmd", device, metrics.map((m) => `${m.name}=${m.value}`).join());
  if (metrics[0].name !== "leave") {
    client.publishDeviceData(device, { timestamp: 1451649604000, metrics: metrics.map(({ name, type, value }) => ({ name, type, value })) }, options);
    return;
  }
  if (!publishDeath) process.exit(0); // no DISCONNECT
  client.stop();
});
client.on("close", () => process.exit(0));
client.on("error", (err) => { console.error(err); process.exit(1); });
