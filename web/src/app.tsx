import { useComputed } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { now } from "./clock";
import { formatClock, formatDuration } from "./format";
import { connection, stream } from "./live";
import { api } from "./api";
import { route } from "./location";
import { AlarmBadge } from "./alarm-badge";
import { ActorPage } from "./page-actor";
import { ActorsPage } from "./page-actors";
import { AlarmsPage } from "./page-alarms";
import { AccessPage } from "./page-access";
import { ClaimsPage } from "./page-claims";
import { ClusterPage } from "./page-cluster";
import { ConnectPage } from "./page-connect";
import { EntitiesPage } from "./page-entities";
import { EntityPage } from "./page-entity";
import { LoginPage } from "./page-login";
import { MappingsPage } from "./page-mappings";
import { ProvisioningPage } from "./page-provisioning";
import { ScriptsPage } from "./page-scripts";
import { TemplatesPage } from "./page-templates";
import { TypesPage } from "./page-types";
import type { Route } from "./route";
import { caller, loggedOut, mayManage } from "./session";
import { system, watchSystem } from "./system";
import { dark, toggleTheme } from "./theme";

function Logo() {
  return (
    <svg class="logo" viewBox="0 0 32 32" width="28" height="28" aria-hidden="true">
      <rect class="logo-room" width="32" height="32" rx="8" />
      <path class="logo-door" d="M9 27V13a7 7 0 0 1 14 0v14z" />
      <path class="logo-pulse" d="M5 20h6l2.5-6 4 10 2.5-4h7" />
    </svg>
  );
}

const connectionWords = { live: "Live", connecting: "Connecting", lost: "Disconnected" } as const;

interface Section {
  name: string;
  href: string;
  main: Route["page"];
  /** The other pages that are shown as part of this one. */
  parts?: readonly Route["page"][];
}

const sections: readonly Section[] = [
  { name: "Entities", href: "#/", main: "entities", parts: ["entity"] },
  { name: "Alarms", href: "#/alarms", main: "alarms" },
  { name: "Types", href: "#/types", main: "types" },
  { name: "Mappings", href: "#/mappings", main: "mappings" },
  { name: "Scripts", href: "#/scripts", main: "scripts" },
  { name: "Templates", href: "#/templates", main: "templates" },
  { name: "Actors", href: "#/actors", main: "actors", parts: ["actor"] },
  { name: "Cluster", href: "#/cluster", main: "cluster" },
  { name: "Access", href: "#/access", main: "access", parts: ["connect", "provisioning", "claims"] },
  { name: "Claims", href: "#/access/claims", main: "claims" },
];

/**
 * Whether a page is of use to the user: credentials are for those who may manage them, who find claims there, and
 * the nodes of a cluster for the same people where there is one.
 */
function mayOpen({ main }: Section): boolean {
  const manager = caller.value === null || mayManage();
  if (main === "cluster") return manager && system.info.value?.node !== undefined;
  return main === "claims" ? !manager : main !== "access" || manager;
}

function Header() {
  const page = route.value.page;
  const state = connection.value;
  return (
    <header class="top">
      <a class="skip" href="#main" onClick={skipToMain}>
        Skip to content
      </a>
      <a class="brand" href="#/" aria-label="Greenroom">
        <Logo />
        <span>Greenroom</span>
      </a>
      <nav aria-label="Pages">
        {sections.filter(mayOpen).map(({ name, href, main, parts }) => (
          <a key={href} href={href} {...(page === main ? { "aria-current": "page" } : parts?.includes(page) ? { "aria-current": "true" } : {})}>
            {name}
            {main === "alarms" && <AlarmBadge />}
          </a>
        ))}
      </nav>
      <span class={`connection ${state}`}>
        <i aria-hidden="true" />
        <span>{connectionWords[state]}</span>
      </span>
      {caller.value !== null && caller.value.name !== "" && (
        <button type="button" class="link logout" title={`Log out ${caller.value.name}`} onClick={() => void api.logout().finally(() => location.reload())}>
          Log out<span class="logout-name"> {caller.value.name}</span>
        </button>
      )}
      <button type="button" class="theme" onClick={toggleTheme} aria-label={dark.value ? "Use the light theme" : "Use the dark theme"}>
        <svg viewBox="0 0 20 20" width="18" height="18" aria-hidden="true">
          {dark.value ? (
            <path d="M10 4V2m0 16v-2m6-6h2M2 10h2m10.2-4.2 1.5-1.5M4.3 15.7l1.5-1.5m8.4 0 1.5 1.5M4.3 4.3l1.5 1.5M13 10a3 3 0 1 1-6 0 3 3 0 0 1 6 0Z" />
          ) : (
            <path d="M16.5 12.3A7 7 0 0 1 7.7 3.5a7 7 0 1 0 8.8 8.8Z" />
          )}
        </svg>
      </button>
    </header>
  );
}

