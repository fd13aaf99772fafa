import { apiPath } from "./api";
import { base64, sparkplugBirth } from "./sparkplug";
import type { Addresses } from "./types";

/** Where a device reaches the server. */
export interface Place {
  /** The host name or address. */
  host: string;
  addresses: Addresses;
  /** The base URL of the HTTP API as the browser reaches it, with a trailing slash. */
  base: string;
  /** A file with the CA of the server's certificate; empty if the device's system trusts it. */
  ca: string;
}

/** A device to be connected. */
export interface Device {
  /** The id of its entity. */
  entity: string;
  /** The name of its principal; empty if no login is required. */
  name: string;
  token: string;
}

/** A command for a terminal. */
export interface Line {
  label: string;
  text: string;
}

/** A convention by which devices communicate. */
export interface Convention {
  id: string;
  name: string;
  /** What it is for, in a few words. */
  about: string;
  /** Why the convention cannot be used for an entity with this id; empty if it can. */
  problem: (entity: string) => string;
  /** The filter of the grant; empty if the principal has the name of the entity. */
  filter: (entity: string, name: string) => string;
  commands: (device: Device, place: Place) => Line[];
}

/** A word for a POSIX shell. */
export function quote(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

/** The name of a principal for the device of an entity: the id, without what a name must not contain. */
export function principalName(entity: string): string {
  return entity.replace(/[^\w.:@-]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 128);
}

/** The server as the browser reaches it, with the known CAs. */
export function placeOf(addresses: Addresses): Place {
  return { host: location.hostname.replace(/^\[(.*)\]$/, "$1"), addresses, base: new URL(".", document.baseURI).href, ca: "" };
}

/** Reports whether a device on another machine cannot reach the MQTT listener although the browser reaches the server. */
export function isLocalOnly(place: Place): boolean {
  const listens = place.addresses.mqtt.host ?? "";
  return isLoopback(listens) && !isLoopback(place.host);
}

function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || host.startsWith("127.");
}

const sample = '{"temperature":21.5}';

/** The filter of a grant for one entity; empty if the name of the principal implies it. */
export function ownFilter(entity: string, name: string): string {
  return entity === name ? "" : `id = ${JSON.stringify(entity)}`;
}

/** The arguments of mosquitto_pub for the credentials: user name and password. */
export function login({ name, token }: Device): string[] {
  return token === "" ? [] : ["-u", name, "-P", token];
}

/** A command that publishes with QoS 1; it reads standard input if there is no message. */
export function publish(place: Place, credentials: readonly string[], topic: string, message: string | null): string {
  return mosquitto("pub", place, credentials, ["-t", topic, ...(message === null ? ["-s"] : ["-m", message])]);
}

/** A command that prints the commands sent to the device while it runs. */
function receive(place: Place, credentials: readonly string[], topic: string): Line {
  return { label: "Commands", text: mosquitto("sub", place, credentials, ["-v", "-t", topic]) };
}

function mosquitto(what: "pub" | "sub", place: Place, credentials: readonly string[], more: readonly string[]): string {
  const { port, tls } = place.addresses.mqtt;
  const words = [`mosquitto_${what}`, "-h", place.host, "-p", String(port)];
  if (tls) words.push(...(place.ca === "" ? ["--tls-use-os-certs"] : ["--cafile", place.ca]));
  words.push(...credentials, "-q", "1", ...more);
  return words.map(quote).join(" ");
}

/** A command that posts JSON and fails with the server's error. */
export function post(place: Place, path: string, token: string, message: string): string {
  const words = ["curl", "--fail-with-body"];
  if (place.ca !== "" && place.base.startsWith("https:")) words.push("--cacert", place.ca);
  words.push(new URL(path, place.base).href);
  if (token !== "") words.push("-H", `Authorization: Bearer ${token}`);
  words.push("-H", "Content-Type: application/json", "-d", message);
  return words.map(quote).join(" ");
}

