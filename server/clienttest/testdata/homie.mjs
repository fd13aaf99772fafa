// A device of Homie 5 with node-homie, and a controller that finds it, sets a property and says what it
// sees. The device leaves when it is told to.
import { createRequire } from "node:module";

const { HomieDevice, HomieNode, HomieProperty, DeviceDiscovery } = createRequire(import.meta.url)("node-homie");
const { mqtt: address } = JSON.parse(process.argv[2]);
const options = (username) => ({ url: `mqtt://${address}`, username, password: "", reconnectPeriod: 0 });
console.info = console.log = () => undefined; // its log
const say = (text) => process.stdout.write(text + "\n");

const device = new HomieDevice({ id: "thermostat", name: "Thermostat" }, options("thermostat"));
const node = device.add(new HomieNode(device, { id: "hvac", name: "HVAC" }));
const property = (more) => node.add(new HomieProperty(node, { retained: true, settable: false, ...more }));
const temperature = property({ id: "temperature", datatype: "float", unit: "°C" });
const setpoint = property({ id: "setpoint", datatype: "integer", settable: true });
const mode = property({ id: "mode", datatype: "enum", format: "off,heat", settable: true });
const leave = property({ id: "leave", datatype: "boolean", settable: true });
temperature.value = "21.5";
setpoint.value = "20";
mode.value = "off";
leave.value = "false";
for (const p of [setpoint, mode, leave]) {
  p.onSetMessage$.subscribe(async (event) => {
    say(`the device is told ${p.id}=${event.valueStr}`);
    p.value = event.valueStr;
    if (p === leave) {
      await new Promise((resolve) => setTimeout(resolve, 500));
      await device.disconnect();
      process.exit(0);
    }
  });
}
await device.onInit();

const discovery = new DeviceDiscovery(options("controller"));
let discovered = false, asked = false, set = false, seen = false; // it is told of each change
discovery.events$.subscribe((event) => {
  if (event.type !== "add" || discovered) {
    return;
  }
  discovered = true;
  const found = event.makeDevice();
  found.nodes$.subscribe((nodes) => {
    const hvac = nodes["hvac"];
    if (hvac === undefined || asked) {
      return;
    }
    asked = true;
    say(`the controller finds ${event.deviceId} with ${Object.keys(hvac.properties).sort().join(", ")}`);
    hvac.properties["mode"].value$.subscribe((value) => {
      if (value === "off" && !set) {
        set = true;
        hvac.properties["mode"].setCommand$("heat").subscribe();
      }
      if (value === "heat" && !seen) {
        seen = true;
        say("the controller sees heat");
      }
    });
  });
  found.onInit();
});
await discovery.onInit();
