import { useEffect, useMemo, useRef } from "preact/hooks";
import { ActorTreeView } from "./actor-tree";
import { now } from "./clock";
import { formatAge, formatBytes, formatCount, formatPlural, formatTime, formatUptime } from "./format";
import { navigate } from "./location";
import { poll } from "./poll";
import { RateChart } from "./rate-chart";
import { Refusals } from "./refusals";
import { actorRoute, type Route } from "./route";
import { Search } from "./search";
import { system } from "./system";
import { Tile } from "./tile";
import type { TreeRow } from "./tree";
import type { DeadLetter, System } from "./types";

type ActorsRoute = Extract<Route, { page: "actors" }>;

function Numbers({ info }: { info: System | null }) {
  const rate = system.rates.value.at(-1);
  const used = info?.ingest.window_bytes ?? 0;
  return (
    <dl class="tiles" aria-label="Overview">
      <Tile label="Actors" value={info ? formatCount(info.actors) : "–"} />
      <Tile label="Messages" value={rate ? formatCount(rate.messages) : "–"} note="/s" />
      <Tile label="Runnable" value={info ? formatCount(info.runnable) : "–"} note={info ? `on ${formatPlural(info.workers, "worker")}` : "\u00a0"} />
      <Tile label="Failures" value={info ? formatCount(info.failures) : "–"} note={info ? `${formatCount(info.restarts)} restarts` : "\u00a0"} alarm={(info?.failures ?? 0) > 0} />
      <Tile label="Dead letters" value={info ? formatCount(info.dead_letters.total) : "–"} alarm={(info?.dead_letters.total ?? 0) > 0} />
      <Tile label="Window" value={info ? formatBytes(used) : "–"} note={info ? `of ${formatBytes(info.ingest.window_bytes_max)}` : "\u00a0"} />
      <Tile label="Uptime" value={info ? formatUptime(info.now_ms - info.started_ms) : "–"} />
    </dl>
  );
}

/** Moves the focus as usual in a tree: up and down between lines, right opens, left closes or goes to the parent. */
function onTreeKey(event: KeyboardEvent, rows: readonly TreeRow[], index: number, view: ActorTreeView): void {
  if (event.target !== event.currentTarget) return;
  if (event.key === "Enter") {
    (event.currentTarget as HTMLElement).querySelector<HTMLElement>("a.actor-name")?.click();
    return;
  }
  const body = (event.currentTarget as HTMLElement).parentElement;
  const focus = (to: number): void => (body?.children[to] as HTMLElement | undefined)?.focus();
  const row = rows[index] as TreeRow;
  switch (event.key) {
    case "ArrowDown":
      focus(index + 1);
      break;
    case "ArrowUp":
      focus(index - 1);
      break;
    case "Home":
      focus(0);
      break;
    case "End":
      focus(rows.length - 1);
      break;
    case "ArrowRight":
      if (!row.expanded && row.node.info.children > 0) void view.toggle(row.path, true);
      else focus(index + 1);
      break;
    case "ArrowLeft":
      if (row.expanded) void view.toggle(row.path, false);
      else focus(rows.findLastIndex((other, i) => i < index && other.level < row.level));
      break;
    default:
      return;
  }
  event.preventDefault();
}

function ActorRow({ row, onToggle, onKey, first }: { row: TreeRow; onToggle: () => void; onKey: (event: KeyboardEvent) => void; first: boolean }) {
  const { info, rate, more, children } = row.node;
  const branch = info.children > 0;
  const running = info.state.toLowerCase();
  return (
    <tr
      role="row"
      tabIndex={first ? 0 : -1}
      aria-level={row.level}
      aria-posinset={row.place}
      aria-setsize={row.siblings}
      {...(branch ? { "aria-expanded": row.expanded } : {})}
      class={row.match ? "" : "on-the-way"}
      onKeyDown={onKey}
      onClick={branch ? onToggle : undefined}
    >
      <th role="rowheader" scope="row" class={`cell-actor level-${Math.min(row.level, 8)}`} title={`${info.path}\n${info.pid}`}>
        <span class={branch ? (row.expanded ? "twist open" : "twist") : "twist leaf"} aria-hidden="true" />
        <a class="actor-name" href={actorRoute(info.pid)} tabIndex={first ? 0 : -1} onClick={(event) => event.stopPropagation()}>
          {row.name === "/" ? (system.info.value?.name ?? "/") : row.name}
        </a>
        {branch && (
          <span class="actor-children">
            {formatCount(info.children)}
            {more && row.expanded && children ? `, first ${children.length}` : ""}
          </span>
        )}
      </th>
      <td role="gridcell" class="cell-type" title={info.type}>
        {info.type}
      </td>
      <td role="gridcell" class="cell-state">
        <span class={`state ${running}`}>{running === "running" ? info.activity : info.state}</span>
      </td>
      <td role="gridcell" class={info.mailbox >= 100 ? "number deep" : "number"}>
        {formatCount(info.mailbox)}
      </td>
      <td role="gridcell" class="number">
        {rate === undefined ? "–" : rate > 0 ? formatCount(rate) : "0"}
      </td>
      <td role="gridcell" class={info.restarts > 0 ? "number deep" : "number"}>
        {formatCount(info.restarts)}
      </td>
    </tr>
  );
}