/** Why an id is not valid; empty if it is. */
export function idProblem(id: string): string {
  return /[/+#]/.test(id) ? "The id must not contain / + or #." : "";
}

const none = (): string => "";

/** The built-in conventions of the server. */
export const conventions: readonly Convention[] = [
  {
    id: "native",
    name: "Greenroom's own topics",
    about: "JSON over MQTT or HTTP, for your own firmware",
    problem: none,
    filter: ownFilter,
    commands: (device, place) => [
      { label: "MQTT", text: publish(place, login(device), `e/${device.entity}/telemetry`, sample) },
      { label: "HTTP", text: post(place, apiPath(["entities", device.entity, "telemetry"]), device.token, sample) },
      receive(place, login(device), `e/${device.entity}/commands`),
    ],
  },
  {
    id: "thingsboard",
    name: "ThingsBoard",
    about: "devices and SDKs made for ThingsBoard",
    problem: (entity) => (principalName(entity) === entity ? "" : "The token identifies the device, so the id must be a valid name: ASCII letters, digits and . _ - : @."),
    filter: ownFilter,
    commands: (device, place) => {
      const user = device.token === "" ? device.entity : device.token;
      return [
        { label: "MQTT", text: publish(place, ["-u", user], "v1/devices/me/telemetry", sample) },
        { label: "HTTP", text: post(place, `api/v1/${encodeURIComponent(user)}/telemetry`, "", sample) },
        receive(place, ["-u", user], "v1/devices/me/rpc/request/+"),
      ];
    },
  },
  {
    id: "aws",
    name: "AWS IoT shadow",
    about: "devices that report their state to a device shadow",
    problem: none,
    filter: ownFilter,
    commands: (device, place) => {
      const report = `{"state":{"reported":${sample}}}`;
      return [
        { label: "MQTT", text: publish(place, login(device), `$aws/things/${device.entity}/shadow/update`, report) },
        { label: "HTTP", text: post(place, `things/${encodeURIComponent(device.entity)}/shadow`, device.token, report) },
      ];
    },
  },
  {
    id: "azure",
    name: "Azure IoT Hub",
    about: "devices and SDKs made for Azure IoT Hub, here with a token",
    problem: none,
    filter: ownFilter,
    commands: (device, place) => {
      const user = `${place.host}/${device.entity}/?api-version=2021-04-12`;
      const message = `devices/${encodeURIComponent(device.entity)}/messages/events`;
      return [
        { label: "MQTT", text: publish(place, device.token === "" ? ["-u", user] : ["-u", user, "-P", device.token], `devices/${device.entity}/messages/events/`, sample) },
        { label: "HTTP", text: post(place, `${message}?api-version=2021-04-12`, device.token, sample) },
        receive(place, device.token === "" ? ["-u", user] : ["-u", user, "-P", device.token], "$iothub/methods/POST/#"),
      ];
    },
  },
  {
    id: "homie",
    name: "Homie 5",
    about: "devices and controllers of the Homie convention; commands are sent to devices that are ready",
    problem: (entity) => (/^[a-z0-9-]+$/.test(entity) ? "" : "The id must contain only a to z, digits and -."),
    filter: ownFilter,
    commands: (device, place) => [{ label: "MQTT", text: publish(place, login(device), `homie/5/${device.entity}/sensor/temperature`, "21.5") }],
  },
  {
    id: "sparkplug",
    name: "Sparkplug B",
    about: "edge nodes; the command sends a birth certificate",
    problem: (entity) => (/^[^|]+\|[^|]+$/.test(entity) ? "" : "An edge node is the entity group|edge, as in plant|line-1."),
    filter: (entity) => `id = ${JSON.stringify(entity)} or id prefix ${JSON.stringify(`${entity}|`)}`,
    commands: (device, place) => {
      const [group, edge] = device.entity.split("|");
      const birth = base64(sparkplugBirth("temperature", 21.5));
      return [{ label: "MQTT", text: `echo ${birth} | base64 -d | ${publish(place, login(device), `spBv1.0/${group}/NBIRTH/${edge}`, null)}` }];
    },
  },
];
