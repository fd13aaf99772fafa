import { api } from "./api";
import { now } from "./clock";
import { formatAge, formatTime } from "./format";
import type { Json } from "./json";
import { leaves, times, type Twin, twins } from "./leaves";
import { usePolled } from "./polled";
import { entityRoute } from "./route";
import { RelationGraph } from "./relation-graph";
import type { EntityState } from "./answers";
import type { Relation } from "./types";
import { ValueView } from "./value-view";

/** The most relations listed for each direction. */
const shownRelations = 50;

function Since({ ms }: { ms: number | undefined }) {
  if (ms === undefined) return null;
  return <time title={formatTime(ms, now.value)}>{formatAge(now.value - ms)}</time>;
}

function Attributes({ state }: { state: EntityState }) {
  const set = times(state.metadata.attributes);
  return (
    <table class="attributes">
      <thead>
        <tr>
          <th scope="col">Attribute</th>
          <th scope="col">Value</th>
          <th scope="col" class="cell-age">
            Set
          </th>
        </tr>
      </thead>
      <tbody>
        {leaves(state.attributes).map(({ path, value }) => (
          <tr key={path}>
            <th scope="row">{path}</th>
            <td>
              <ValueView value={value} />
            </td>
            <td class="cell-age">
              <Since ms={set.get(path)} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Side({ value }: { value: Json | undefined }) {
  return value === undefined ? <span class="value-more">–</span> : <ValueView value={value} />;
}

function standing(twin: Twin): string {
  if (twin.differs) return twin.reported === undefined ? "not reported" : "differs";
  return twin.desired === undefined ? "reported only" : "as desired";
}

function Twins({ state }: { state: EntityState }) {
  const rows = twins(state.desired, state.reported, state.delta);
  return (
    <table class="twins">
      <thead>
        <tr>
          <th scope="col">Property</th>
          <th scope="col">Desired</th>
          <th scope="col">Reported</th>
          <th scope="col" class="cell-standing">
            State
          </th>
        </tr>
      </thead>
      <tbody>
        {rows.map((twin) => (
          <tr key={twin.path} class={twin.differs ? "differs" : ""}>
            <th scope="row">{twin.path}</th>
            <td>
              <Side value={twin.desired} />
            </td>
            <td>
              <Side value={twin.reported} />
            </td>
            <td class="cell-standing">{standing(twin)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Relations({ id, relations, more }: { id: string; relations: readonly Relation[]; more: boolean }) {
  return (
    <>
      <RelationGraph id={id} relations={relations} />
      <table class="relations">
        <thead>
          <tr>
            <th scope="col">From</th>
            <th scope="col">Relation</th>
            <th scope="col">To</th>
            <th scope="col">Properties</th>
          </tr>
        </thead>
        <tbody>
          {relations.map(({ from, type, to, properties }) => (
            <tr key={`${from}\n${type}\n${to}`}>
              <td>{from === id ? from : <a href={entityRoute(from)}>{from}</a>}</td>
              <td>{type}</td>
              <td>{to === id ? to : <a href={entityRoute(to)}>{to}</a>}</td>
              <td>{properties && Object.keys(properties).length > 0 ? <ValueView value={properties} /> : ""}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {more && <p class="hint">The first {shownRelations} of each direction are listed.</p>}
    </>
  );
}

interface Shown {
  state: EntityState;
  relations: Relation[];
  more: boolean;
}

function total(counts: Record<string, number>): number {
  return Object.values(counts).reduce((sum, n) => sum + n, 0);
}

async function load(id: string, abort: AbortSignal): Promise<Shown> {
  const state = await api.state(id, abort);
  const pages = await Promise.all(
    (["out", "in"] as const).flatMap((direction) =>
      total(state.relations[direction]) > 0 ? api.relations(id, direction, shownRelations, abort) : [],
    ),
  );
  return { state, relations: pages.flatMap((page) => page.relations), more: pages.some((page) => Boolean(page.next)) };
}

/** The attributes, desired state and relations of an entity; nothing if it has none. */
export function StateView({ id }: { id: string }) {
  const { value, error } = usePolled((abort) => load(id, abort), 2000, [id]);
  const { state, relations, more } = value ?? {};
  const waiting = state ? leaves(state.delta).length : 0;
  return (
    <>
      {error !== "" && <p class="problem">{error}</p>}
      <div class="state-grid">
        {state && Object.keys(state.desired).length + Object.keys(state.reported).length > 0 && (
          <section class="panel" aria-label="Desired and reported">
            <header>
              <h2>Desired and reported</h2>
              <span class={waiting > 0 ? "panel-range busy" : "panel-range"}>{waiting > 0 ? `${waiting} not as desired` : "all as desired"}</span>
            </header>
            <Twins state={state} />
          </section>
        )}
        {state && Object.keys(state.attributes).length > 0 && (
          <section class="panel" aria-label="Attributes">
            <header>
              <h2>Attributes</h2>
            </header>
            <Attributes state={state} />
          </section>
        )}
        {relations && relations.length > 0 && (
          <section class="panel wide" aria-label="Relations">
            <header>
              <h2>Relations</h2>
            </header>
            <Relations id={id} relations={relations} more={more ?? false} />
          </section>
        )}
      </div>
    </>
  );
}
