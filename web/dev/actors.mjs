// The actor tree of the fake server: supervisors, the entities of the plant, and numbers that move.

const started = Date.now();

function grown(rate, seed) {
  const seconds = (Date.now() - started) / 1000;
  return Math.floor(rate * seconds + 3 * rate * Math.sin(seconds / 7 + seed) + 4 * rate);
}

function leaf(path, type, rate, seed, more = {}) {
  const busy = rate > 50 || Math.sin(Date.now() / 900 + seed) > 0.97;
  return {
    path,
    pid: `${path}#${(seed * 2654435761) % 65536}`,
    type,
    state: "running",
    activity: busy ? "running" : "idle",
    attached: busy || rate > 0.05,
    mailbox: busy ? Math.floor(6 * Math.abs(Math.sin(Date.now() / 700 + seed))) : 0,
    handled: Math.max(0, grown(rate, seed)),
    restarts: 0,
    children: 0,
    ...more,
  };
}

/** All actors by path, with the paths of their children. */
export function actorTree(entities) {
  const nodes = new Map();
  const add = (info, children = []) => nodes.set(info.path, { info: { ...info, children: children.length }, children });
  const ids = entities.map((entity) => `/entities/${encodeURIComponent(entity.id)}`);
  entities.forEach((entity, i) => add(leaf(ids[i], "entity.actor", 1000 / entity.interval, i + 10)));
  const shards = ["/ingest/dispatcher-0", "/ingest/dispatcher-1"];
  shards.forEach((path, i) => add(leaf(path, "entity.dispatcher", 60 + 25 * i, i, { mailbox: 3 + i })));
  add(leaf("/ingest/decoder", "mqtt.decoder", 12, 5, { restarts: 2 }));
  add(leaf("/store/committer", "entity.committer", 40, 7, { mailbox: 128 + Math.floor(40 * Math.sin(Date.now() / 3000)) }));
  add(leaf("/store/retention", "entity.retention", 0.1, 8));
  add(leaf("/streams/hub", "server.hub", 33, 9));
  add(leaf("/entities", "entity.manager", 4, 1), ids);
  add(leaf("/ingest", "supervisor", 0.2, 2), [...shards, "/ingest/decoder"]);
  add(leaf("/store", "supervisor", 0.1, 3), ["/store/committer", "/store/retention"]);
  add(leaf("/streams", "supervisor", 0.1, 4), ["/streams/hub"]);
  add(leaf("/", "root", 0, 0), ["/entities", "/ingest", "/store", "/streams"]);
  return nodes;
}

/** What /v1/system says of the engine. */
export function engine(nodes) {
  let handled = 0;
  for (const { info } of nodes.values()) handled += info.handled;
  const seconds = (Date.now() - started) / 1000;
  const reasons = ["unknown actor", "stopped", "mailbox closed"];
  const recent = Array.from({ length: 14 }, (_, i) => ({
    to: `/entities/sensor-${9000 + i}`,
    from: i % 3 === 0 ? "" : "/ingest/dispatcher-0",
    type: i % 2 === 0 ? "entity.apply" : "actor.Down",
    reason: reasons[i % 3],
    time_ms: Date.now() - i * 47_000 - 3_000,
  }));
  return {
    started_ms: started,
    actors: nodes.size,
    handled,
    failures: 2,
    restarts: 2,
    runnable: Math.floor(3 + 3 * Math.sin(seconds)),
    workers: 2,
    timers: 19,
    dead_letters: { total: 23, by_reason: { "unknown actor": 14, stopped: 6, "mailbox closed": 3 }, recent },
  };
}
