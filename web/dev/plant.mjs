// A made-up house: every value is a function of its time, so that any range of history can be answered
// without storing it, and is the same each time it is asked for.

function noise(seed, t) {
  const x = Math.sin(t * 12.9898 + seed * 78.233) * 43758.5453;
  return x - Math.floor(x);
}

/** Noise that is smooth over `period` milliseconds. */
function drift(seed, ts, period) {
  const t = ts / period;
  const i = Math.floor(t);
  const f = t - i;
  const smooth = f * f * (3 - 2 * f);
  return noise(seed, i) * (1 - smooth) + noise(seed, i + 1) * smooth;
}

const hour = 3_600_000;
const day = 24 * hour;
const sun = (ts) => Math.max(0, Math.sin(((ts % day) / day - 0.25) * 2 * Math.PI));
const round = (value, digits) => Number(value.toFixed(digits));

function room(seed) {
  const occupied = (ts) => drift(seed + 9, ts, 11 * 60_000) > 0.45;
  return {
    temperature: (ts) => round(20.5 + 2.2 * sun(ts) + 1.6 * drift(seed, ts, 9 * 60_000) + 0.08 * noise(seed, ts), 2),
    humidity: (ts) => round(38 + 9 * drift(seed + 1, ts, 14 * 60_000) + 0.3 * noise(seed + 1, ts), 1),
    co2: (ts) => Math.round(430 + 520 * drift(seed + 2, ts, 7 * 60_000) + (occupied(ts) ? 90 : 0) + 12 * noise(seed + 2, ts)),
    light: (ts) => round(420 * sun(ts) + (occupied(ts) ? 260 : 4) + 6 * noise(seed + 3, ts), 1),
    occupied,
  };
}

const kinds = {
  room,
  door: (seed) => ({
    open: (ts) => drift(seed, ts, 3 * 60_000) > 0.7,
    battery: (ts) => round(2.7 + 0.3 * drift(seed + 1, ts, 9 * day), 3),
  }),
  meter: (seed) => ({
    power: (ts) => round(180 + 1400 * drift(seed, ts, 4 * 60_000) ** 2 + 9 * noise(seed, ts), 1),
    voltage: (ts) => round(229 + 3 * drift(seed + 1, ts, 90_000), 1),
    energy: (ts) => Math.floor((ts - 1_700_000_000_000 + seed * 4e8) / (2_100 + 300 * (seed % 9))),
    // Above 2^53 on purpose: the dashboard must not lose its last digits.
    serial: () => 9007199254740993n + BigInt(seed),
  }),
  gateway: (seed) => ({
    firmware: (ts) => `2.${seed}.${Math.floor(ts / (2 * day)) % 9}`,
    uplink: (ts) => ({ channel: Math.floor(drift(seed, ts, hour) * 16), snr: round(6 + 4 * noise(seed, ts), 1), peers: ["door-main", "door-yard"] }),
    rssi: (ts) => Math.round(-70 + 14 * drift(seed + 1, ts, 5 * 60_000)),
  }),
};

function entity(id, kind, seed, interval, silentFor = 0) {
  return { id, values: kinds[kind](seed), interval, silentFor, phase: Math.floor(noise(seed, 1) * interval) };
}

/** The house, or as many meters as are asked for beside it. */
export function plant(extra) {
  const entities = [
    ...["attic", "bedroom", "hall", "kitchen", "living-room", "office", "workshop"].map((name, i) => entity(`room-${name}`, "room", i + 1, 2_000 + 700 * i)),
    ...["main", "yard", "cellar"].map((name, i) => entity(`door-${name}`, "door", 20 + i, 9_000)),
    ...["grid", "heat-pump", "solar", "wallbox"].map((name, i) => entity(`meter-${name}`, "meter", 30 + i, 1_000 + 400 * i)),
    entity("gateway-1", "gateway", 41, 6_000),
    entity("room-cellar", "room", 50, 5_000, 11 * 60_000),
    entity("room-guest", "room", 51, 60_000, 3 * day),
  ];
  for (let i = 0; i < extra; i++) entities.push(entity(`sensor-${String(i).padStart(5, "0")}`, "meter", 100 + i, 20_000 + (i % 7) * 1_000));
  return entities.sort((a, b) => (a.id < b.id ? -1 : 1));
}

/** The times of an entity's readings in [from, to). */
export function* times(entity, from, to) {
  for (let ts = Math.ceil((from - entity.phase) / entity.interval) * entity.interval + entity.phase; ts < to; ts += entity.interval) yield ts;
}
