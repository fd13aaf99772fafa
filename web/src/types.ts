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
  /** Absent where it has none. */
  type?: string;
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

/** One step with the aggregates that were asked for, by name; null where there is none. */
export type ChosenBucket = { ts: number } & { [aggregate: string]: number | null };

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

export interface ActorFailure {
  time_ms: number;
  error: string;
  message_type?: string;
  /** The stack of a panic. */
  stack?: string;
}

export interface ActorTimer {
  key: string;
  in_ms: number;
  /** 0 for one that is due once. */
  every_ms: number;
}

/** One actor closely; of a busy one timers, watches, stash and view are not known. */
export interface ActorDetail {
  actor: ActorInfo;
  parent?: string;
  mail: { type: string; count: number }[];
  oldest_ms: number;
  current?: string;
  sender?: string;
  waits_for?: string;
  watchers: number;
  links: string[];
  failures: ActorFailure[];
  busy: boolean;
  timers: ActorTimer[];
  watches: string[];
  stash: number;
  view?: Json;
  view_problem?: string;
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

/** A JSON object, as a section of attributes is one. */
export type JsonObject = { [key: string]: Json };

/** What is declared and wanted of an entity, beside its readings. */
export interface EntityState {
  id: string;
  etag: string;
  type?: string;
  attributes: JsonObject;
  desired: JsonObject;
  reported: JsonObject;
  /** What of desired is not reported so. */
  delta: JsonObject;
  /** For each section a document of its form with {"timestamp": seconds} in the place of each leaf. */
  metadata: { attributes: JsonObject; desired: JsonObject; reported: JsonObject; delta: JsonObject };
  /** How many there are, by type. */
  relations: { out: Record<string, number>; in: Record<string, number> };
}

export interface Relation {
  from: string;
  type: string;
  to: string;
  properties?: JsonObject;
}

export interface RelationPage {
  relations: Relation[];
  next?: string;
}

/** What a value may be. */
export interface Schema {
  type: string;
  name?: string;
  description?: string;
  unit?: string;
  min?: number;
  max?: number;
  maxLength?: number;
  values?: Json[];
  writable?: boolean;
}

export interface EntityType {
  id: string;
  etag: string;
  name?: string;
  description?: string;
  extends?: string[];
  strict?: boolean;
}

/** A type with all that it inherits. */
export interface ResolvedType {
  id: string;
  strict: boolean;
  isA: string[];
  properties: Record<string, Schema> | null;
  telemetry: Record<string, Schema> | null;
  relations: Record<string, { description?: string; target?: string[]; max?: number }> | null;
  commands: Record<string, { description?: string; request?: Schema; response?: Schema }> | null;
}

export interface MappedSource {
  source: string;
  value?: Json;
  ts?: number;
  readings: number;
  members: number;
  some?: string[];
  mappings?: string[];
}

export interface MappedField {
  as: string;
  expression: string;
  state: string;
  value?: Json;
  ts?: number;
  evaluations: number;
  failures: number;
  failure?: string;
  failure_ts?: number;
  sources: MappedSource[];
}

export interface Mapping {
  name: string;
  etag: string;
  version: number;
  updated_ms: number;
  into: string;
  text: string;
  state: string;
  problem?: string;
  /** Only of one mapping, not in the list. */
  fields?: MappedField[];
  refusals: number;
  refusal?: string;
}

export interface MappingList {
  mappings: Mapping[];
  stats: { mappings: number; evaluations: number; failures: number; values: number; waiting: number; lag_ms: number };
}

export interface SavedQuery {
  id: string;
  etag: string;
  title?: string;
  filter: string;
}

/** What may stand at the cursor of a query box; from and to are bytes of UTF-8. */
export interface Completion {
  from: number;
  to: number;
  items: { text: string; kind: string }[];
  error?: { column: number; text: string };
}
