import type { LiveEntity } from "./answers";
import { useComputed } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { Age } from "./age";
import { now } from "./clock";
import { conventions, placeOf } from "./connect";
import { Command } from "./copy";
import { chartableKeys } from "./entity";
import { EntityList, type Row } from "./entity-list";
import { formatCount, formatLatency, formatPlural, formatTime, formatUptime, formatValue } from "./format";
import { freshness } from "./freshness";
import { Lanes } from "./lanes";
import { onBack, stream } from "./live";
import { navigate } from "./location";
import { PresenceDot } from "./presence-view";
import { QueryBox } from "./query-box";
import { entityRoute, formatRoute, type Route } from "./route";
import { Search } from "./search";
import { caller, mayManage } from "./session";
import { Sparkline } from "./sparkline";
import { system } from "./system";
import { Tile } from "./tile";

import { visible } from "./visibility";

type EntitiesRoute = Extract<Route, { page: "entities" }>;

/** The number of values that fit in a row, including the one that says how many more there are. */
const shownValues = 4;

/** How often a filtered list is requested again, in milliseconds. */
const refilterEvery = 5_000;

/** The number of charts in the panel. */
const shownCharts = 4;

function Numbers() {
  const info = system.info.value;
  const rate = system.rates.value.at(-1);
  const ingest = info?.ingest;
  return (
    <dl class="tiles" aria-label="Overview">
      <Tile
        label="Entities"
        value={ingest ? formatCount(ingest.entities_registered) : "–"}
        note={ingest ? `${formatCount(ingest.entities_live)} live` : "\u00a0"}
      />
      <Tile label="Readings" value={rate ? formatCount(rate.readings) : "–"} note="/s" />
      <Tile label="Commit, p99" value={ingest ? formatLatency(ingest.commit_p99_ms) : "–"} note={ingest ? `p50 ${formatLatency(ingest.commit_p50_ms)}` : ""} />
      <Tile label="Uptime" value={info ? formatUptime(info.now_ms - info.started_ms) : "–"} />
    </dl>
  );
}

function Values({ entity }: { entity: LiveEntity }) {
  const keys = Object.keys(entity.latest).sort();
  const shown = keys.length > shownValues ? shownValues - 1 : keys.length;
  return (
    <ul class="values">
      {keys.slice(0, shown).map((key) => {
        const value = entity.latest[key]?.value ?? null;
        return (
          <li key={key}>
            <span class="value-key">{key}</span> <span class={`value ${typeof value}`}>{formatValue(value)}</span>
          </li>
        );
      })}
      {keys.length > shown && <li class="value-more">+{keys.length - shown}</li>}
    </ul>
  );
}

function EntityRow({ row, selected, onSelect }: { row: Row; selected: boolean; onSelect: (id: string) => void }) {
  const entity = row.entity.value;
  // The row is rendered when its freshness changes, not every second.
  const state = useComputed(() => freshness(now.value - row.entity.value.updated_ms)).value;
  return (
    <tr class={state === "stale" ? "stale" : ""} aria-selected={selected} onClick={() => onSelect(entity.id)}>
      <th scope="row">
        <span class="row-name">
          <PresenceDot presence={entity.presence} />
          <a href={entityRoute(entity.id)} title={entity.id} onClick={(event) => event.stopPropagation()}>
            {entity.id}
          </a>
        </span>
      </th>
      <td class="cell-values">
        <Values entity={entity} />
      </td>
      <td class="cell-spark">
        <Sparkline values={row.spark.value} />
      </td>
      <td class="cell-age">
        <Age ts={entity.updated_ms} />
      </td>
      <td class="cell-select">
        <button
          type="button"
          aria-pressed={selected}
          aria-label={`Show the chart of ${entity.id}`}
          onClick={(event) => {
            event.stopPropagation();
            onSelect(entity.id);
          }}
        >
          <svg viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
            <path d="M1.5 11.5 5 7l3 2.5 6-6" />
          </svg>
        </button>
      </td>
    </tr>
  );
}

/** The charts of the selected entity for the last 15 minutes. */
function Panel({ row }: { row: Row }) {
  const entity = row.entity.value;
  const keys = chartableKeys(entity);
  const old = useComputed(() => now.value - row.entity.value.updated_ms > 15 * 60_000).value;
  const drawn = keys.slice(0, shownCharts).map((key) => ({ key, isSwitch: typeof entity.latest[key]?.value === "boolean" }));
  return (
    <section class="panel" aria-label={`Charts of ${entity.id}`}>
      <header>
        <h2>
          <a href={entityRoute(entity.id)}>{entity.id}</a>
        </h2>
        <Age ts={entity.updated_ms} />
        <span class="panel-range">{entity.updated_ms <= 0 ? "" : old ? `until ${formatTime(entity.updated_ms)}` : "last 15 min"}</span>
      </header>
      {drawn.length > 0 ? (
        <Lanes
          key={entity.id}
          request={{ id: entity.id, keys: drawn, range: { kind: "15m" }, agg: "", follow: true, newest: entity.updated_ms }}
          rangeTitle="the last 15 minutes"
        />
      ) : (
        <p class="lane-empty">This entity has no numbers to draw.</p>
      )}
      <a class="panel-more" href={entityRoute(entity.id)}>
        {keys.length > drawn.length ? `All ${keys.length} charts and the history` : "All values and the history"}
      </a>
    </section>
  );
}

