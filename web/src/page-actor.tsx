import { type ComponentChildren, Fragment } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import { ActorLink } from "./actor-link";
import { ActorView } from "./actor-view";
import { now } from "./clock";
import { formatAge, formatCount, formatLatency, formatTime } from "./format";
import { type Json, stringifyJSON } from "./json";
import { poll } from "./poll";
import { RateChart } from "./rate-chart";
import { entityRoute, formatRoute, type Route } from "./route";
import { system } from "./system";
import { Tile } from "./tile";
import { nameOf } from "./tree";
import type { ActorDetail, Failure as ActorFailure } from "./types";
import { ValueView } from "./value-view";

type ActorRoute = Extract<Route, { page: "actor" }>;

/** The most children that are listed; the tree has the others. */
const shownChildren = 12;

/** Formats a duration as short as that of a timer: 20 ms, 3 s, 5 min. */
function formatSpan(ms: number): string {
  return ms < 1000 ? formatLatency(Math.max(ms, 0.01)) : formatAge(ms);
}

function Numbers({ view, detail }: { view: ActorView; detail: ActorDetail }) {
  const rate = view.rates.value.at(-1);
  const { actor } = detail;
  return (
    <dl class="tiles" aria-label="Overview">
      <Tile label="Messages" value={rate ? formatCount(rate.messages) : "–"} note="/s" />
      <Tile label="Handled" value={formatCount(actor.handled)} />
      <Tile label="Mailbox" value={formatCount(actor.mailbox)} alarm={actor.mailbox >= 100} />
      <Tile label="Oldest waits" value={detail.mail.length > 0 ? formatSpan(detail.oldest_ms) : "–"} alarm={detail.oldest_ms >= 1000} />
      <Tile label="Restarts" value={formatCount(actor.restarts)} alarm={actor.restarts > 0} />
      <Tile label="Stash" value={detail.busy ? "–" : formatCount(detail.stash)} />
      <Tile label="Children" value={formatCount(actor.children)} />
    </dl>
  );
}

function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

/** What the actor is doing now. */
function Doing({ detail }: { detail: ActorDetail }) {
  return (
    <section class="panel doing" aria-label="At work">
      <header>
        <h2>At work</h2>
        <span class={detail.busy ? "panel-range busy" : "panel-range"}>{detail.busy ? "busy: did not answer within 100 ms" : "answers"}</span>
      </header>
      <dl class="rows">
        <Fact name="Activity">
          {detail.actor.activity}
          {!detail.actor.attached && ", detached: idle for so long that it gave its mailbox back"}
        </Fact>
        <Fact name={detail.busy ? "Handles" : "Handled last"}>{detail.current ? <code>{detail.current}</code> : "nothing"}</Fact>
        {detail.sender && (
          <Fact name="Sent by">
            <ActorLink pid={detail.sender} />
          </Fact>
        )}
        {detail.waits_for && (
          <Fact name="Waits for">
            <ActorLink pid={detail.waits_for} />
          </Fact>
        )}
      </dl>
      <a class="panel-more" href={`inspect/record?pid=${encodeURIComponent(detail.actor.pid)}`}>
        Record what it handles in two seconds
      </a>
    </section>
  );
}

