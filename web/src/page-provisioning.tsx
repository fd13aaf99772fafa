import { useSignal } from "@preact/signals";
import { AccessNav } from "./access-nav";
import { api, describe } from "./api";
import { attempt } from "./attempt";
import { now } from "./clock";
import { placeOf, post } from "./connect";
import { Command } from "./copy";
import { formatPlural, formatTime } from "./format";
import { usePolled } from "./polled";
import { entityRoute, formatRoute, type Route } from "./route";
import { caller } from "./session";
import { system } from "./system";
import type { ProvisionKey, ProvisionKeyBody } from "./types";

type ProvisioningRoute = Extract<Route, { page: "provisioning" }>;

const strategies = {
  create: "new devices",
  check: "devices whose entity exists",
} as const;

function moment(ms: number | undefined): string {
  return ms ? formatTime(ms, now.value) : "never";
}

/** Makes a key, and shows its secret until the next one. */
function Create({ onMade }: { onMade: (name: string) => void }) {
  const name = useSignal("");
  const strategy = useSignal<keyof typeof strategies>("create");
  const prefix = useSignal("");
  const type = useSignal("");
  const max = useSignal("");
  const expires = useSignal("");
  const made = useSignal<ProvisionKey | null>(null);
  const error = useSignal("");
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    const body: ProvisionKeyBody = {
      name: name.value,
      strategy: strategy.value,
      prefix: prefix.value,
      ...(type.value === "" || strategy.value === "check" ? {} : { type: type.value }),
      ...(max.value === "" ? {} : { max: Number(max.value) }),
      ...(expires.value === "" ? {} : { expires_ms: new Date(expires.value).getTime() }),
    };
    made.value = null;
    try {
      made.value = await api.createProvisionKey(body);
      error.value = "";
      name.value = prefix.value = type.value = max.value = expires.value = "";
      onMade(made.value.name);
    } catch (thrown) {
      error.value = describe(thrown);
    }
  };
  return (
    <form class="card provision-form" aria-label="Create a provision key" onSubmit={(event) => void submit(event)}>
      <h2>Create a provision key</h2>
      <div class="fields">
        <label>
          <span>Name</span>
          <input type="text" required spellcheck={false} autocomplete="off" value={name.value} onInput={(e) => (name.value = e.currentTarget.value)} />
        </label>
        <label>
          <span>Name prefix</span>
          <input type="text" required spellcheck={false} placeholder="pump-" value={prefix.value} onInput={(e) => (prefix.value = e.currentTarget.value)} />
        </label>
        <label>
          <span>For</span>
          <select value={strategy.value} onChange={(e) => (strategy.value = e.currentTarget.value as keyof typeof strategies)}>
            {Object.entries(strategies).map(([value, words]) => (
              <option key={value} value={value}>
                {words}
              </option>
            ))}
          </select>
        </label>
        {strategy.value === "create" && (
          <label>
            <span>Entity type</span>
            <input type="text" spellcheck={false} placeholder="none" value={type.value} onInput={(e) => (type.value = e.currentTarget.value)} />
          </label>
        )}
        <label>
          <span>Device limit</span>
          <input type="number" min="1" max="100000" placeholder="unlimited" value={max.value} onInput={(e) => (max.value = e.currentTarget.value)} />
        </label>
        <label>
          <span>Expires</span>
          <input type="datetime-local" value={expires.value} onInput={(e) => (expires.value = e.currentTarget.value)} />
        </label>
      </div>
      <p role="alert">{error.value}</p>
      <button type="submit" disabled={name.value === "" || prefix.value === ""}>
        Create
      </button>
      {made.value && <Secret made={made.value} />}
    </form>
  );
}

/** The secret of a key, with what a device does with it. */
function Secret({ made }: { made: ProvisionKey }) {
  const addresses = system.info.value?.addresses;
  const request = JSON.stringify({ deviceName: `${made.prefix}1`, provisionDeviceKey: made.name, provisionDeviceSecret: made.secret });
  return (
    <div class="secret">
      <p role="status">
        The secret of <strong>{made.name}</strong>, which is shown only once: <code>{made.secret}</code>
      </p>
      <p>With it, a device requests a token. For the device {made.prefix}1:</p>
      {addresses && <Command label="HTTP" text={post(placeOf(addresses), "api/v1/provision", "", request)} />}
    </div>
  );
}

