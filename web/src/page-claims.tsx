import { useSignal } from "@preact/signals";
import { AccessNav } from "./access-nav";
import { api, describe } from "./api";
import { now } from "./clock";
import { formatDuration, formatPlural, formatValue } from "./format";
import type { Json } from "./json";
import { usePolled } from "./polled";
import { entityRoute } from "./route";
import { caller, mayManage } from "./session";
import type { Entity, Offer } from "./types";

/** Claims an entity for the user. */
function Claim({ onClaimed }: { onClaimed: () => void }) {
  const entity = useSignal("");
  const secret = useSignal("");
  const said = useSignal("");
  const error = useSignal("");
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    said.value = "";
    try {
      await api.claim(entity.value.trim(), secret.value);
      said.value = `${entity.value.trim()} is claimed by ${caller.value?.name ?? ""}.`;
      error.value = entity.value = secret.value = "";
      onClaimed();
    } catch (thrown) {
      error.value = describe(thrown);
    }
  };
  return (
    <form class="card claim-form" aria-label="Claim a device" onSubmit={(event) => void submit(event)}>
      <h2>Claim a device</h2>
      <div class="fields">
        <label>
          <span>Entity</span>
          <input type="text" required spellcheck={false} autocomplete="off" value={entity.value} onInput={(e) => (entity.value = e.currentTarget.value)} />
        </label>
        <label>
          <span>Secret on its label</span>
          <input type="password" required autocomplete="off" value={secret.value} onInput={(e) => (secret.value = e.currentTarget.value)} />
        </label>
      </div>
      <p role="alert">{error.value}</p>
      <p role="status">{said.value}</p>
      <button type="submit" disabled={entity.value.trim() === "" || secret.value === ""}>
        Claim
      </button>
    </form>
  );
}

function Offers({ offers, more }: { offers: readonly Offer[]; more: boolean }) {
  return (
    <section class="card scrolled" aria-label="Devices that can be claimed">
      <h2>Available devices</h2>
      {offers.length > 0 && (
        <table class="listed offers-listed">
          <thead>
            <tr>
              <th scope="col">Entity</th>
              <th scope="col">Expires in</th>
            </tr>
          </thead>
          <tbody>
            {offers.map((offer) => (
              <tr key={offer.entity}>
                <th scope="row">
                  <a href={entityRoute(offer.entity)}>{offer.entity}</a>
                </th>
                <td>{formatDuration(Math.max(0, offer.until_ms - now.value))}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      <footer>
        <span role="status">{offers.length === 0 ? "No device can be claimed." : `${more ? "The first " : ""}${formatPlural(offers.length, "device")}`}</span>
      </footer>
    </section>
  );
}

function Claimed({ entities, more }: { entities: readonly Entity[]; more: boolean }) {
  return (
    <section class="card scrolled" aria-label="Devices that are claimed">
      <h2>Claimed devices</h2>
      {entities.length > 0 && (
        <table class="listed claimed-listed">
          <thead>
            <tr>
              <th scope="col">Entity</th>
              <th scope="col">Claimed by</th>
            </tr>
          </thead>
          <tbody>
            {entities.map((entity) => (
              <tr key={entity.id}>
                <th scope="row">
                  <a href={entityRoute(entity.id)}>{entity.id}</a>
                </th>
                <td>{formatValue((entity.attributes?.claimedBy ?? "") as Json)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      <footer>
        <span role="status">{entities.length === 0 ? "No claimed device that you may see." : `${more ? "The first " : ""}${formatPlural(entities.length, "entity", "entities")}`}</span>
      </footer>
    </section>
  );
}

const none = { offers: [] };

export function ClaimsPage() {
  const claims = useSignal(0);
  const manager = mayManage();
  const offers = usePolled((abort) => (manager ? api.offers(abort) : Promise.resolve(none)), 2000, [claims.value, manager]);
  const claimed = usePolled((abort) => api.claimed(abort), 3000, [claims.value]);
  const open = caller.value?.guarded === false;
  return (
    <main id="main" class="page access" tabIndex={-1}>
      <AccessNav current="claims" />
      <h1 class="visually-hidden">Claims</h1>
      <p class="note">
        A device that offers itself can be claimed with its secret. {open ? "Claiming requires a login, and this server does not require one yet." : ""}
      </p>
      <p role="alert">{offers.error || claimed.error}</p>
      {!open && <Claim onClaimed={() => claims.value++} />}
      {manager && offers.value && <Offers offers={offers.value.offers} more={"next" in offers.value} />}
      {claimed.value && <Claimed entities={claimed.value.entities} more={claimed.value.next !== undefined} />}
    </main>
  );
}
