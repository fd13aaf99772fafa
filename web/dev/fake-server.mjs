// A stand-in for `greenroom serve` with made-up data, so that the dashboard can be worked on without it:
//   node dev/fake-server.mjs [--port 8081] [--entities N] [--empty] [--old]
// --entities adds N meters, --empty begins without any entity, --old lets all readings end a year ago.
// POST /dev/outage?ms=5000 drops every connection and refuses new ones for that long;
// POST /dev/expire makes every cursor unknown. It needs nothing but node.
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { actorTree, engine } from "./actors.mjs";
import { plant, times } from "./plant.mjs";

const { values: flags } = parseArgs({
  options: {
    port: { type: "string", default: "8081" },
    entities: { type: "string", default: "0" },
    empty: { type: "boolean", default: false },
    old: { type: "boolean", default: false },
  },
});

const dist = fileURLToPath(new URL("../../server/dist", import.meta.url));
const types = { ".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".txt": "text/plain" };
const day = 86_400_000;
const shift = flags.old ? 365 * day : 0;
const begin = Date.now() - shift - 9 * day;
const clock = () => Date.now() - shift;

const made = flags.empty ? [] : plant(Number(flags.entities));
const posted = new Map(); // id → [{ts, values}]
const counters = { readings: 0, values: 0, batches: 0, rejected: 0 };

/** JSON with integers beyond 2^53 as the digits they are. */
function json(value) {
  return JSON.stringify(value, (_key, item) => (typeof item === "bigint" ? `@big:${item}` : item)).replace(/"@big:(-?\d+)"/g, "$1");
}

class Problem extends Error {
  constructor(status, title, detail) {
    super(detail);
    this.status = status;
    this.title = title;
  }
}

function end(entity) {
  return clock() - entity.silentFor;
}

function newest(entity) {
  let last = begin;
  for (const ts of times(entity, end(entity) - 2 * entity.interval, end(entity) + 1)) last = ts;
  return last;
}

function allIDs() {
  return [...new Set([...made.map((entity) => entity.id), ...posted.keys()])].sort();
}

const empty = { attributes: {}, desired: {}, reported: {}, delta: {} };
const declaredNothing = { ...empty, metadata: empty, relations: { out: {}, in: {} } };

function view(id) {
  const entity = made.find((other) => other.id === id);
  const latest = {};
  if (entity) {
    const ts = newest(entity);
    for (const [key, value] of Object.entries(entity.values)) latest[key] = { value: value(ts), ts, seq: Math.floor(ts / entity.interval) };
  }
  for (const reading of posted.get(id) ?? []) {
    for (const [key, value] of Object.entries(reading.values)) {
      if (!latest[key] || latest[key].ts <= reading.ts) latest[key] = { value, ts: reading.ts, seq: 1 };
    }
  }
  const updated = Math.max(...Object.values(latest).map(({ ts }) => ts));
  return { ...declaredNothing, id, created_ms: entity ? begin : posted.get(id)[0].ts, updated_ms: updated, latest, actor: `/entities/${encodeURIComponent(id)}#1` };
}

function entities(query) {
  const limit = Number(query.get("limit") ?? 50);
  const search = (query.get("search") ?? "").toLowerCase();
  const after = query.get("cursor") ? Buffer.from(query.get("cursor"), "base64url").toString() : "";
  const ids = allIDs().filter((id) => id.toLowerCase().includes(search) && id > after);
  const page = ids.slice(0, limit);
  const next = ids.length > limit ? { next: Buffer.from(page.at(-1)).toString("base64url") } : {};
  return { entities: page.map(view), ...next };
}

function known(id) {
  if (!allIDs().includes(id)) throw new Problem(404, "Not Found", `there is no entity ${JSON.stringify(id)}`);
  return made.find((entity) => entity.id === id);
}

function moment(text, fallback) {
  if (text === null) return fallback;
  const value = /^\d+$/.test(text) ? Number(text) : Date.parse(text);
  if (Number.isNaN(value)) throw new Problem(400, "Bad Request", `${JSON.stringify(text)} is neither milliseconds nor RFC 3339`);
  return value;
}

function* points(id, key, from, to) {
  const entity = known(id);
  const value = entity?.values[key];
  if (value) for (const ts of times(entity, Math.max(from, begin), Math.min(to, end(entity) + 1))) yield { ts, value: value(ts) };
  for (const reading of posted.get(id) ?? []) {
    if (key in reading.values && reading.ts >= from && reading.ts < to) yield { ts: reading.ts, value: reading.values[key] };
  }
}

function history(id, key, query) {
  const limit = Number(query.get("limit") ?? 1000);
  const all = [];
  const descending = query.get("order") === "desc";
  // Nine days of a second each are much to make up for one page: ascending ones stop early, descending ones begin late.
  const entity = known(id);
  const near = descending && entity ? newest(entity) - (limit + 2) * entity.interval : 0;
  const from = moment(query.get("from"), near);
  const to = moment(query.get("to"), Number.MAX_SAFE_INTEGER);
  for (const point of points(id, key, from, to)) {
    all.push(point);
    if (!descending && all.length > limit) break;
  }
  if (descending) all.reverse();
  const next = all.length > limit ? { next: "more" } : {};
  return { entity: id, key, points: all.slice(0, limit), ...next };
}

function aggregate(id, key, query) {
  const match = /^(\d+)(h|m|s)$/.exec(query.get("step") ?? "");
  if (!match) throw new Problem(400, "Bad Request", `step ${JSON.stringify(query.get("step"))} is not a duration such as "5m"`);
  const step = Number(match[1]) * { h: 3_600_000, m: 60_000, s: 1000 }[match[2]];
  const funcs = query.get("agg").split(",");
  const buckets = [];
  for (const { ts, value } of points(id, key, moment(query.get("from"), 0), moment(query.get("to"), Number.MAX_SAFE_INTEGER))) {
    if (typeof value !== "number") continue;
    const start = Math.floor(ts / step) * step;
    let bucket = buckets.at(-1);
    if (bucket?.ts !== start) buckets.push((bucket = { ts: start, count: 0, sum: 0, min: value, max: value }));
    bucket.count++;
    bucket.sum += value;
    bucket.min = Math.min(bucket.min, value);
    bucket.max = Math.max(bucket.max, value);
  }
  const shown = buckets.map((bucket) => {
    const all = { ...bucket, avg: bucket.sum / bucket.count };
    return Object.fromEntries([["ts", all.ts], ...funcs.map((name) => [name, all[name]])]);
  });
  return { entity: id, key, step_ms: step, buckets: shown };
}

function system() {
  const ids = allIDs();
  return {
    name: "greenroom",
    version: "0.1.0-fake",
    addresses: { http: { host: "127.0.0.1", port: 8080, tls: false }, mqtt: { host: "127.0.0.1", port: 1883, tls: false } },
    now_ms: Date.now(),
    ...engine(actorTree(made)),
    ingest: {
      ...counters,
      window_bytes: Math.floor(40_000 + 30_000 * Math.sin(Date.now() / 2000)),
      window_bytes_max: 64 << 20,
      entities_live: ids.length,
      entities_registered: ids.length,
      commit_p50_ms: 1.8,
      commit_p99_ms: 4.9 + Math.sin(Date.now() / 3000),
    },
  };
}

function actors(query) {
  const nodes = actorTree(made);
  const path = query.get("path") ?? "/";
  const limit = Number(query.get("limit") ?? 200);
  const node = nodes.get(path);
  if (!node) throw new Problem(404, "Not Found", `there is no actor at ${path}`);
  const children = node.children.slice(0, limit).map((child) => nodes.get(child).info);
  return { actor: node.info, children, more: node.children.length > limit, now_ms: Date.now() };
}

// The stream: committed changes with a number as cursor, the last few thousand kept to resume from.

const kept = [];
let cursor = 0;
let oldestCursor = 0;
const subscribers = new Set();

function commit(id, ts, values) {
  const change = { cursor: ++cursor, entity: id, data: json({ entity: id, ts, values, committed_ms: Date.now() }) };
  kept.push(change);
  if (kept.length > 5000) oldestCursor = kept.shift().cursor;
  counters.readings++;
  counters.values += Object.keys(values).length;
  counters.batches++;
  for (const subscriber of subscribers) subscriber(change);
}

function stream(request, response, query) {
  const wanted = new Set(query.getAll("entity"));
  const asked = query.get("cursor") ?? request.headers["last-event-id"];
  const from = asked === undefined || asked === null ? cursor : Number(asked);
  response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-store" });
  response.flushHeaders();
  const send = (change) => {
    if (wanted.size > 0 && !wanted.has(change.entity)) return;
    response.write(`id: ${change.cursor}\nevent: change\ndata: ${change.data}\n\n`);
  };
  if (!(from >= oldestCursor) || from > cursor) response.write(`id: ${cursor}\nevent: reset\ndata: {}\n\n`);
  else for (const change of kept) if (change.cursor > from) send(change);
  subscribers.add(send);
  const heartbeat = setInterval(() => response.write(": alive\n\n"), 15_000);
  response.on("close", () => {
    subscribers.delete(send);
    clearInterval(heartbeat);
  });
}

let lastTick = Date.now();
setInterval(() => {
  const now = Date.now();
  for (const entity of made) {
    if (entity.silentFor > 0) continue;
    for (const ts of times(entity, lastTick - shift, now - shift)) {
      commit(entity.id, ts, Object.fromEntries(Object.entries(entity.values).map(([key, value]) => [key, value(ts)])));
    }
  }
  lastTick = now;
}, 200);

async function post(request, id) {
  let body = "";
  for await (const chunk of request) body += chunk;
  let payload;
  try {
    // Integers that a double cannot hold travel as marked text; json() writes them as the digits they were.
    payload = JSON.parse(body.replace(/(?<=[:[,]\s*)-?\d{16,}(?=\s*[,}\]])/g, '"@big:$&"'));
  } catch (error) {
    counters.rejected++;
    throw new Problem(400, "Bad Request", `the body is not JSON: ${error.message}`);
  }
  for (const item of Array.isArray(payload) ? payload : [payload]) {
    const reading = "values" in item ? { ts: item.ts ?? clock(), values: item.values } : { ts: clock(), values: item };
    posted.set(id, [...(posted.get(id) ?? []), reading]);
    commit(id, reading.ts, reading.values);
  }
}