function Keys({ keys, selected, onError }: { keys: readonly ProvisionKey[]; selected: string; onError: (text: string) => void }) {
  const revoke = (name: string): void => {
    if (confirm(`Revoke ${name}? Devices that have used it stay.`)) void attempt(() => api.deleteProvisionKey(name), onError);
  };
  return (
    <section class="card scrolled" aria-label="Provision keys">
      <table class="listed keys-listed">
        <thead>
          <tr>
            <th scope="col">Key</th>
            <th scope="col">Names</th>
            <th scope="col">Devices</th>
            <th scope="col">Type</th>
            <th scope="col">Expires</th>
            <th scope="col">Created</th>
            <th scope="col">
              <span class="visually-hidden">Revoke</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {keys.map((key) => (
            <tr key={key.name} aria-selected={key.name === selected}>
              <th scope="row">
                <a href={formatRoute({ page: "provisioning", key: key.name })}>{key.name}</a>
              </th>
              <td>
                {key.prefix}… {key.strategy === "check" ? "existing" : ""}
              </td>
              <td>{key.max ? `${key.devices} of ${key.max}` : key.devices}</td>
              <td>{key.type ?? "none"}</td>
              <td>{moment(key.expires_ms)}</td>
              <td>
                {moment(key.created_ms)}
                {key.by ? ` by ${key.by}` : ""}
              </td>
              <td>
                <button type="button" class="link" onClick={() => revoke(key.name)} aria-label={`Revoke ${key.name}`}>
                  Revoke
                </button>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <footer>
        <span role="status">{formatPlural(keys.length, "provision key")}</span>
      </footer>
    </section>
  );
}

/** The devices that have come with a key, also with one that is revoked. */
function Devices({ of }: { of: string }) {
  const list = usePolled((abort) => api.principalsBy(`provision key ${of}`, abort), 3000, [of]);
  const devices = list.value?.principals ?? [];
  return (
    <section class="card scrolled" aria-label={`Devices of ${of}`}>
      <h2>Devices that have used {of}</h2>
      <p role="alert">{list.error}</p>
      {devices.length > 0 && (
        <table class="listed devices-listed">
          <thead>
            <tr>
              <th scope="col">Device</th>
              <th scope="col">Credential</th>
              <th scope="col">Created</th>
              <th scope="col">Last used</th>
            </tr>
          </thead>
          <tbody>
            {devices.map((device) => (
              <tr key={device.name}>
                <th scope="row">
                  <a href={entityRoute(device.name)}>{device.name}</a>
                </th>
                <td>{device.credential}</td>
                <td>{moment(device.created_ms)}</td>
                <td>{moment(device.used_ms)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {list.value && (
        <footer>
          <span role="status">
            {devices.length === 0 ? "None yet." : `${list.value.next === undefined ? "" : "The first "}${formatPlural(devices.length, "device")}`}
          </span>
        </footer>
      )}
    </section>
  );
}

export function ProvisioningPage({ route }: { route: ProvisioningRoute }) {
  const error = useSignal("");
  const latest = useSignal("");
  const list = usePolled((abort) => api.provisionKeys(abort), 3000, [latest.value]);
  const open = caller.value?.guarded === false;
  return (
    <main id="main" class="page access" tabIndex={-1}>
      <AccessNav current="provisioning" />
      <h1 class="visually-hidden">Provision keys</h1>
      <p class="note">
        With a provision key, devices request their own tokens, as with ThingsBoard.
        {open ? " This requires logins: create the token of an admin first." : ""}
      </p>
      <p role="alert">{error.value || list.error}</p>
      {!open && <Create onMade={(name) => (latest.value = name)} />}
      {list.value && list.value.keys.length > 0 && <Keys keys={list.value.keys} selected={route.key} onError={(text) => (error.value = text)} />}
      {route.key !== "" && <Devices of={route.key} />}
    </main>
  );
}
