import { type Signal, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { AccessNav } from "./access-nav";
import { api, describe, isAbort } from "./api";
import { type Arrival, arrivalOf, type Seen } from "./arrival";
import { now } from "./clock";
import { type Convention, conventions, type Device, idProblem, isLocalOnly, type Line, type Place, placeOf, principalName } from "./connect";
import { publishTemplate, type TemplateConvention, templateConventions } from "./connect-template";
import { Command } from "./copy";
import { formatTime, formatValue } from "./format";
import { navigate } from "./location";
import { poll } from "./poll";
import { usePolled } from "./polled";
import { Refusals } from "./refusals";
import { entityRoute, type Route } from "./route";
import { caller } from "./session";
import { system } from "./system";

type ConnectRoute = Extract<Route, { page: "connect" }>;

const lookEvery = 1000;

/** The content of the form. */
interface Draft {
  entity: Signal<string>;
  /** The name of the principal; empty for the default, which is made from the id. */
  name: Signal<string>;
  host: Signal<string>;
  ca: Signal<string>;
}

/** A device with new credentials, and its entity before that. */
interface Made {
  device: Device;
  convention: Convention | TemplateConvention;
  before: Seen | null;
}

function isTemplate(convention: Convention): convention is TemplateConvention {
  return "template" in convention;
}

/** Suggestions of ids that contain the text. */
function useSuggestions(text: string): readonly string[] {
  const ids = useSignal<readonly string[]>([]);
  useEffect(() => {
    const abort = new AbortController();
    const timer = setTimeout(() => {
      api.entities({ search: text, limit: 20 }, abort.signal).then(
        ({ entities }) => (ids.value = entities.map(({ id }) => id)),
        () => undefined, // the user can type without suggestions
      );
    }, 200);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [text]);
  return ids.value;
}

function Choice({ list, chosen, onChoose }: { list: readonly Convention[]; chosen: Convention; onChoose: (id: string) => void }) {
  return (
    <fieldset class="choices">
      <legend>Protocol</legend>
      {list.map((each) => (
        <label key={each.id} class={each.id === chosen.id ? "choice chosen" : "choice"}>
          <input type="radio" name="convention" value={each.id} checked={each.id === chosen.id} onChange={() => onChoose(each.id)} />
          <span class="choice-name">{each.name}</span>
          <span class="choice-about">{each.about}</span>
        </label>
      ))}
    </fieldset>
  );
}

function Place({ draft, place }: { draft: Draft; place: Place }) {
  const { http, mqtt } = place.addresses;
  return (
    <details class="place">
      <summary>
        The server is at <code>{place.host}</code>, MQTT at port {mqtt.port}
        {mqtt.tls ? " with TLS" : ""}
      </summary>
      <div class="fields">
        <label>
          <span>Host, as seen by the device</span>
          <input type="text" spellcheck={false} value={place.host} onInput={(e) => (draft.host.value = e.currentTarget.value)} />
        </label>
        {(mqtt.tls || http.tls) && (
          <label>
            <span>File with its CA certificate</span>
            <input
              type="text"
              spellcheck={false}
              placeholder="none: the device trusts it already"
              value={draft.ca.value}
              onInput={(e) => (draft.ca.value = e.currentTarget.value)}
            />
          </label>
        )}
      </div>
    </details>
  );
}

/** Creates the credentials. The entity is read first, to notice what arrives afterwards. */
async function make(convention: Convention, entity: string, name: string): Promise<Made> {
  const before = await api.entityIfAny(entity);
  if (caller.value?.guarded === false) return { device: { entity, name: "", token: "" }, convention, before };
  const made = await api.createPrincipal(name, "device", convention.filter(entity, name));
  return { device: { entity, name: made.name, token: made.token ?? "" }, convention, before };
}

function Form({ draft, list, chosen, place, onChoose, onMade }: {
  draft: Draft;
  list: readonly Convention[];
  chosen: Convention;
  place: Place;
  onChoose: (id: string) => void;
  onMade: (made: Made) => void;
}) {
  const error = useSignal("");
  const busy = useSignal(false);
  const entity = draft.entity.value.trim();
  const name = draft.name.value || principalName(entity);
  const problem = entity === "" ? "" : idProblem(entity) || chosen.problem(entity);
  const suggestions = useSuggestions(entity);
  const open = caller.value?.guarded === false;
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    busy.value = true;
    try {
      onMade(await make(chosen, entity, name));
    } catch (thrown) {
      error.value = describe(thrown);
    }
    busy.value = false;
  };
  return (
    <form class="card connect-form" aria-label="Connect a device" onSubmit={(event) => void submit(event)}>
      <div class="fields">
        <label>
          <span>Entity</span>
          <input
            type="text"
            required
            spellcheck={false}
            autocomplete="off"
            list="entities-known"
            placeholder="a new or existing id"
            value={draft.entity.value}
            onInput={(e) => {
              draft.entity.value = e.currentTarget.value;
              error.value = "";
            }}
          />
          <datalist id="entities-known">
            {suggestions.map((id) => (
              <option key={id} value={id} />
            ))}
          </datalist>
        </label>
        {!open && (
          <label>
            <span>Name of the principal</span>
            <input type="text" spellcheck={false} value={name} onInput={(e) => (draft.name.value = e.currentTarget.value)} />
          </label>
        )}
      </div>
      <Choice list={list} chosen={chosen} onChoose={onChoose} />
      <Place draft={draft} place={place} />
      {isLocalOnly(place) && <p class="hint">The server listens for MQTT on {place.addresses.mqtt.host} only, which other machines cannot reach.</p>}
      {open && <p class="hint">No login is required, so the device needs no credentials.</p>}
      <p role="alert">{problem || error.value}</p>
      <button type="submit" disabled={busy.value || entity === "" || problem !== "" || (!open && name === "")}>
        {open ? "Show the commands" : "Create a token and show the commands"}
      </button>
    </form>
  );
}

/** What a device has done since its credentials were created. */
function useArrival({ device, before }: Made): { arrival: Arrival | null; at: number; used: boolean; error: string } {
  const found = useSignal<Arrival | null>(null);
  const at = useSignal(0);
  const used = useSignal(false);
  const error = useSignal("");
  useEffect(
    () =>
      poll(async (abort) => {
        if (found.value) return;
        try {
          if (device.token !== "" && !used.value) used.value = (await api.principal(device.name, abort)).used_ms !== undefined;
          const arrival = device.token !== "" && !used.value ? null : arrivalOf(before, await api.entityIfAny(device.entity, abort));
          at.value = now.value;
          found.value = arrival;
          error.value = "";
        } catch (thrown) {
          if (!isAbort(thrown)) error.value = describe(thrown);
        }
      }, lookEvery),
    [],
  );
  return { arrival: found.value, at: at.value, used: used.value, error: error.value };
}

function Status({ made }: { made: Made }) {
  const { arrival, at, used, error } = useArrival(made);
  const { entity } = made.device;
  return (
    <div class={arrival ? "arrival arrived" : "arrival"}>
      <i aria-hidden="true" />
      <p role="status">
        {arrival ? (
          <>
            <strong>Connected.</strong> {arrival.key} is {formatValue(arrival.value)}, {arrival.ts > 0 ? `measured at ${formatTime(arrival.ts, now.value)}` : `reported at ${formatTime(at, now.value)}`}.
          </>
        ) : used ? (
          <>
            The device has logged in. Waiting for the first reading of <strong>{entity}</strong> …
          </>
        ) : (
          <>
            Waiting for the first reading of <strong>{entity}</strong> …
          </>
        )}
      </p>
      {arrival && <a href={entityRoute(entity)}>Open {entity}</a>}
      {error !== "" && <p class="problem">{error}</p>}
    </div>
  );
}

/** A message for a template, which can be edited, and its result. */
function TemplateMessage({ convention, device, place }: { convention: TemplateConvention; device: Device; place: Place }) {
  const message = useSignal(convention.message);
  const said = useSignal("");
  const topic = convention.topic(device.entity);
  useEffect(() => {
    const abort = new AbortController();
    api.tryTemplate({ name: convention.template.name, template: convention.template.template, topic, payload: message.value, bytes: "" }, abort.signal).then(
      (tried) => (said.value = tried.entity === device.entity ? "" : `This message is about ${tried.entity || "no entity"}, not about ${device.entity}.`),
      (thrown: unknown) => {
        if (!isAbort(thrown)) said.value = describe(thrown);
      },
    );
    return () => abort.abort();
  }, [message.value]);
  return (
    <>
      <label class="message">
        <span>
          Message to <code>{topic}</code>
        </span>
        <textarea rows={3} spellcheck={false} value={message.value} onInput={(e) => (message.value = e.currentTarget.value)} />
      </label>
      <p role="alert">{said.value}</p>
      <Commands lines={[{ label: "MQTT", text: publishTemplate(convention, device, place, message.value) }]} />
    </>
  );
}

function Commands({ lines }: { lines: readonly Line[] }) {
  return (
    <>
      {lines.map(({ label, text }) => (
        <Command key={label} label={label} text={text} />
      ))}
    </>
  );
}

function Connection({ made, place, onAgain }: { made: Made; place: Place; onAgain: () => void }) {
  const { device, convention } = made;
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => heading.current?.focus(), []); // the focused button is gone
  return (
    <section class="card connect-made" aria-label={`Connection of ${device.entity}`}>
      <h2 ref={heading} tabIndex={-1}>
        Connect {device.entity} by {convention.name}
      </h2>
      {device.token !== "" && (
        <p>
          The token of <strong>{device.name}</strong>, which is shown only once: <code class="token">{device.token}</code>
        </p>
      )}
      <p>Run one of these on the device, or on any machine that can reach the server:</p>
      {isTemplate(convention) ? (
        <TemplateMessage convention={convention} device={device} place={place} />
      ) : (
        <Commands lines={convention.commands(device, place)} />
      )}
      <Status made={made} />
      <button type="button" onClick={onAgain}>
        Connect another device
      </button>
    </section>
  );
}