function Mailbox({ detail }: { detail: ActorDetail }) {
  const most = detail.mail[0]?.count ?? 1;
  return (
    <section class="panel mail" aria-label="Mailbox">
      <header>
        <h2>Mailbox</h2>
        <span class="panel-range">{formatCount(detail.actor.mailbox)} waiting</span>
      </header>
      {detail.mail.length === 0 ? (
        <p class="hint">Empty: no message is waiting.</p>
      ) : (
        <table class="reasons">
          <thead class="visually-hidden">
            <tr>
              <th scope="col">Type</th>
              <th scope="col">Messages</th>
            </tr>
          </thead>
          <tbody>
            {detail.mail.map((mail) => (
              <tr key={mail.type}>
                <th scope="row" title={mail.type}>
                  <code>{mail.type}</code>
                </th>
                <td>
                  <svg class="bar" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">
                    <rect width={(mail.count / most) * 100} height="6" />
                  </svg>
                  <span class="number">{formatCount(mail.count)}</span>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}

function Failure({ failure }: { failure: ActorFailure }) {
  return (
    <li>
      <p class="failure-head">
        <time dateTime={new Date(failure.time_ms).toISOString()} title={`${formatAge(now.value - failure.time_ms)} ago`}>
          {formatTime(failure.time_ms, now.value)}
        </time>
        {failure.message_type && (
          <span>
            while handling <code>{failure.message_type}</code>
          </span>
        )}
      </p>
      <p class="failure-text">{failure.error}</p>
      {failure.stack && (
        <details class="json">
          <summary>Stack trace</summary>
          <pre>{failure.stack}</pre>
        </details>
      )}
    </li>
  );
}

function Failures({ detail }: { detail: ActorDetail }) {
  return (
    <section class="panel failures" aria-label="Failures">
      <header>
        <h2>Failures</h2>
        <span class="panel-range">{detail.failures.length > 0 ? `the last ${detail.failures.length}` : ""}</span>
      </header>
      {detail.failures.length === 0 ? (
        <p class="hint">None since the actor started.</p>
      ) : (
        <ol>
          {detail.failures.map((failure, i) => (
            <Failure key={`${failure.time_ms} ${i}`} failure={failure} />
          ))}
        </ol>
      )}
    </section>
  );
}

function isObject(view: Json | undefined): view is { [key: string]: Json } {
  return typeof view === "object" && view !== null && !Array.isArray(view);
}

/** What the actor shows of its state. */
function State({ detail }: { detail: ActorDetail }) {
  const { view } = detail;
  const hint = detail.busy ? "Unknown while the actor is busy." : (detail.view_problem ?? "This actor does not show its state: it has no Inspect method.");
  return (
    <section class="panel view" aria-label="State">
      <header>
        <h2>State</h2>
        <span class="panel-range">its own view</span>
      </header>
      {view === undefined && <p class="hint">{hint}</p>}
      {isObject(view) && (
        <dl class="rows">
          {Object.entries(view).map(([name, value]) => (
            <Fact key={name} name={name}>
              <ValueView value={value} />
            </Fact>
          ))}
        </dl>
      )}
      {view !== undefined && !isObject(view) && <pre class="view-text">{stringifyJSON(view, 2)}</pre>}
    </section>
  );
}

function Timers({ detail }: { detail: ActorDetail }) {
  return (
    <section class="panel timers" aria-label="Timers">
      <header>
        <h2>Timers</h2>
      </header>
      {detail.timers.length === 0 ? (
        <p class="hint">{detail.busy ? "Unknown while the actor is busy." : "No timers."}</p>
      ) : (
        <table>
          <thead>
            <tr>
              <th scope="col">Key</th>
              <th scope="col" class="number">
                Due in
              </th>
              <th scope="col" class="number">
                Every
              </th>
            </tr>
          </thead>
          <tbody>
            {detail.timers.map((timer) => (
              <tr key={timer.key}>
                <th scope="row">
                  <code>{timer.key}</code>
                </th>
                <td class="number">{formatSpan(timer.in_ms)}</td>
                <td class="number">{timer.every_ms > 0 ? formatSpan(timer.every_ms) : "once"}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}

function PIDs({ pids }: { pids: readonly string[] }) {
  return (
    <ul class="pids">
      {pids.map((pid) => (
        <li key={pid}>
          <ActorLink pid={pid} />
        </li>
      ))}
    </ul>
  );
}

/** Its supervisor, watches, links and watchers. */
function Bonds({ view, detail }: { view: ActorView; detail: ActorDetail }) {
  const children = view.children.value.slice(0, shownChildren);
  const others = detail.actor.children - children.length;
  return (
    <section class="panel bonds" aria-label="Relatives">
      <header>
        <h2>Relatives</h2>
      </header>
      <dl class="rows">
        {detail.parent && (
          <Fact name="Parent">
            <ActorLink pid={detail.parent} />
          </Fact>
        )}
        <Fact name="Children">
          {children.length > 0 ? <PIDs pids={children.map((child) => child.pid)} /> : others === 0 && "none"}
          {others > 0 && (
            <a href={formatRoute({ page: "actors", search: "" })}>
              {children.length > 0 ? `and ${formatCount(others)} more in the tree` : `${formatCount(others)} in the tree`}
            </a>
          )}
        </Fact>
        <Fact name="Watches">{detail.watches.length > 0 ? <PIDs pids={detail.watches} /> : detail.busy ? "unknown while busy" : "none"}</Fact>
        <Fact name="Watched">{detail.watchers === 0 ? "by nobody" : `by ${formatCount(detail.watchers)}`}</Fact>
        <Fact name="Linked to">{detail.links.length > 0 ? <PIDs pids={detail.links} /> : "nobody"}</Fact>
      </dl>
    </section>
  );
}

/** The path from the root, each part a link. */
function Crumbs({ path }: { path: string }) {
  const parts = path.split("/").filter((part) => part !== "");
  return (
    <nav class="crumbs" aria-label="Breadcrumb">
      <a href="#/actors">Actors</a>
      <span aria-hidden="true">/</span>
      {parts.slice(0, -1).map((part, i) => {
        const way = `/${parts.slice(0, i + 1).join("/")}`;
        return (
          <Fragment key={way}>
            <a href={formatRoute({ page: "actor", path: way, pid: "" })}>{part}</a>
            <span aria-hidden="true">/</span>
          </Fragment>
        );
      })}
    </nav>
  );
}

/** The entity whose actor has this path. */
function entityOf(path: string): string | undefined {
  return /^\/entities\/([^/]+)$/.exec(path)?.[1];
}

function Title({ route, detail }: { route: ActorRoute; detail: ActorDetail | null }) {
  const entity = detail && entityOf(detail.actor.path);
  return (
    <header class="title">
      <h1>{route.path === "/" ? (system.info.value?.name ?? "/") : nameOf(route.path)}</h1>
      {detail && (
        <dl class="facts">
          <Fact name="Type">
            <code>{detail.actor.type}</code>
          </Fact>
          <Fact name="State">
            <span class={`state ${detail.actor.state.toLowerCase()}`}>{detail.actor.state}</span>
          </Fact>
          {entity && (
            <Fact name="Entity">
              <a href={entityRoute(entity)}>{entity}</a>
            </Fact>
          )}
          <Fact name="PID">
            <code>{detail.actor.pid}</code>
          </Fact>
        </dl>
      )}
    </header>
  );
}

export function ActorPage({ route }: { route: ActorRoute }) {
  const view = useMemo(() => new ActorView(route.path, route.pid), []);
  useEffect(() => poll((abort) => view.refresh(abort), 1000), []);
  const detail = view.detail.value;
  const problem = view.problem.value;
  const waiting = route.pid === "" ? " It appears here when it starts." : " It has stopped.";
  return (
    <main id="main" tabIndex={-1}>
      <Crumbs path={route.path} />
      <Title route={route} detail={detail} />
      {problem && (
        <div class="problem" role="alert">
          {problem.gone ? `There is no actor at ${route.path}.${waiting}${detail ? " What you see is its last state." : ""}` : problem.text}
        </div>
      )}
      {detail ? (
        <>
          <Numbers view={view} detail={detail} />
          <div class="split actor">
            <div class="column">
              <Doing detail={detail} />
              <State detail={detail} />
              <Failures detail={detail} />
              <Mailbox detail={detail} />
            </div>
            <div class="column">
              <RateChart rates={view.rates.value} of="this actor" />
              <Bonds view={view} detail={detail} />
              <Timers detail={detail} />
            </div>
          </div>
        </>
      ) : (
        !problem && <div class="panel placeholder" />
      )}
    </main>
  );
}