let outageUntil = 0;
const sockets = new Set();

async function route(request, response) {
  const url = new URL(request.url, "http://localhost");
  const parts = url.pathname.split("/").slice(1).map(decodeURIComponent);
  const query = url.searchParams;
  if (request.method === "POST" && parts[0] === "dev") {
    if (parts[1] === "outage") outageUntil = Date.now() + Number(query.get("ms") ?? 5000);
    if (parts[1] === "expire") oldestCursor = ++cursor;
    response.writeHead(204).end();
    for (const socket of sockets) setImmediate(() => socket.destroy());
    return;
  }
  if (request.method === "POST" && parts[1] === "entities" && parts[3] === "telemetry") {
    await post(request, parts[2]);
    response.writeHead(204).end();
    return;
  }
  if (parts[0] !== "v1") return file(url.pathname, response);
  if (parts[1] === "stream") return stream(request, response, query);
  const body = json(answer(parts, query));
  response.writeHead(200, { "content-type": "application/json" }).end(body);
}

/** One actor closely: its numbers are those of the tree, it has a timer and shows nothing. */
function actor(query) {
  const path = query.get("path") ?? (query.get("pid") ?? "").replace(/#.*$/, "");
  const page = actors(new URLSearchParams({ path }));
  const mail = page.actor.mailbox > 0 ? [{ type: "entity.apply", count: page.actor.mailbox }] : [];
  const parent = path === "/" ? undefined : actors(new URLSearchParams({ path: path.replace(/\/[^/]*$/, "") || "/" })).actor.pid;
  return {
    ...page, parent, mail, oldest_ms: mail.length > 0 ? 12 : 0, watchers: 1, links: [], failures: [], busy: false,
    timers: [{ key: "sweep", in_ms: 1000 - (Date.now() % 1000), every_ms: 1000 }], watches: [], stash: 0,
  };
}

function answer(parts, query) {
  if (parts[1] === "system") return system();
  if (parts[1] === "actors") return actors(query);
  if (parts[1] === "actor") return actor(query);
  if (parts[1] === "types") return { types: [] };
  if (parts[1] === "mappings") return { mappings: [], stats: { mappings: 0, evaluations: 0, failures: 0, values: 0, waiting: 0, lag_ms: 0 } };
  if (parts[1] === "queries") return { queries: [] };
  if (parts[1] === "query") return { from: 0, to: 0, items: [] };
  if (parts[1] === "entities" && parts.length === 2) return entities(query);
  if (parts[1] === "entities" && parts.length === 3) {
    known(parts[2]);
    return view(parts[2]);
  }
  if (parts[1] === "entities" && parts[3] === "telemetry" && parts.length === 5) {
    known(parts[2]);
    return query.has("agg") ? aggregate(parts[2], parts[4], query) : history(parts[2], parts[4], query);
  }
  throw new Problem(404, "Not Found", "there is nothing at this address");
}

async function file(path, response) {
  if (path === "/healthz") {
    response.writeHead(200, { "content-type": "text/plain" }).end("ok\n");
    return;
  }
  const name = join(dist, normalize(path === "/" ? "/index.html" : path));
  try {
    const body = await readFile(name);
    response.writeHead(200, { "content-type": types[extname(name)] ?? "application/octet-stream", "content-security-policy": "default-src 'self'" }).end(body);
  } catch {
    throw new Problem(404, "Not Found", "there is nothing at this address");
  }
}

const server = createServer((request, response) => {
  if (Date.now() < outageUntil) {
    request.socket.destroy();
    return;
  }
  route(request, response).catch((error) => {
    const status = error instanceof Problem ? error.status : 500;
    if (status === 500) console.error(error);
    response.writeHead(status, { "content-type": "application/problem+json" });
    response.end(json({ type: "about:blank", title: error.title ?? "Internal Server Error", status, detail: error.message }));
  });
});
server.on("connection", (socket) => {
  sockets.add(socket);
  socket.on("close", () => sockets.delete(socket));
});
server.listen(Number(flags.port), "127.0.0.1", () => console.log(`fake Greenroom at http://127.0.0.1:${server.address().port}/`));
