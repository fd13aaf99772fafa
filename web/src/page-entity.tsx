import type { LiveEntity } from "./answers";
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { ActorLink } from "./actor-link";
import { Age } from "./age";
import { ApiError, api, describe, isAbort } from "./api";
import { now, serverNow } from "./clock";
import { EntityAlarms } from "./alarms";
import { Commands } from "./commands";
import { applyChange, chartableKeys } from "./entity";
import { formatAge, formatTime } from "./format";
import { freshness } from "./freshness";
import { Lanes } from "./lanes";
import { onBack, stream } from "./live";
import { navigate } from "./location";
import { presetFor, presets, type Range, resolveRange } from "./range";
import { RangePicker } from "./range-picker";
import { Refusals } from "./refusals";
import { aggregates, formatRoute, type Route } from "./route";
import { mayManage } from "./session";
import { StateView } from "./state-view";
import { applyPresence } from "./presence";
import { PresenceText } from "./presence-view";
import type { Change, Latest, PresenceEvent } from "./types";
import { ValueView } from "./value-view";

type EntityRoute = Extract<Route, { page: "entity" }>;

/** The number of charts that are drawn unless the user chooses keys. */
const shownCharts = 6;

interface ValueRowProps {
  name: string;
  latest: Latest;
  /** undefined: this value cannot be drawn. */
  drawn: boolean | undefined;
  color: number;
  onToggle: () => void;
}

function ValueRow({ name, latest, drawn, color, onToggle }: ValueRowProps) {
  return (
    <tr class={freshness(now.value - latest.ts) === "stale" ? "stale" : ""}>
      <th scope="row" title={name}>
        {name}
      </th>
      <td class="cell-value">
        <ValueView value={latest.value} />
      </td>
      <td class="cell-age">
        <Age ts={latest.ts} />
      </td>
      <td class="cell-draw">
        {drawn !== undefined && (
          <input
            type="checkbox"
            class={color >= 0 ? `series-${(color % 6) + 1}` : ""}
            checked={drawn}
            aria-label={`Draw ${name}`}
            onChange={onToggle}
          />
        )}
      </td>
    </tr>
  );
}

/** Fetches an entity and keeps it live; null until it has arrived. */
function useEntity(id: string) {
  const entity = useSignal<LiveEntity | null>(null);
  const problem = useSignal<{ text: string; missing: boolean } | null>(null);

  useEffect(() => {
    const abort = new AbortController();
    const pending: Change[] = [];
    let frame = 0;
    const load = async (): Promise<void> => {
      try {
        entity.value = await api.entity(id, abort.signal);
        problem.value = null;
      } catch (error) {
        if (isAbort(error)) return;
        problem.value = { text: describe(error), missing: error instanceof ApiError && error.status === 404 };
      }
    };
    const onChange = (change: Change): void => {
      pending.push(change);
      frame ||= requestAnimationFrame(() => {
        frame = 0;
        const changes = pending.splice(0);
        if (entity.value) entity.value = changes.reduce(applyChange, entity.value);
        else void load(); // the first reading of an entity that did not exist
      });
    };
    const onPresence = (event: PresenceEvent): void => {
      if (entity.value) entity.value = applyPresence(entity.value, event);
    };
    entity.value = null;
    void load();
    const stop = onBack(() => {
      if (problem.peek()) void load();
    });
    const unwatch = stream.watch({ entities: [id], onChange, onPresence, onGap: () => void load() });
    return () => {
      abort.abort();
      cancelAnimationFrame(frame);
      unwatch();
      stop();
    };
  }, [id]);

  return { entity: entity.value, problem: problem.value };
}

/** Says where the readings are if the chosen range may contain none. */
function OutOfRange({ entity, range, onAll }: { entity: LiveEntity; range: Range; onAll: () => void }) {
  const window = resolveRange(range, { now: now.value, newest: entity.updated_ms });
  if (entity.updated_ms <= 0 || range.kind === "all" || (entity.updated_ms >= window.from && entity.updated_ms < window.to)) return null;
  return (
    <p class="hint out-of-range">
      The newest reading is from {formatTime(entity.updated_ms, now.value)}.{" "}
      <button type="button" class="link" onClick={onAll}>
        Show everything
      </button>
    </p>
  );
}

function rangeTitle(range: Range): string {
  if (range.kind === "custom") return `${formatTime(range.from)} to ${formatTime(range.to)}`;
  return presets.find(({ name }) => name === range.kind)?.title ?? "";
}