/** Shown before any reading: how to send the first one. It disappears when that arrives. */
function Empty() {
  const addresses = system.info.value?.addresses;
  const native = conventions[0];
  const lines = addresses ? native?.commands({ entity: "greenhouse", name: "", token: "" }, placeOf(addresses)) : [];
  const guarded = caller.value?.guarded === true;
  return (
    <section class="empty">
      <h2>Waiting for the first reading</h2>
      <p>
        An entity is created by its first reading; nothing has to be declared.{" "}
        {guarded ? "Give its device credentials, and it will appear here." : "Send one, and it will appear here:"}
      </p>
      {!guarded && lines?.map(({ label, text }) => <Command key={label} label={label} text={text} />)}
      {mayManage() && (
        <p>
          <a href={formatRoute({ page: "connect", entity: "", convention: "" })}>Connect a device</a>
        </p>
      )}
      <p class="hint">
        To see a house full of sensors, start the server with <code>greenroom serve --demo</code>.
      </p>
    </section>
  );
}

function noMatch(list: EntityList): string {
  if (list.filter.value === "") return `No entity has “${list.search.value}” in its id.`;
  return list.search.value === "" ? "No entity matches the filter." : `No entity with “${list.search.value}” in its id matches the filter.`;
}

/** The entity whose charts are shown first: the one with the most to draw. */
function richest(list: EntityList): string {
  let best = "";
  let most = 0;
  for (const id of list.ids.value) {
    const row = list.row(id);
    const keys = row ? chartableKeys(row.entity.peek()).length : 0;
    if (keys > most) [best, most] = [id, keys];
  }
  return best;
}

export function EntitiesPage({ route }: { route: EntitiesRoute }) {
  const list = useMemo(() => new EntityList(), []);
  const chosen = useRef("");
  const ids = list.ids.value;
  const more = list.next.value !== undefined;
  // Of a long list only what is shown is wanted; a whole one wants all, so that new entities appear in it.
  const wanted = more ? ids : null;
  const registered = useComputed(() => system.info.value?.ingest.entities_registered ?? 0).value;
  const known = useRef(registered);

  useEffect(() => void list.load(route.search, route.filter), [route.search, route.filter]);
  useEffect(() => {
    if (route.filter === "") return undefined;
    // Readings make entities match and no longer match.
    const timer = setInterval(() => {
      if (visible.peek() && !list.loading.peek()) void list.load();
    }, refilterEvery);
    return () => clearInterval(timer);
  }, [route.filter]);
  useEffect(() => () => list.close(), []);
  useEffect(
    () =>
      onBack(() => {
        if (list.error.peek() !== "") void list.load();
      }),
    [],
  );
  useEffect(
    () => stream.watch({ entities: wanted, onChange: (change) => list.apply(change), onPresence: (event) => list.applyPresence(event), onGap: () => void list.load() }),
    [wanted?.join("\n")],
  );
  useEffect(() => {
    const changed = known.current !== 0 && registered !== known.current;
    known.current = registered;
    if (changed && more) void list.load();
  }, [registered]);

  if (list.row(chosen.current) === undefined) chosen.current = richest(list);
  const selected = list.row(route.selected) ? route.selected : chosen.current;
  const row = list.row(selected);
  const onSelect = (id: string): void => navigate({ ...route, selected: id }, true);
  const searching = list.search.value !== "" || list.filter.value !== "";
  const nothing = ids.length === 0 && !more && !list.loading.value && list.error.value === "";

  return (
    <main id="main" tabIndex={-1}>
      <h1 class="visually-hidden">Entities</h1>
      <div class="toolbar">
        <Search
          value={route.search}
          label="Search entities by id"
          placeholder="Search entities"
          onSearch={(search) => navigate({ ...route, search }, true)}
        />
        <Numbers />
      </div>
      {(!nothing || searching) && <QueryBox filter={route.filter} onFilter={(filter) => navigate({ ...route, filter }, true)} />}
      {list.error.value !== "" && <p class="problem">{list.error.value}</p>}
      {nothing && !searching ? (
        <Empty />
      ) : (
        <div class="split">
          <section class="card" aria-label="Entities">
            <table class="entities" aria-busy={list.loading.value}>
              <thead>
                <tr>
                  <th scope="col">Entity</th>
                  <th scope="col">Current values</th>
                  <th scope="col" class="cell-spark">
                    Trend
                  </th>
                  <th scope="col" class="cell-age">
                    Age
                  </th>
                  <th scope="col" class="cell-select">
                    <span class="visually-hidden">Chart</span>
                  </th>
                </tr>
              </thead>
              <tbody>
                {ids.map((id) => {
                  const item = list.row(id);
                  return item && <EntityRow key={id} row={item} selected={id === selected} onSelect={onSelect} />;
                })}
              </tbody>
            </table>
            {nothing && <p class="nothing">{noMatch(list)}</p>}
            <footer>
              <span role="status">
                {formatPlural(ids.length, "entity", "entities")} shown
                {more && !searching && registered > 0 ? ` of ${registered.toLocaleString("en-US")}` : ""}
              </span>
              {more && (
                <button type="button" disabled={list.loading.value} onClick={() => void list.loadMore()}>
                  Load more
                </button>
              )}
            </footer>
          </section>
          {row ? <Panel row={row} /> : <div class="panel placeholder" />}
        </div>
      )}
    </main>
  );
}
