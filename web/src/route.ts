import type { Preset, Range } from "./range";

/** The page and all of its state. It is the hash of the address, so that a link shows what its sender saw. */
export type Route =
  | { page: "entities"; search: string; filter: string; selected: string }
  | { page: "entity"; id: string; range: Range | null; keys: string[] | null; agg: string }
  | { page: "actors"; search: string }
  /** One actor: by path the current one, with a pid only that incarnation. */
  | { page: "actor"; path: string; pid: string }
  /** The types, or the mappings, and which of them is shown in detail; empty for the first. */
  | { page: "types"; id: string }
  | { page: "mappings"; id: string }
  /** The scripts, and which one is edited; empty for a new one. */
  | { page: "scripts"; id: string }
  /** The templates, and which one is edited; empty for a new one. */
  | { page: "templates"; id: string }
  /** Alarms: those that are open, those that have cleared, or any. */
  | { page: "alarms"; state: "raised" | "cleared" | "any" }
  /** The nodes of the cluster. */
  | { page: "cluster" }
  /** Who may do what. */
  | { page: "access" }
  /** How to connect the device of an entity, and by which convention; both may be empty. */
  | { page: "connect"; entity: string; convention: string }
  /** The keys with which devices get credentials, and the one whose devices are shown; empty for none. */
  | { page: "provisioning"; key: string }
  /** Who has claimed which devices. */
  | { page: "claims" };

/** The aggregates of the readings of a step. */
export const aggregates: readonly string[] = ["min", "max", "sum", "count", "rate", "first", "last", "p50", "p95", "p99"];

const presetNames: readonly string[] = ["15m", "1h", "24h", "7d", "all"];

function parseRange(query: URLSearchParams): Range | null {
  const name = query.get("range") ?? "";
  if (presetNames.includes(name)) return { kind: name as Preset };
  const from = Number(query.get("from"));
  const to = Number(query.get("to"));
  return Number.isFinite(from) && Number.isFinite(to) && query.has("from") && to > from ? { kind: "custom", from, to } : null;
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // a hand-edited address with a lone % still names something
  }
}

/** Parses a hash such as "#/e/boiler?range=1h". An unknown one is the list of entities. */
export function parseRoute(hash: string): Route {
  const text = hash.replace(/^#/, "");
  const cut = text.indexOf("?");
  const path = cut < 0 ? text : text.slice(0, cut);
  const query = new URLSearchParams(cut < 0 ? "" : text.slice(cut + 1));
  if (path.startsWith("/e/") && path.length > 3) {
    const keys = query.getAll("key");
    return {
      page: "entity",
      id: decode(path.slice(3)),
      range: parseRange(query),
      agg: aggregates.includes(query.get("agg") ?? "") ? (query.get("agg") as string) : "",
      keys: query.has("key") ? keys.filter((key) => key !== "") : null,
    };
  }
  if (path.startsWith("/actors/")) {
    return { page: "actor", path: path.slice("/actors".length).split("/").map(decode).join("/"), pid: query.get("pid") ?? "" };
  }
  if (path === "/actors") return { page: "actors", search: query.get("search") ?? "" };
  if (path === "/alarms") {
    const state = query.get("state");
    return { page: "alarms", state: state === "cleared" || state === "any" ? state : "raised" };
  }
  if (path === "/cluster") return { page: "cluster" };
  if (path === "/access") return { page: "access" };
  if (path === "/access/claims") return { page: "claims" };
  if (path === "/access/provisioning") return { page: "provisioning", key: query.get("key") ?? "" };
  if (path === "/access/connect") return { page: "connect", entity: query.get("entity") ?? "", convention: query.get("as") ?? "" };
  const listed = /^\/(types|mappings|scripts|templates)(?:\/(.*))?$/.exec(path);
  if (listed) return { page: listed[1] as "types" | "mappings" | "scripts" | "templates", id: decode(listed[2] ?? "") };
  return { page: "entities", search: query.get("search") ?? "", filter: query.get("filter") ?? "", selected: query.get("selected") ?? "" };
}

/** The inverse of parseRoute. An empty choice of keys is written as one empty key, no choice as nothing. */
export function formatRoute(route: Route): string {
  const query = new URLSearchParams();
  let path = "/";
  switch (route.page) {
    case "entities":
      if (route.search !== "") query.set("search", route.search);
      if (route.filter !== "") query.set("filter", route.filter);
      if (route.selected !== "") query.set("selected", route.selected);
      break;
    case "entity":
      path = `/e/${encodeURIComponent(route.id)}`;
      if (route.range?.kind === "custom") {
        query.set("from", String(route.range.from));
        query.set("to", String(route.range.to));
      } else if (route.range) {
        query.set("range", route.range.kind);
      }
      if (route.agg !== "") query.set("agg", route.agg);
      if (route.keys) for (const key of route.keys.length > 0 ? route.keys : [""]) query.append("key", key);
      break;
    case "actors":
      path = "/actors";
      if (route.search !== "") query.set("search", route.search);
      break;
    case "alarms":
      path = "/alarms";
      if (route.state !== "raised") query.set("state", route.state);
      break;
    case "cluster":
      path = "/cluster";
      break;
    case "access":
      path = "/access";
      break;
    case "connect":
      path = "/access/connect";
      if (route.entity !== "") query.set("entity", route.entity);
      if (route.convention !== "") query.set("as", route.convention);
      break;
    case "provisioning":
      path = "/access/provisioning";
      if (route.key !== "") query.set("key", route.key);
      break;
    case "claims":
      path = "/access/claims";
      break;
    case "types":
    case "mappings":
    case "scripts":
    case "templates":
      path = `/${route.page}${route.id === "" ? "" : `/${encodeURIComponent(route.id)}`}`;
      break;
    case "actor":
      path = `/actors${route.path.split("/").map(encodeURIComponent).join("/")}`;
      if (route.pid !== "") query.set("pid", route.pid);
      break;
  }
  const text = query.toString();
  return `#${path}${text === "" ? "" : `?${text}`}`;
}

export function entityRoute(id: string): string {
  return formatRoute({ page: "entity", id, range: null, keys: null, agg: "" });
}

/** The path in a printed PID: "/entities/room-1" for "greenroom/entities/room-1#2c". */
export function pathOfPID(pid: string): string {
  const end = pid.lastIndexOf("#");
  return pid.slice(Math.max(0, pid.indexOf("/")), end < 0 ? undefined : end);
}

/** The page of an actor. An actor without a name cannot be found by path, so the link has its PID. */
export function actorRoute(pid: string): string {
  const path = pathOfPID(pid);
  return formatRoute({ page: "actor", path, pid: path.includes("/$") ? pid : "" });
}