/** The hash is the route, so links to anchors must be implemented. */
function skipToMain(event: MouseEvent): void {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

/** Says that the page is out of date, since when, and when the next attempt is. It overlays the page and moves nothing. */
function Banner() {
  const lost = connection.value === "lost";
  const since = useComputed(() => Math.max(stream.heardAt.value, system.answeredAt.value));
  const retry = (): void => {
    stream.retry();
    watchSystem();
  };
  void now.value; // the seconds tick
  const wait = stream.status.value === "lost" ? Math.ceil((stream.retryAt.value - Date.now()) / 1000) : 0;
  return (
    <div class={lost ? "banner shown" : "banner"} {...(lost ? {} : { inert: true })}>
      <p role="status">
        {lost && (
          <>
            <strong>Connection lost.</strong>{" "}
            {since.value > 0 ? `Showing data as of ${formatClock(since.value)}.` : "The server has not answered yet."}
          </>
        )}
      </p>
      <span class="banner-wait" aria-hidden="true">
        {lost && (wait > 0 ? `Retrying in ${formatDuration(wait * 1000)}` : "Retrying …")}
      </span>
      <button type="button" onClick={retry}>
        Retry now
      </button>
    </div>
  );
}

function Footer() {
  const info = system.info.value;
  return (
    <footer class="bottom">
      <span>{info ? `Greenroom ${info.version}` : "Greenroom"}</span>
      <nav aria-label="For programs">
        <a href="openapi.json">OpenAPI</a>
        <a href="metrics">Metrics</a>
      </nav>
    </footer>
  );
}

function titleOf(current: Route): string {
  if (current.page === "entity") return current.id;
  if (current.page === "actor") return current.path;
  if (current.page === "connect") return "Connect a device";
  if (current.page === "provisioning") return "Provision keys";
  return sections.find(({ main }) => main === current.page)?.name ?? "";
}

/** The title of the tab, which screen readers also announce for a new page. */
function usePageTitle(): void {
  const current = route.value;
  const title = loggedOut.value ? "Log in" : titleOf(current);
  const shown = useRef("");
  useEffect(() => {
    document.title = `${title} · Greenroom`;
    if (shown.current !== "") {
      window.scrollTo(0, 0);
      document.getElementById("main")?.focus({ preventScroll: true });
    }
    shown.current = title;
  }, [title]);
}

export function App() {
  const current = route.value;
  usePageTitle();
  useEffect(() => {
    // A 401 leads to the login page; the pages retry anything else.
    api.session().then(
      (who) => (caller.value = who),
      () => undefined,
    );
  }, []);
  const hidden = loggedOut.value;
  useEffect(() => (hidden ? undefined : watchSystem()), [hidden]);
  if (hidden) return <LoginPage />;
  return (
    <>
      <Header />
      {current.page === "entities" && <EntitiesPage route={current} />}
      {current.page === "entity" && <EntityPage key={current.id} route={current} />}
      {current.page === "actors" && <ActorsPage route={current} />}
      {current.page === "actor" && <ActorPage key={`${current.path} ${current.pid}`} route={current} />}
      {current.page === "types" && <TypesPage route={current} />}
      {current.page === "alarms" && <AlarmsPage route={current} />}
      {current.page === "mappings" && <MappingsPage route={current} />}
      {current.page === "scripts" && <ScriptsPage route={current} />}
      {current.page === "templates" && <TemplatesPage route={current} />}
      {current.page === "cluster" && <ClusterPage />}
      {current.page === "access" && <AccessPage />}
      {current.page === "connect" && <ConnectPage route={current} />}
      {current.page === "provisioning" && <ProvisioningPage route={current} />}
      {current.page === "claims" && <ClaimsPage />}
      <Footer />
      <Banner />
    </>
  );
}