function Tree({ view }: { view: ActorTreeView }) {
  const rows = view.rows.value;
  const searching = view.search.value !== "";
  return (
    <section class="card" aria-label="Actor tree">
      <table role="treegrid" class="actors" aria-label="Actors">
        <thead role="rowgroup">
          <tr role="row">
            <th role="columnheader" scope="col">
              Actor
            </th>
            <th role="columnheader" scope="col" class="cell-type">
              Type
            </th>
            <th role="columnheader" scope="col" class="cell-state">
              State
            </th>
            <th role="columnheader" scope="col" class="number">
              Mailbox
            </th>
            <th role="columnheader" scope="col" class="number">
              Msgs/s
            </th>
            <th role="columnheader" scope="col" class="number">
              Restarts
            </th>
          </tr>
        </thead>
        <tbody role="rowgroup">
          {rows.map((row, i) => (
            <ActorRow
              key={row.path}
              row={row}
              first={i === 0}
              onToggle={() => void view.toggle(row.path, !row.expanded)}
              onKey={(event) => onTreeKey(event, rows, i, view)}
            />
          ))}
        </tbody>
      </table>
      {searching && rows.length === 0 && <p class="nothing">No actor has “{view.search.value}” in its path or type.</p>}
      <footer>
        <span role="status">
          {searching ? `${rows.filter((row) => row.match).length} found` : `${rows.length} shown`}
          {searching && view.partial.value ? "; large branches were searched only in part" : ""}
        </span>
      </footer>
    </section>
  );
}

function Reasons({ info }: { info: System }) {
  const reasons = Object.entries(info.dead_letters.by_reason).sort((a, b) => b[1] - a[1]);
  const most = reasons[0]?.[1] ?? 1;
  return (
    <table class="reasons">
      <thead class="visually-hidden">
        <tr>
          <th scope="col">Reason</th>
          <th scope="col">Dead letters</th>
        </tr>
      </thead>
      <tbody>
        {reasons.map(([reason, count]) => (
          <tr key={reason}>
            <th scope="row">{reason}</th>
            <td>
              <svg class="bar" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">
                <rect width={(count / most) * 100} height="6" />
              </svg>
              <span class="number">{formatCount(count)}</span>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Letters({ letters }: { letters: readonly DeadLetter[] }) {
  return (
    <table class="letters">
      <thead>
        <tr>
          <th scope="col">When</th>
          <th scope="col">To and message</th>
          <th scope="col">Reason</th>
        </tr>
      </thead>
      <tbody>
        {letters.map((letter, i) => (
          <tr key={`${letter.time_ms} ${i}`}>
            <td class="letter-time" title={formatTime(letter.time_ms, now.value)}>
              {formatAge(now.value - letter.time_ms)}
            </td>
            <td title={`${letter.type} to ${letter.to}${letter.from ? ` from ${letter.from}` : ""}`}>
              <code>{letter.to}</code>
              <code class="letter-type">{letter.type}</code>
            </td>
            <td>{letter.reason}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function DeadLetters({ info }: { info: System }) {
  const { total, recent } = info.dead_letters;
  return (
    <section class="panel dead-letters" aria-label="Dead letters">
      <header>
        <h2>Dead letters</h2>
        <span class="panel-range">{formatCount(total)} in all</span>
      </header>
      {total === 0 ? (
        <p class="hint">None: every message reached its actor.</p>
      ) : (
        <>
          <Reasons info={info} />
          <Letters letters={recent.slice(0, 20)} />
        </>
      )}
    </section>
  );
}

export function ActorsPage({ route }: { route: ActorsRoute }) {
  const view = useMemo(() => new ActorTreeView(), []);
  const restart = useRef<(() => void) | undefined>(undefined);
  const info = system.info.value;

  useEffect(() => {
    let stop = poll((signal) => view.refresh(signal), 1000);
    restart.current = () => {
      stop();
      stop = poll((signal) => view.refresh(signal), 1000);
    };
    return () => stop();
  }, []);
  useEffect(() => {
    view.search.value = route.search;
    if (route.search !== "") restart.current?.(); // a search starts to load closed branches at once
  }, [route.search]);

  return (
    <main id="main" tabIndex={-1}>
      <h1 class="visually-hidden">Actors</h1>
      <Numbers info={info} />
      <div class="split actors-split">
        <div class="column">
          <div class="toolbar">
            <Search
              value={route.search}
              label="Search actors by path or type"
              placeholder="Search actors"
              onSearch={(search) => navigate({ ...route, search }, true)}
            />
            <nav class="links" aria-label="More about the actors">
              <a href="inspect/profile">Where the time goes</a>
              <a href="inspect/top">Top</a>
              <a href="inspect/waits">Who waits</a>
              <a href="inspect/failures">Failures</a>
            </nav>
          </div>
          {view.error.value !== "" && <p class="problem">{view.error.value}</p>}
          <Tree view={view} />
        </div>
        <div class="column">
          <RateChart rates={system.rates.value} of="all actors" />
          <Refusals />
          {info && <DeadLetters info={info} />}
        </div>
      </div>
    </main>
  );
}