export function ConnectPage({ route }: { route: ConnectRoute }) {
  const info = system.info.value;
  const templates = usePolled((abort) => api.templates(abort), 60_000, []);
  const draft: Draft = {
    entity: useSignal(route.entity),
    name: useSignal(""),
    host: useSignal(""),
    ca: useSignal(""),
  };
  const made = useSignal<Made | null>(null);
  useEffect(() => {
    if (route.entity === draft.entity.value.trim()) return; // the user followed a link to another entity
    draft.entity.value = route.entity;
    draft.name.value = "";
  }, [route.entity]);
  if (!info) return <main id="main" class="page access" tabIndex={-1} />;
  const list: readonly Convention[] = [...conventions, ...templateConventions(templates.value?.templates ?? [], templates.value?.ready ?? [])];
  const chosen = list.find(({ id }) => id === route.convention) ?? (list[0] as Convention);
  const here = placeOf(info.addresses);
  const place: Place = { ...here, host: draft.host.value || here.host, ca: draft.ca.value };
  const onChoose = (id: string): void => navigate({ page: "connect", entity: draft.entity.value.trim(), convention: id }, true);
  const again = (): void => {
    made.value = null;
    draft.entity.value = draft.name.value = "";
    navigate({ page: "connect", entity: "", convention: chosen.id }, true);
  };
  return (
    <main id="main" class="page access" tabIndex={-1}>
      <AccessNav current="connect" />
      <h1 class="visually-hidden">Connect a device</h1>
      {made.value ? (
        <>
          <Connection made={made.value} place={place} onAgain={again} />
          <Refusals of={made.value.device.entity} by={made.value.device.name} />
        </>
      ) : (
        <Form draft={draft} list={list} chosen={chosen} place={place} onChoose={onChoose} onMade={(value) => (made.value = value)} />
      )}
    </main>
  );
}
