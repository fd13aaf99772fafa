import { useSignal } from "@preact/signals";
import { AccessNav } from "./access-nav";
import { api, describe } from "./api";
import { attempt } from "./attempt";
import { now } from "./clock";
import { formatTime } from "./format";
import { usePolled } from "./polled";
import { caller } from "./session";
import type { Audit, Principal } from "./types";

const roles = ["viewer", "device", "operator", "admin"] as const;

function grantText(principal: Principal): string {
  return principal.grants.map(({ role, filter }) => (filter ? `${role} over ${filter}` : role)).join("; ");
}

function rateText(principal: Principal): string {
  return principal.rate_kib === undefined ? "default" : `${principal.rate_kib} KiB/s`;
}

function moment(ms: number | undefined): string {
  return ms ? formatTime(ms) : "never";
}

function List({ principals, onError }: { principals: readonly Principal[]; onError: (text: string) => void }) {
  const revoke = (name: string): void => {
    if (confirm(`Revoke ${name}? Its connections and sessions end at once.`)) void attempt(() => api.revoke(name), onError);
  };
  return (
    <section class="card" aria-label="Principals">
      <table class="listed">
        <thead>
          <tr>
            <th scope="col">Name</th>
            <th scope="col">Permissions</th>
            <th scope="col">Credential</th>
            <th scope="col">Rate</th>
            <th scope="col">Last used</th>
            <th scope="col">Expires</th>
            <th scope="col">
              <span class="visually-hidden">Revoke</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {principals.map((principal) => (
            <tr key={principal.name}>
              <th scope="row">
                {principal.name}
                <Held principal={principal} />
              </th>
              <td>{grantText(principal)}</td>
              <td>{principal.credential}</td>
              <td data-label="rate">{rateText(principal)}</td>
              <td data-label="used">{moment(principal.used_ms)}</td>
              <td data-label="expires">{moment(principal.expires_ms)}</td>
              <td>
                <button type="button" class="link" onClick={() => revoke(principal.name)} aria-label={`Revoke ${principal.name}`}>
                  Revoke
                </button>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

/** For how long a principal is shown as held after it had to wait. */
const heldFor = 10_000;

/** Marks a principal that sends more than it may, and is read later. */
function Held({ principal }: { principal: Principal }) {
  if (principal.held_ms === undefined || principal.held_ms < now.value - heldFor) return null;
  return (
    <>
      {" "}
      <span class="held" title={`It sends more than it may, and is read later: it has waited for ${(principal.waited_s ?? 0).toFixed(1)} s in all`}>
        held back
      </span>
    </>
  );
}

/** Creates a principal with a token, which is shown until the next one is created. */
function Create() {
  const name = useSignal("");
  const role = useSignal<string>("viewer");
  const filter = useSignal("");
  const rate = useSignal("");
  const token = useSignal("");
  const error = useSignal("");
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    token.value = "";
    try {
      const made = await api.createPrincipal(name.value, role.value, filter.value, Number(rate.value));
      token.value = made.token ?? "";
      error.value = "";
      name.value = "";
    } catch (thrown) {
      error.value = describe(thrown);
    }
  };
  return (
    <form class="card create-token" aria-label="Create a token" onSubmit={(event) => void submit(event)}>
      <h2>Create a token</h2>
      <label>
        <span>Name</span>
        <input type="text" required spellcheck={false} value={name.value} onInput={(e) => (name.value = e.currentTarget.value)} />
      </label>
      <label>
        <span>Role</span>
        <select value={role.value} onChange={(e) => (role.value = e.currentTarget.value)}>
          {roles.map((each) => (
            <option key={each}>{each}</option>
          ))}
        </select>
      </label>
      <label>
        <span>Entities (filter)</span>
        <input
          type="text"
          spellcheck={false}
          placeholder={role.value === "device" ? "the entity with its name" : "all"}
          value={filter.value}
          onInput={(e) => (filter.value = e.currentTarget.value)}
        />
      </label>
      <label>
        <span>Rate (KiB/s)</span>
        <input
          type="number"
          min={1}
          max={2 ** 30}
          step={1}
          placeholder="default"
          title="How much it may send in a second; what it sends beyond that is read later"
          value={rate.value}
          onInput={(e) => (rate.value = e.currentTarget.value)}
        />
      </label>
      <button type="submit" disabled={name.value === ""}>
        Create
      </button>
      <p role="alert">{error.value}</p>
      {token.value !== "" && (
        <p role="status">
          The token, which is shown only once: <code>{token.value}</code>
        </p>
      )}
    </form>
  );
}

function Log({ entries }: { entries: Audit["entries"] }) {
  return (
    <section class="card" aria-label="Audit log">
      <h2>Audit log</h2>
      <table class="listed">
        <thead>
          <tr>
            <th scope="col">When</th>
            <th scope="col">Who</th>
            <th scope="col">From</th>
            <th scope="col">Action</th>
            <th scope="col">To</th>
          </tr>
        </thead>
        <tbody>
          {entries.map((entry) => (
            <tr key={entry.seq}>
              <td>{formatTime(entry.ts)}</td>
              <td>{entry.who || "no login required"}</td>
              <td>{entry.from}</td>
              <td>{entry.action}</td>
              <td>{entry.what}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

export function AccessPage() {
  const error = useSignal("");
  const list = usePolled((abort) => api.principals(abort), 2000, []);
  const audit = usePolled((abort) => api.audit(abort), 5000, []);
  return (
    <main id="main" class="page access" tabIndex={-1}>
      <AccessNav current="access" />
      {caller.value?.guarded === false && (
        <p class="note">
          No login is required yet. Once there is a token, everybody must log in, so the first token must be an admin’s: keep it, and log in with it.
        </p>
      )}
      <p role="alert">{error.value || list.error}</p>
      <Create />
      {list.value && <List principals={list.value.principals} onError={(text) => (error.value = text)} />}
      {audit.value && audit.value.entries.length > 0 && <Log entries={audit.value.entries} />}
    </main>
  );
}