function Content({ entity, route }: { entity: LiveEntity; route: EntityRoute }) {
  // The default is chosen once: a range that changes while somebody looks at it would be worse than a wrong one.
  const fallback = useRef<Range | undefined>(undefined);
  fallback.current ??= { kind: presetFor(serverNow() - entity.updated_ms) };
  const range = route.range ?? fallback.current;
  const chartable = chartableKeys(entity);
  const drawn = route.keys ? chartable.filter((key) => route.keys?.includes(key)) : chartable.slice(0, shownCharts);
  const keys = Object.keys(entity.latest).sort();
  const setRange = (next: Range): void => navigate({ ...route, range: next }, true);
  const toggle = (key: string): void => {
    const next = drawn.includes(key) ? drawn.filter((other) => other !== key) : [...drawn, key];
    navigate({ ...route, keys: next }, true);
  };
  const requested = drawn.map((key) => ({ key, isSwitch: typeof entity.latest[key]?.value === "boolean" }));
  return (
    <div class="split entity">
      <section class="card" aria-label="Current values">
        <table class="keys">
          <thead>
            <tr>
              <th scope="col">Key</th>
              <th scope="col" class="cell-value">
                Value
              </th>
              <th scope="col" class="cell-age">
                Age
              </th>
              <th scope="col" class="cell-draw">
                Draw
              </th>
            </tr>
          </thead>
          <tbody>
            {keys.map((key) => (
              <ValueRow
                key={key}
                name={key}
                latest={entity.latest[key] as Latest}
                drawn={chartable.includes(key) ? drawn.includes(key) : undefined}
                color={drawn.indexOf(key)}
                onToggle={() => toggle(key)}
              />
            ))}
          </tbody>
        </table>
        {keys.length === 0 && <p class="nothing">No reading yet.</p>}
      </section>
      <section class="panel history" aria-label="History">
        <RangePicker
          range={range}
          window={() => resolveRange(range.kind === "all" ? { kind: "24h" } : range, { now: serverNow(), newest: entity.updated_ms }, true)}
          onChange={setRange}
        />
        <label class="agg-choice">
          Show{" "}
          <select value={route.agg} onChange={(event) => navigate({ ...route, agg: event.currentTarget.value }, true)}>
            <option value="">readings or averages</option>
            {aggregates.map((name) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <OutOfRange entity={entity} range={range} onAll={() => setRange({ kind: "all" })} />
        {drawn.length > 0 ? (
          <Lanes
            request={{ id: entity.id, keys: requested, range, agg: route.agg, follow: false, newest: entity.updated_ms }}
            rangeTitle={rangeTitle(range)}
            onSelect={(from, to) => setRange({ kind: "custom", from: Math.floor(from * 1000), to: Math.ceil(to * 1000) })}
          />
        ) : (
          <p class="lane-empty">
            {keys.length === 0 ? "The history begins with the first reading." : chartable.length > 0 ? "Choose a value to draw." : "This entity has no numbers or switches to draw; its values are in the list."}
          </p>
        )}
        {drawn.length > 0 && <p class="hint pointer-only">Drag across a chart to zoom in.</p>}
      </section>
    </div>
  );
}

export function EntityPage({ route }: { route: EntityRoute }) {
  const { entity, problem } = useEntity(route.id);
  return (
    <main id="main" tabIndex={-1}>
      <nav class="crumbs" aria-label="Breadcrumb">
        <a href="#/">Entities</a>
        <span aria-hidden="true">/</span>
      </nav>
      <header class="title">
        <h1>{route.id}</h1>
        {entity && (
          <dl class="facts">
            <div>
              <dt>Device</dt>
              <dd>
                <PresenceText presence={entity.presence} />
                {mayManage() && (
                  <>
                    {" "}
                    <a href={formatRoute({ page: "connect", entity: entity.id, convention: "" })}>Connect it</a>
                  </>
                )}
              </dd>
            </div>
            <div>
              <dt>Last reading</dt>
              <dd>
                <Age ts={entity.updated_ms} />
              </dd>
            </div>
            <div>
              <dt>Known since</dt>
              <dd title={formatTime(entity.created_ms, now.value)}>{formatAge(now.value - entity.created_ms)}</dd>
            </div>
            {entity.type && (
              <div>
                <dt>Type</dt>
                <dd>
                  <a href={formatRoute({ page: "types", id: entity.type })}>{entity.type}</a>
                </dd>
              </div>
            )}
            {entity.actor && (
              <div>
                <dt>Actor</dt>
                <dd>
                  <ActorLink pid={entity.actor} />
                </dd>
              </div>
            )}
          </dl>
        )}
      </header>
      {problem && (
        <div class="problem" role="alert">
          {problem.missing ? `There is no entity “${route.id}” yet. It appears here with its first reading.` : problem.text}
          {problem.missing && mayManage() && (
            <>
              {" "}
              <a href={formatRoute({ page: "connect", entity: route.id, convention: "" })}>Connect its device</a>
            </>
          )}
        </div>
      )}
      <Refusals of={route.id} />
      {entity && <EntityAlarms key={`alarms of ${entity.id}`} id={entity.id} />}
      {entity ? <Content key={entity.id} entity={entity} route={route} /> : !problem && <div class="panel placeholder" />}
      {entity && <Commands key={`commands of ${entity.id}`} id={entity.id} type={entity.type} />}
      {entity && <StateView key={entity.id} id={entity.id} />}
    </main>
  );
}
