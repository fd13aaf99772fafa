import type { Json } from "./json";

/** The newest value of one key of an entity; ts is the event time in milliseconds. */
export interface Latest {
  value: Json;
  ts: number;
  seq: number;
}

export interface Entity {
  id: string;
  created_ms: number;
  /** Event time of the newest reading. */
  updated_ms: number;
  latest: Record<string, Latest>;
  /** PID of the actor behind the entity; absent while nothing is known of it. */
  actor?: string;
}

export interface EntityPage {
  entities: Entity[];
  next?: string;
}

/** One committed reading, as the stream sends it. */
export interface Change {
  entity: string;
  ts: number;
  values: Record<string, Json>;
  committed_ms: number;
}

export interface Point {
  ts: number;
  value: Json;
}

export interface PointPage {
  entity: string;
  key: string;
  points: Point[];
  next?: string;
}

/** One step of an aggregate; ts is its start. */
export interface Bucket {
  ts: number;
  avg: number;
  min: number;
  max: number;
  count: number;
}

export interface BucketPage {
  entity: string;
  key: string;
  step_ms: number;
  buckets: Bucket[];
}

export interface ActorInfo {
  path: string;
  pid: string;
  type: string;
  state: string;
  mailbox: number;
  handled: number;
  restarts: number;
  children: number;
}

export interface ActorPage {
  actor: ActorInfo;
  children: ActorInfo[];
  more: boolean;
  now_ms: number;
}

export interface DeadLetter {
  to: string;
  from: string;
  type: string;
  reason: string;
  time_ms: number;
}

export interface SystemInfo {
  name: string;
  version: string;
  started_ms: number;
  now_ms: number;
  actors: number;
  handled: number;
  failures: number;
  restarts: number;
  runnable: number;
  workers: number;
  timers: number;
  dead_letters: { total: number; by_reason: Record<string, number>; recent: DeadLetter[] };
  ingest: {
    readings: number;
    values: number;
    rejected: number;
    batches: number;
    window_bytes: number;
    window_bytes_max: number;
    entities_live: number;
    entities_registered: number;
    commit_p50_ms: number;
    commit_p99_ms: number;
  };
}
