// Code generated from server/openapi.json by go test ./server -run Generated -update; DO NOT EDIT.

import type { Json } from "./json";

/** One actor. */
export interface Actor {
  /** idle, runnable (it waits for a worker), running, or waiting: a handler waits for an answer, for example. */
  activity: string;
  /** It has a mailbox. An actor that has been idle for a while has none until its next message. */
  attached: boolean;
  /** The bulkhead that it runs in; absent for the system's own workers. */
  bulkhead?: string;
  children: number;
  handled: number;
  /** The messages that wait. */
  mailbox: number;
  path: string;
  pid: string;
  restarts: number;
  state: string;
  /** The Go type of its messages. */
  type: string;
}

/** One actor in detail. */
export interface ActorDetail {
  actor: Actor;
  /** The actor did not answer within 100 ms: timers, watches and stash are unknown and empty, and the view has only what is known without the actor, such as how far the recovery of a durable actor has come. */
  busy: boolean;
  /** The type of the message that is being handled, or was handled last. */
  current?: string;
  /** The last failures, newest first, at most 8. */
  failures: Failure[];
  /** The PIDs of the actors that it is linked to. */
  links: string[];
  /** The messages that wait, by type, the most frequent first. */
  mail: Mail[];
  /** Milliseconds since the epoch. */
  now_ms: number;
  /** How long the oldest message has waited. */
  oldest_ms: number;
  /** The PID of the parent; absent for the root. */
  parent?: string;
  /** The PID of the sender of that message. */
  sender?: string;
  /** The number of stashed messages. */
  stash: number;
  timers: Timer[];
  /** What the actor's Inspect method returned; absent if it has none. */
  view?: Json;
  /** Why the view cannot be shown. */
  view_problem?: string;
  /** The PID of the actor that an ask in the handler waits for. */
  waits_for?: string;
  /** How many actors watch this one. */
  watchers: number;
  /** The PIDs of the actors that it watches. */
  watches: string[];
}

/** One actor with its first children. */
export interface ActorTree {
  actor: Actor;
  children: Actor[];
  /** There are more children than these. */
  more: boolean;
  /** Milliseconds since the epoch. */
  now_ms: number;
}

/** One address on which a server listens. */
export interface Address {
  /** The IP address; absent if it is every address of the machine. */
  host?: string;
  port: number;
  /** Whether it is encrypted. */
  tls: boolean;
}

/** Says where a server listens. */
export interface Addresses {
  http: Address;
  mqtt: Address;
}

/** An alarm. Times are in milliseconds since the epoch. */
export interface Alarm {
  acknowledged?: AlarmMark;
  /** Why it is no longer open: its condition, an operator, a late reading that withdraws it, a change or the end of its rule, the rule no longer covering the entity, or the end of the entity. */
  cause?: "condition" | "operator" | "withdrawn" | "rule" | "scope" | "entity";
  /** When the condition to clear had held long enough; absent if it has not cleared. */
  cleared_ms?: number;
  /** The entity was deleted; an entity that now has its id is a different one. */
  deleted?: boolean;
  /** When the server noticed that it was raised, and that it has cleared. */
  detected_ms: number;
  /** Milliseconds since the epoch. */
  ended_ms?: number;
  entity: string;
  /** Its transitions; absent in lists and events. */
  history?: AlarmTransition[];
  id: string;
  message?: string;
  /** When the condition had held for as long as the rule demands. */
  raised_ms: number;
  rule: string;
  severity: "critical" | "major" | "minor" | "warning" | "info";
  shelved?: AlarmShelf;
  /** Since when the condition held, by the time of the readings. */
  since_ms: number;
  state: "raised" | "cleared";
  /** The values that the condition used when it was raised. */
  values: AlarmValue[];
  /** The number of the rule's version. */
  version: number;
}

/** A page of alarms. */
export interface AlarmList {
  alarms: Alarm[];
  /** The cursor of the next page; absent at the end. A page may be empty and have one. */
  next?: string;
}

/** Says who has acknowledged an alarm. */
export interface AlarmMark {
  /** Milliseconds since the epoch. */
  at_ms: number;
  /** Absent if nobody has to log in. */
  by?: string;
  note?: string;
}

/** What an operator notes. */
export interface AlarmNoteBody {
  note?: string;
}

/** An alarm rule with its version. */
export interface AlarmRule {
  /** The condition that clears it; by default, that raise does not hold. */
  clear?: string;
  /** The same for clear. */
  clear_for?: string;
  /** Since when the conditions have been as they are. */
  effective_ms: number;
  /** Only this entity; absent for all. */
  entity?: string;
  /** The version, for If-Match. */
  etag: string;
  /** How long raise must hold, by the time of the readings; at most 31d. */
  for?: string;
  message?: string;
  name: string;
  /** Not all entities have been evaluated yet. */
  pending: boolean;
  /** The condition that raises an alarm. */
  raise: string;
  severity: "critical" | "major" | "minor" | "warning" | "info";
  /** Only entities of this type or one that extends it; absent for all. */
  type?: string;
  /** Milliseconds since the epoch. */
  updated_ms: number;
  /** The number of the version; an alarm names the version that raised it. */
  version: number;
  /** The names of the webhooks to notify. */
  webhooks?: string[];
  /** Only entities for which this holds: a condition about id, type and attributes, in the language of docs/filter.md. */
  where?: string;
}

/** A rule as it is written; a response can be sent back unchanged. */
export interface AlarmRuleBody {
  /** The condition that clears it; by default, that raise does not hold. */
  clear?: string;
  /** The same for clear. */
  clear_for?: string;
  /** Milliseconds since the epoch. */
  effective_ms?: number;
  /** Only this entity; absent for all. */
  entity?: string;
  /** The version goes into If-Match. */
  etag?: string;
  /** How long raise must hold, by the time of the readings; at most 31d. */
  for?: string;
  message?: string;
  /** Ignored, as the following ones are: the path has it. */
  name?: string;
  pending?: boolean;
  /** The condition that raises an alarm. */
  raise: string;
  severity: "critical" | "major" | "minor" | "warning" | "info";
  /** Only entities of this type or one that extends it; absent for all. */
  type?: string;
  /** Milliseconds since the epoch. */
  updated_ms?: number;
  version?: number;
  /** The names of the webhooks to notify. */
  webhooks?: string[];
  /** Only entities for which this holds: a condition about id, type and attributes, in the language of docs/filter.md. */
  where?: string;
}

/** All alarm rules, by name. */
export interface AlarmRuleList {
  rules: AlarmRule[];
}

/** Says until when an alarm is shelved, and by whom. */
export interface AlarmShelf {
  /** Milliseconds since the epoch. */
  at_ms: number;
  /** Absent if nobody has to log in. */
  by?: string;
  note?: string;
  /** Milliseconds since the epoch. */
  until_ms: number;
}

/** Says for how long an alarm is shelved. */
export interface AlarmShelveBody {
  /** How long, at most 31d. */
  for: string;
  note?: string;
}

/** A step in the history of an alarm. */
export interface AlarmTransition {
  /** When the server made it. */
  at_ms: number;
  by?: string;
  kind: "raised" | "cleared" | "acknowledged" | "shelved" | "unshelved" | "amended" | "reopened" | "withdrawn";
  note?: string;
  /** The time of the readings that caused it; absent if somebody caused it. */
  ts?: number;
}

/** A value that an alarm was raised with. */
export interface AlarmValue {
  key: string;
  /** Milliseconds since the epoch. */
  ts: number;
  value: Value;
}

/** An attribute that was set or removed. */
export interface AttributeEdit {
  /** A JSON pointer. */
  path: string;
  removed?: boolean;
  section: "attributes" | "desired" | "reported";
  /** Absent if it was removed. */
  value?: Value;
}

/** A part of the audit log. */
export interface Audit {
  entries: AuditEntry[];
}

/** Something that was done. */
export interface AuditEntry {
  /** The operation, by its operationId. */
  action: string;
  /** The address from which it came. */
  from?: string;
  outcome: string;
  /** Numbers the entries from 1, without a gap. */
  seq: number;
  /** Milliseconds since the epoch. */
  ts: number;
  /** The path. */
  what?: string;
  /** The principal. */
  who: string;
}

/** One of several messages. */
export interface BatchedBody {
  base64Encoded?: boolean;
  /** Base64 of JSON, unless base64Encoded is false. */
  body: string;
  /** By the names of the headers that the message would have. */
  properties?: Record<string, string>;
}

/** A step of time. Besides its members it has one for each aggregate: a number, or null where there is none. */
export interface Bucket {
  /** Its end; absent if the step is a duration. */
  end?: number;
  /** The start of the step. */
  ts: number;
  [other: string]: number | null | undefined;
}

/** Aggregates of a key by steps of time. */
export interface BucketPage {
  buckets: Bucket[];
  entity: string;
  key: string;
  /** The rollups from which it was read, and raw for values; absent if it was read from values alone. */
  source?: string[];
  /** A step of the calendar. */
  step?: string;
  /** The length of a step that is a duration. */
  step_ms?: number;
  /** The time zone of such a step. */
  tz?: string;
}

/** What a bulk update has done so far. */
export interface Bulk {
  changed: number;
  dry_run?: boolean;
  /** Milliseconds since the epoch. */
  ended_ms?: number;
  /** Some of the errors. */
  errors?: BulkError[];
  failed: number;
  filter: string;
  /** Absent for a dry run. */
  id?: string;
  /** The entities that were found. */
  matched: number;
  /** Some of the entities that were found. */
  sample: string[];
  /** The entities that no longer matched when their turn came. */
  skipped: number;
  /** Milliseconds since the epoch. */
  started_ms: number;
  state: "running" | "done" | "failed" | "canceled" | "limited";
  type?: string;
}

/** Says which entities to change, and how: by patch, by delete or by command. */
export interface BulkBody {
  /** Send this command to each device. */
  command?: CommandBody;
  /** Delete the entities. */
  delete?: boolean;
  /** Only find the entities. */
  dry_run?: boolean;
  /** docs/filter.md has the language; the empty filter matches all. */
  filter?: string;
  /** The maximum number of entities to change. */
  limit?: number;
  patch?: EntityPatch;
  /** The maximum number of entities to change in a second; unlimited by default. */
  rate?: number;
  /** Only entities of this type or one that extends it. */
  type?: string;
}

/** An error of a bulk update. */
export interface BulkError {
  detail: string;
  /** Absent for an error of the whole update. */
  entity?: string;
}

/** The bulk updates that are known. */
export interface BulkList {
  jobs: Bulk[];
}

/** The sender of a request. */
export interface Caller {
  /** Its permissions on all entities: read, report, write or manage. */
  all: string[];
  /** Clients must log in. */
  guarded: boolean;
  /** Empty if nobody has to log in. */
  name: string;
  /** Its permissions on some entities. */
  some: string[];
}

/** The data of a change event: a reading that was committed. */
export interface Change {
  /** When it was committed. */
  committed_ms: number;
  entity: string;
  /** The mapping that computed the value. */
  mapping?: string;
  /** The mapping that computed it. */
  source?: string;
  /** The source's number for it: the number of the change that caused it. */
  source_seq?: number;
  /** Milliseconds since the epoch. */
  ts: number;
  values: ValuesBody;
}

/** An attribute that a write has changed. */
export interface Changed {
  /** A JSON pointer. */
  path: string;
  removed?: boolean;
  section: "attributes" | "desired" | "reported";
}

/** The secret with which somebody claims a device. */
export interface ClaimBody {
  /** The secret of the device. */
  secret: string;
}

/** A cluster of servers with one store. */
export interface Cluster {
  /** The number of its ownership; each owner has a greater one than those before. */
  epoch: number;
  /** The last owners, newest first. */
  moves: Move[];
  nodes: NodeInfo[];
  /** Milliseconds since the epoch. */
  now_ms: number;
  /** The node that owns the store. It has answered. */
  owner: string;
  /** Since when it owns the store. */
  since_ms: number;
}

/** A command and its state. Times are in milliseconds since the epoch. */
export interface Command {
  attempts: number;
  /** Who sent it; absent if nobody has to log in. */
  by?: string;
  /** Milliseconds since the epoch. */
  created_ms: number;
  /** When the device has acknowledged it. */
  delivered_ms?: number;
  /** Milliseconds since the epoch. */
  ended_ms?: number;
  entity: string;
  /** Why it has failed. */
  error?: string;
  /** Until when it may be delivered. */
  expires_ms: number;
  id: string;
  key?: string;
  name: string;
  parallel?: boolean;
  /** The last progress that the device has reported; absent if none. */
  progress?: Value;
  /** Absent for none. */
  request?: Value;
  /** The answer of the device; absent for none. */
  result?: Value;
  /** When it was last sent, and how often. */
  sent_ms?: number;
  state: "queued" | "sent" | "delivered" | "done" | "failed" | "timed_out" | "expired" | "canceled";
  /** How long the device may take from the delivery to its answer, in milliseconds. */
  timeout_ms: number;
}

/** What a device reports about a command: delivered, progress, result or error. */
export interface CommandAnswerBody {
  /** It has the command. */
  delivered?: boolean;
  /** It has failed, and why. */
  error?: string;
  id: string;
  /** How far it has come: any JSON but null. */
  progress?: Json;
  /** It is done: any JSON that agrees with the type of the entity. */
  result?: Json;
}

/** A command as it is sent. */
export interface CommandBody {
  /** Until when it may be delivered, in milliseconds since the epoch or RFC 3339; by default 7 days from now. */
  expires?: Instant;
  /** The name of a command that the entity's type declares, or any name if the type is not strict. */
  name: string;
  /** Send it while others are under way. By default the commands of an entity are sent one at a time, in order. */
  parallel?: boolean;
  /** What to send to the device with the name: any JSON. */
  request?: Json;
  /** How long the device may take from delivery to its answer; by default 1m. */
  timeout?: string;
}

/** An operation that an entity offers. Without a Request or a Response, it may be anything. */
export interface CommandDeclaration {
  description?: string;
  /** Parallel lets a device carry out the command while it carries out others. */
  parallel?: boolean;
  request?: Schema;
  response?: Schema;
}

/** The data of a command event: a step of a command. */
export interface CommandEvent {
  /** The command, as it is since the step. */
  command: Command;
  /** When it was committed. */
  committed_ms: number;
  entity: string;
  /** Milliseconds since the epoch. */
  ts: number;
}

/** A command as its device receives it. */
export interface CommandMessage {
  /** Milliseconds since the epoch. */
  expires_ms: number;
  id: string;
  name: string;
  /** Absent for none. */
  request?: Value;
  /** Milliseconds since the epoch. */
  timeout_ms: number;
}

/** A page of commands. */
export interface CommandPage {
  commands: Command[];
  /** The cursor of the next page; absent at the end. */
  next?: string;
}

/** What may stand at the cursor of a query box, and whether the text is valid. */
export interface Completion {
  /** The text as the server writes it; absent with an error. */
  canonical?: string;
  /** The error in the text; absent if there is none. */
  error?: FilterError;
  /** Where the replaced text begins, in bytes of UTF-8. */
  from: number;
  items: Suggestion[];
  /** Where it ends. */
  to: number;
}

/** A line of the console. */
export interface ConsoleLine {
  /** The command and its arguments; help lists the commands. */
  line: string;
}

/** The output of a console command. */
export interface ConsoleOutput {
  /** Lines of text, or JSON if the line ends with -o json. */
  output: string;
}

/** A page of deliveries that were given up. */
export interface DeadDeliveries {
  deliveries: DeadDelivery[];
  /** The cursor of the next page; absent at the end. */
  next?: string;
}

/** A delivery that was given up. */
export interface DeadDelivery {
  alarm: Alarm;
  /** Milliseconds since the epoch. */
  at_ms: number;
  attempts: number;
  /** Identifies it among those of its webhook. */
  delivery: number;
  /** Why the last attempt has failed. */
  error: string;
  /** The header webhook-id, by which the target recognizes a repetition. */
  id: string;
  /** What has happened to the alarm. */
  kind: string;
}

/** A message that no actor handled. */
export interface DeadLetter {
  /** The PID of the sender; empty for a message from outside. */
  from: string;
  reason: string;
  /** Milliseconds since the epoch. */
  time_ms: number;
  /** The PID of the receiver. */
  to: string;
  /** The Go type of the message. */
  type: string;
}

/** Counts the messages that no actor handled. */
export interface DeadLetters {
  /** The total by reason. */
  by_reason: Record<string, number>;
  /** The last ones, newest first. */
  recent: DeadLetter[];
  total: number;
}

/** Has the attributes that there are. */
export interface DeviceAttributes {
  client?: JsonObject;
  shared?: JsonObject;
}

/** A command as ThingsBoard has it. */
export interface DeviceCommand {
  id: number;
  method: string;
  params: Value;
}

/** The data of an edit event: what a write has changed. */
export interface EditEvent {
  attributes?: AttributeEdit[];
  /** When it was committed. */
  committed_ms: number;
  /** The entity is new. */
  created?: boolean;
  /** The entity is deleted. */
  deleted?: boolean;
  entity: string;
  relations?: RelationEdit[];
  /** The entity's number for the edit. */
  revision: number;
  /** Milliseconds since the epoch. */
  ts: number;
  /** The new type; empty for none. */
  type?: string;
}

/** What a write has done. */
export interface Edited {
  changed: Changed[];
  /** The entity is new. */
  created: boolean;
  /** The version, for If-Match. */
  etag: string;
  id: string;
}

/** An entity, with the requested parts. */
export interface Entity {
  /** The PID of its actor; absent while it has none. */
  actor?: string;
  attributes?: JsonObject;
  /** Milliseconds since the epoch. */
  created_ms: number;
  /** The parts of desired that differ from reported. */
  delta?: JsonObject;
  desired?: JsonObject;
  /** The version of everything but the telemetry, for If-Match. */
  etag: string;
  id: string;
  /** The latest value of each key. */
  latest?: Record<string, Latest>;
  metadata?: Metadata;
  /** Whether its device is online. */
  presence: Presence;
  relations?: RelationCounts;
  reported?: JsonObject;
  /** The id of its type; absent for none. */
  type?: string;
  /** The newest time of its readings. */
  updated_ms: number;
}

/** An entity as it is written. */
export interface EntityBody {
  attributes?: { [key: string]: Json };
  desired?: { [key: string]: Json };
  /** Only when an entity is created; by default the server generates one. */
  id?: string;
  /** The relations from it. */
  relations?: RelationBody[];
  reported?: { [key: string]: Json };
  /** The id of its type; null for none. */
  type?: TypeRef;
}

/** A page of entities. It may have fewer entities than requested although there is a next page: if they are large, or with a filter, in which case it may even have none. */
export interface EntityPage {
  entities: Entity[];
  /** The cursor of the next page; absent at the end. */
  next?: string;
  /** How many entities match in total; only with count. */
  total?: number;
}

/** What is merged into an entity. */
export interface EntityPatch {
  attributes?: { [key: string]: Json };
  desired?: { [key: string]: Json };
  reported?: { [key: string]: Json };
  /** The id of its type; null for none. */
  type?: TypeRef;
}

/** A value and where it comes from. */
export interface Explained {
  /** No device sent it. */
  computed: boolean;
  entity: string;
  key: string;
  mapping?: Mapping;
  /** The mapping is still the version that computed the value. */
  same_version?: boolean;
  /** The mapping that computed it. */
  source?: string;
  /** The source's number for it: the number of the change that caused it. */
  source_seq?: number;
  /** Milliseconds since the epoch. */
  ts: number;
  value: Value;
}

/** A failure of an actor. */
export interface Failure {
  error: string;
  /** The type of the message that was being handled. */
  message_type?: string;
  /** The stack of a panic. */
  stack?: string;
  /** Milliseconds since the epoch. */
  time_ms: number;
}

export type FieldList = ("latest" | "attributes" | "desired" | "reported" | "delta" | "metadata" | "relations")[];

/** An error in a filter or a mapping. */
export interface FilterError {
  /** The position in characters, from 1; in a mapping, within its line. */
  column: number;
  /** The line, from 1; only of a mapping. */
  line?: number;
  /** The place in bytes of UTF-8. */
  offset: number;
  text: string;
}

/** What a principal may do with which entities. */
export interface Grant {
  /** Which entities, in the language of docs/filter.md, by id, type and attributes; absent for all entities, and in the role device for the entity with the principal's name. */
  filter?: string;
  role: "admin" | "operator" | "viewer" | "device";
}

/** The series of a group. */
export interface Group {
  /** Only with agg. */
  buckets?: Bucket[];
  /** How many entities are in it. */
  entities: number;
  /** What the group has in common, by the names of group_by; null for missing values. */
  group: { [key: string]: Json };
  /** Only with points. */
  points?: Point[];
  /** How many numbers there are; only with points. */
  total?: number;
}

/** Says that the server can commit. */
export interface Health {
  status: "ok";
}

/** A page of values, or aggregates. */
export type History = PointPage | BucketPage;

/** Asks for the history of several entities. */
export interface HistoryBody {
  /** The aggregates of each step: avg, min, max, sum, count, first, last, rate and percentiles such as p95. */
  agg?: string[];
  /** How the members of a group are combined; pool counts their values together. */
  combine?: "pool" | "sum" | "avg" | "min" | "max";
  /** The ids of the entities; by default filter or type selects them. */
  entities?: string[];
  /** What to put into buckets without a number: none, null, previous, linear or a number. */
  fill?: string;
  /** docs/filter.md has the language; the empty filter matches all. */
  filter?: string;
  /** The start of the range, inclusive. */
  from?: Instant;
  /** entity, key, type, or paths such as attributes.building; by default entity and key. */
  group_by?: string[];
  keys: string[];
  /** Instead of agg: reduce each series to this many points, for a chart. */
  points?: number;
  /** The length of a step, as in the history of one key. */
  step?: string;
  /** The end of the range, exclusive. */
  to?: Instant;
  /** Only entities of this type or one that extends it. */
  type?: string;
  /** The time zone of a step of the calendar. */
  tz?: string;
}

/** An error in a line. */
export interface ImportError {
  detail: string;
  /** The number of the line, from 1; 0 for types, which are imported together. */
  line: number;
}

/** What an import has done. All that was accepted is durable. */
export interface Imported {
  accepted: number;
  /** Some of the errors. */
  errors: ImportError[];
  failed: number;
  lines: number;
}

/** A type that was put. */
export interface ImportedType {
  etag: string;
  id: string;
}

/** The types that were put. */
export interface ImportedTypes {
  types: ImportedType[];
}

/** Has the counters of the ingestion of readings. */
export interface Ingest {
  /** The transactions that committed them. */
  batches: number;
  /** The median time from acceptance to commit. */
  commit_p50_ms: number;
  /** The 99th percentile of it. */
  commit_p99_ms: number;
  /** The entities with a live actor. */
  entities_live: number;
  /** The entities that exist. */
  entities_registered: number;
  /** The readings that were committed. */
  readings: number;
  /** The messages and requests that were refused. */
  rejected: number;
  /** The values in them. */
  values: number;
  /** The bytes of readings between arrival and commit. */
  window_bytes: number;
  /** The bound of window_bytes. */
  window_bytes_max: number;
}

/** Milliseconds since the epoch, or RFC 3339. */
export type Instant = number | string;

/** A section of attributes: any JSON object. */
export type JsonObject = { [key: string]: Json };

/** The latest value of a key. */
export interface Latest {
  /** The mapping that computed the value. */
  mapping?: string;
  /** The entity's number of the reading that brought it. */
  seq: number;
  /** The mapping that computed it. */
  source?: string;
  /** The source's number for it: the number of the change that caused it. */
  source_seq?: number;
  /** When it was measured. */
  ts: number;
  value: Value;
}

/** Counts the waiting messages of a type. */
export interface Mail {
  count: number;
  type: string;
}

/** One value that a mapping computes. */
export interface MappedField {
  /** The key that is written. */
  as: string;
  evaluations: number;
  expression: string;
  /** Why the last failed evaluation failed. */
  failure?: string;
  failure_ts?: number;
  failures: number;
  /** Its place in the order of evaluation: after the mappings from which it reads. */
  rank: number;
  /** What it is computed from. */
  sources: MappedSource[];
  state: "active" | "waiting" | "failing" | "suspended";
  /** Milliseconds since the epoch. */
  ts?: number;
  /** The last value; absent while there is none. */
  value?: Value;
}

/** A source of a computed value. */
export interface MappedSource {
  /** The mappings that compute the source. */
  mappings?: string[];
  /** How many entities of a group are counted. */
  members: number;
  /** How many readings of a window are counted. */
  readings: number;
  /** Some of these entities. */
  some?: string[];
  source: string;
  /** Milliseconds since the epoch. */
  ts?: number;
  /** The last value; absent while there is none. */
  value?: Value;
}

/** A mapping with what it is doing. */
export interface Mapping {
  /** The version, for If-Match. */
  etag: string;
  /** What it computes; absent in a list. */
  fields?: MappedField[];
  /** The entity to which the values are written; empty without a statement. */
  into: string;
  name: string;
  /** Why it is suspended or refused. */
  problem?: string;
  /** Why it did not accept the last of these. */
  refusal?: string;
  /** How many of its values the target did not accept. */
  refusals: number;
  state: "active" | "waiting" | "failing" | "suspended" | "refused";
  /** Absent if the mapping is refused because its text cannot be read, or takes too much memory. */
  statement?: StatementBody;
  /** The statement as text. In a list it is empty if there is no statement. */
  text: string;
  /** Milliseconds since the epoch. */
  updated_ms: number;
  /** The number of the version; a value names the version that computed it. */
  version: number;
}

/** All mappings, by name. */
export interface MappingList {
  mappings: Mapping[];
  stats: MappingStats;
}

/** Has the counters of all mappings since the start of the server. */
export interface MappingStats {
  /** The changes that were examined. */
  changes: number;
  /** The values that they could not keep, as there was no room, and the groups that have given up their members. */
  dropped: number;
  evaluations: number;
  /** The evaluations that failed, and the readings that a target refused. */
  failures: number;
  /** The memory of what they keep of their sources, in bytes, an estimate. */
  kept_bytes: number;
  /** How far the mappings are behind the changes. */
  lag_ms: number;
  /** How often the mappings fell behind the change buffer and read the log. */
  lagged: number;
  mappings: number;
  /** How often changes were no longer in the log, so that everything was recomputed. */
  missed: number;
  /** The readings that were written. */
  outputs: number;
  /** The readings that their targets did not accept. */
  refused: number;
  /** How often the service restarted. */
  restarts: number;
  /** The values in them. */
  values: number;
  /** The changes that are read and not applied. */
  waiting: number;
}

/** Has the sections again, with {"timestamp": seconds} instead of each value. */
export interface Metadata {
  attributes: JsonObject;
  delta: JsonObject;
  desired: JsonObject;
  reported: JsonObject;
}

/** Says that a node has become the owner of the store. */
export interface Move {
  /** Milliseconds since the epoch. */
  at_ms: number;
  epoch: number;
  node: string;
}

/** A node of a cluster. */
export interface NodeInfo {
  /** Its addresses for HTTP, for MQTT and for the other nodes. */
  http: string;
  /** Whether it has a lease, so that it may own the store. */
  lease: boolean;
  link: string;
  mqtt: string;
  name: string;
  /** up; drained, if it forwards what clients send and no longer takes the store; or silent, if it does not answer. */
  state: string;
  /** The version of its server. */
  version: string;
}

/** A device that offers to be claimed by whoever knows its secret. */
export interface Offer {
  entity: string;
  /** When the offer expires. */
  until_ms: number;
}

/** What a device sends to offer itself. */
export interface OfferBody {
  /** How long the offer lasts; 0 or absent for a day. */
  durationMs?: number;
  /** 1 to 1024 bytes. */
  secretKey: string;
}

/** A page of the devices that offer to be claimed. */
export interface Offers {
  /** The cursor of the next page; absent at the end. */
  next?: string;
  offers: Offer[];
}

/** An operation of RFC 6902. */
export interface PatchOperation {
  /** Where the value comes from, in move and copy. */
  from?: string;
  op: "add" | "remove" | "replace" | "move" | "copy" | "test";
  /** A JSON pointer. */
  path: string;
  /** Any JSON, in add, replace and test. */
  value?: Json;
}

/** A value of a history. */
export interface Point {
  /** Milliseconds since the epoch. */
  ts: number;
  value: Value;
}

/** A page of the values of a key, or points for a chart. */
export interface PointPage {
  entity: string;
  key: string;
  /** The cursor of the next page; absent at the end. */
  next?: string;
  points: Point[];
  /** How many numbers there are; only with points. */
  total?: number;
}

/** Says whether the device of an entity is online. */
export interface Presence {
  /** It has a connection, its own or that of a gateway. */
  connected: boolean;
  /** When it was last heard from; absent for never. */
  seen_ms?: number;
  /** Since when it has had this state; absent if the state is unknown. */
  since_ms?: number;
  /** unknown means that it was never heard from. */
  state: "online" | "offline" | "unknown";
}

/** The data of a presence event: a change of the state, or of being connected. */
export interface PresenceEvent {
  /** When it was committed. */
  committed_ms: number;
  entity: string;
  /** The presence, as it is since the change. */
  presence: Presence;
  /** Milliseconds since the epoch. */
  ts: number;
}

/** Says when a device of the type counts as offline. Times are texts such as 90s, 10m or 1h30m. */
export interface PresenceType2 {
  /** How long a device may be without the connection that it had, at most 24h; "" leaves it to the server. */
  grace?: string;
  /** How long a device without a connection of its own may be silent, from 1s to 366d, or none; "" leaves it to the server. */
  timeout?: string;
}

/** A principal. */
export interface Principal {
  /** Who made it. */
  by?: string;
  /** Milliseconds since the epoch. */
  created_ms: number;
  credential: "token" | "password" | "key" | "certificate" | "oidc";
  /** Absent for never. */
  expires_ms?: number;
  grants: Grant[];
  /** Until when it last had to wait, or was refused, because it sent more than it may; absent for never since the start of the server. */
  held_ms?: number;
  name: string;
  /** How many KiB it may send in a second; absent if that is up to the server. */
  rate_kib?: number;
  /** The symmetric key, Base64; as token. */
  shared_key?: string;
  /** Only in the response to the request that made it: it cannot be read again. */
  token?: string;
  /** When it last logged in; absent for never. */
  used_ms?: number;
  /** How long its connections and requests have had to wait for that reason, in total. */
  waited_s?: number;
}

/** A principal as it is made. Without password, key, certificate and oidc it gets a token. */
export interface PrincipalBody {
  /** For devices that show a client certificate whose common name is the name. */
  certificate?: boolean;
  /** When it expires, in milliseconds since the epoch; absent for never. */
  expires_ms?: number;
  /** 1 to 16. */
  grants: Grant[];
  /** For devices that sign with a key, as those of Azure IoT Hub do. The store keeps the key in clear. */
  key?: boolean;
  /** ASCII letters, digits and . _ - : @. */
  name: string;
  /** For people who log in with the OpenID Connect provider, which must know them by this name. */
  oidc?: boolean;
  /** For devices that have a name and a password; 8 to 1024 bytes. */
  password?: string;
  /** How many KiB it may send in a second; what it sends beyond that is read later. 0 or absent for what the server allows devices, gateways and admins. */
  rate_kib?: number;
}

/** A page of principals. */
export interface PrincipalPage {
  /** The cursor of the next page; absent at the end. */
  next?: string;
  principals: Principal[];
}

/** An RFC 9457 problem document. */
export interface Problem {
  /** The position in a filter or a statement, in characters from 1. */
  column?: number;
  /** The values of a cycle of mappings. */
  cycle?: string[];
  /** What was wrong, and what is expected. */
  detail: string;
  /** The member of a JSON body that contains the position. */
  in?: string;
  /** The path of the request. */
  instance: string;
  /** The line of the position, from 1. */
  line?: number;
  /** The mappings of the cycle. */
  mappings?: string[];
  /** The place in bytes of UTF-8. */
  offset?: number;
  status: number;
  title: string;
  type: string;
}

/** A value of an entity that stays the same until it is changed. */
export interface Property {
  description?: string;
  /** Element describes the elements of an array and the values of a map. */
  element?: Schema;
  /** The fields of an object. Other fields are refused. */
  fields?: Record<string, Schema>;
  max?: number;
  /** MaxLength bounds texts, in bytes, and arrays, in elements. 0 means no limit. */
  maxLength?: number;
  /** Min and Max are the limits of numbers, both inclusive. */
  min?: number;
  name?: string;
  /** What the value means, such as Temperature. */
  semantic?: string;
  type: string;
  unit?: string;
  /** The values of an enumeration: all texts or all integers. */
  values?: Json[];
  /** Writable says that the value may be requested in the section desired. */
  writable?: boolean;
}

/** A device's request for credentials. */
export interface ProvisionBody {
  clientId?: string;
  /** MQTT_BASIC for a password chosen by the device; ACCESS_TOKEN, or absent, for a token made by the server. */
  credentialsType?: string;
  /** The name of the device, and the id of its entity; by default the server makes one. */
  deviceName?: string;
  password?: string;
  /** The name of a provision key. */
  provisionDeviceKey: string;
  provisionDeviceSecret: string;
  username?: string;
}

/** A provision key. */
export interface ProvisionKey {
  /** Who made it. */
  by?: string;
  /** Milliseconds since the epoch. */
  created_ms: number;
  /** How many devices have used it and were not revoked. */
  devices: number;
  /** Milliseconds since the epoch. */
  expires_ms?: number;
  max?: number;
  name: string;
  prefix: string;
  /** Only in the response to the request that made it: it cannot be read again. */
  secret?: string;
  strategy: "create" | "check";
  type?: string;
}

/** A provision key as it is made. */
export interface ProvisionKeyBody {
  /** When it expires, in milliseconds since the epoch; absent for never. */
  expires_ms?: number;
  /** How many devices may use it, not counting revoked ones; 0 or absent for any number. */
  max?: number;
  /** The name of the key, which devices send as provisionDeviceKey: ASCII letters, digits and . _ - : @. */
  name: string;
  /** The prefix that the names of the devices must have. */
  prefix: string;
  /** create is for new devices, check for devices whose entity exists. */
  strategy: "create" | "check";
  /** The type of the created entities; absent for none. */
  type?: string;
}

/** All provision keys. */
export interface ProvisionKeyList {
  keys: ProvisionKey[];
}

/** The response to the device, also if it gets nothing. */
export interface Provisioned {
  credentialsType?: string;
  /** The access token, or clientId, userName and password. */
  credentialsValue?: Json;
  /** Why it got no credentials; absent for SUCCESS. */
  errorMsg?: string;
  status: "SUCCESS" | "NOT_FOUND" | "FAILURE";
}

/** A saved query. */
export interface Query {
  /** The version, for If-Match. */
  etag: string;
  /** docs/filter.md has the language. */
  filter: string;
  id: string;
  title?: string;
  /** Only entities of this type or one that extends it. */
  type?: string;
  /** Milliseconds since the epoch. */
  updated_ms: number;
  /** Any JSON that the owner of the query keeps with it. */
  view?: Json;
}

/** A saved query as it is written. */
export interface QueryBody {
  /** docs/filter.md has the language. */
  filter: string;
  title?: string;
  /** Only entities of this type or one that extends it. */
  type?: string;
  /** Any JSON that the owner of the query keeps with it. */
  view?: Json;
}

/** The saved queries. */
export interface QueryList {
  queries: Query[];
}

/** An entity that a traversal has reached. */
export interface Reached {
  /** The relation by which it was reached; absent for the first. */
  by?: Relation;
  /** How many relations lead to it. */
  depth: number;
  /** Absent if no fields were requested. */
  entity?: Entity;
  id: string;
}

/** What a traversal has reached, nearest first. */
export interface ReachedList {
  /** There are more than the limit. */
  more: boolean;
  reached: Reached[];
}

/** Values by key, measured at a time. */
export interface ReadingBody {
  /** The device's own number for the reading, by which a repetition is recognized. */
  seq?: number;
  /** Milliseconds since the epoch. */
  ts: number;
  values: ValuesBody;
}

/** A ready-made template. */
export interface ReadyTemplate {
  name: string;
  payload: string;
  template: TemplateBody;
  title: string;
  /** A message that it takes. */
  topic: string;
}

/** The range of time to compute. */
export interface RecomputeBody {
  /** The start of the range, inclusive. */
  from?: Instant;
  /** The end of the range, exclusive. */
  to?: Instant;
}

/** Says how many values were written. */
export interface Recomputed {
  written: number;
}

/** What was refused from one client at one place for one cause. */
export interface Refusal {
  cause: string;
  /** The client id of MQTT. */
  client?: string;
  /** How often. */
  count: number;
  /** What was wrong the last time, and what is expected. */
  detail: string;
  /** Milliseconds since the epoch. */
  first_ms: number;
  /** Milliseconds since the epoch. */
  last_ms: number;
  /** The last message, or its beginning, for topics that belong to no convention but that of templates; absent for others. */
  payload?: string;
  /** Replaces payload if that is not text, in Base64. */
  payload_bytes?: string;
  /** The length of the whole message; absent if nothing of it is kept. */
  payload_size?: number;
  /** mqtt or http. */
  source: string;
  /** The topic or the path. */
  where: string;
}

/** What was refused since the start. */
export interface Refusals {
  /** Milliseconds since the epoch. */
  now_ms: number;
  /** The last ones, one for each place, client and cause, newest first. */
  recent: Refusal[];
  /** The messages and requests that were refused. */
  total: number;
}

/** A relation. */
export interface Relation {
  /** The id of the entity from which it leads. */
  from: string;
  properties?: { [key: string]: Json };
  /** The id of the entity to which it leads. */
  to: string;
  type: string;
}

/** A relation as it is written. */
export interface RelationBody {
  /** The id of the entity from which it leads; only in an import. */
  from?: string;
  properties?: { [key: string]: Json };
  /** The id of the entity to which it leads. */
  to: string;
  type: string;
}

/** The number of relations by type. */
export interface RelationCounts {
  in: Record<string, number>;
  out: Record<string, number>;
}

/** A kind of edge from an entity. */
export interface RelationDeclaration {
  description?: string;
  /** How many edges of this kind an entity may have; 0 means no limit. */
  max?: number;
  /** The properties of an edge. */
  properties?: Record<string, Schema>;
  /** The types of entities to which an edge may lead; a type that extends one of them will do. Empty allows all. */
  target?: string[];
}

/** A relation that was put or removed. */
export interface RelationEdit {
  /** The id of the entity from which it leads. */
  from: string;
  properties?: { [key: string]: Json };
  removed?: boolean;
  /** The id of the entity to which it leads. */
  to: string;
  type: string;
}

/** A page of relations. */
export interface RelationPage {
  /** The cursor of the next page; absent at the end. */
  next?: string;
  relations: Relation[];
}

/** A type with all that it inherits and contains. */
export interface ResolvedType {
  commands: Record<string, CommandDeclaration>;
  etag: string;
  id: string;
  /** The type itself and all that it extends. */
  isA: string[];
  properties: Record<string, Property>;
  relations: Record<string, RelationDeclaration>;
  /** Entities may have only what the type declares. */
  strict: boolean;
  telemetry: Record<string, Schema>;
}

/** All rules, by id, and the state of their application. */
export interface Retention {
  rules: Rule[];
  status: RetentionStatus;
}

/** Says what a Retainer has done since it was started. */
export interface RetentionStatus {
  error?: string;
  /** Milliseconds since the epoch. */
  last_ms?: number;
  late: number;
  /** Milliseconds since the epoch. */
  next_ms?: number;
  removed: number;
  rounds: number;
  rows: number;
  running: boolean;
  series: number;
}

/** Selects a version. */
export interface RollBackBody {
  version: number;
}

/** A rule with its name and version. */
export interface Rule {
  etag: string;
  /** How long after its end a row is made: late values that come before that cost nothing more. It defaults to 0. */
  grace?: string;
  id: string;
  key?: string;
  /** How long the values themselves are kept after their time; 0 means forever. */
  raw?: string;
  /** The rollups, from short to long steps. Each is made from the one before it, the first from the values. */
  tiers?: Tier[];
  /** Type and Key say what the rule covers: the keys of this name of entities of this type. "" stands for any. */
  type?: string;
}

/** A rule as it is written; a response can be sent back unchanged. */
export interface RuleBody {
  /** Ignored: the version goes into If-Match. */
  etag?: string;
  /** How long after its end a row is made: late values that come before that cost nothing more. It defaults to 0. */
  grace?: string;
  /** Ignored: the path has it. */
  id?: string;
  key?: string;
  /** How long the values themselves are kept after their time; 0 means forever. */
  raw?: string;
  /** The rollups, from short to long steps. Each is made from the one before it, the first from the values. */
  tiers?: Tier[];
  /** Type and Key say what the rule covers: the keys of this name of entities of this type. "" stands for any. */
  type?: string;
}

/** Describes a value. */
export interface Schema {
  description?: string;
  /** Element describes the elements of an array and the values of a map. */
  element?: Schema;
  /** The fields of an object. Other fields are refused. */
  fields?: Record<string, Schema>;
  max?: number;
  /** MaxLength bounds texts, in bytes, and arrays, in elements. 0 means no limit. */
  maxLength?: number;
  /** Min and Max are the limits of numbers, both inclusive. */
  min?: number;
  name?: string;
  /** What the value means, such as Temperature. */
  semantic?: string;
  type: string;
  unit?: string;
  /** The values of an enumeration: all texts or all integers. */
  values?: Json[];
}

/** A script and its status. Counters start with the server. */
export interface Script {
  /** The number of readings, edits and commands that it has made, of those that were refused, and of those that are pending. */
  effects: number;
  /** The version, for If-Match. */
  etag: string;
  /** The last failures, newest first; absent in a list. */
  failed?: ScriptFailure[];
  failures: number;
  in_row: number;
  /** Only readings with a value for any of these keys; by default all. */
  keys?: string[];
  /** How long ago the change that it is handling was committed; 0 if none is waiting. */
  lag_ms: number;
  /** How often it has missed changes, because they were no longer kept. */
  missed: number;
  name: string;
  /** A comment about the version. */
  note?: string;
  /** The author. The script affects only entities that the author may write. */
  owner: string;
  pending: number;
  /** Why it is refused. */
  problem?: string;
  refused: number;
  /** The number of calls, of failed calls, and of failures since the last success. */
  runs: number;
  /** The Lua 5.1 source. It must define on_reading(e, r), every_minute(e), or both. */
  source: string;
  state: "on" | "disabled" | "failures" | "refused";
  /** Only entities of this type or one that extends it. */
  type?: string;
  /** Milliseconds since the epoch. */
  updated_ms: number;
  /** The number of the version, which is in the origins of values. */
  version: number;
  /** Only entities that this filter matches; docs/filter.md has the language. */
  where?: string;
}

/** A script. */
export interface ScriptBody {
  /** Only readings with a value for any of these keys; by default all. */
  keys?: string[];
  /** A comment about the version. */
  note?: string;
  /** The Lua 5.1 source. It must define on_reading(e, r), every_minute(e), or both. */
  source: string;
  /** Only entities of this type or one that extends it. */
  type?: string;
  /** Only entities that this filter matches; docs/filter.md has the language. */
  where?: string;
}

/** A failed call, or a refused effect. */
export interface ScriptFailure {
  entity: string;
  /** The line of the source, from 1; absent if it is not known. */
  line?: number;
  refused?: boolean;
  seq?: number;
  text: string;
  /** Milliseconds since the epoch. */
  time_ms: number;
  /** Milliseconds since the epoch. */
  ts?: number;
  version: number;
}

/** A script as its author writes it. */
export interface ScriptFields {
  /** Only readings with a value for any of these keys; by default all. */
  keys?: string[];
  /** A comment about the version. */
  note?: string;
  /** The Lua 5.1 source. It must define on_reading(e, r), every_minute(e), or both. */
  source: string;
  /** Only entities of this type or one that extends it. */
  type?: string;
  /** Only entities that this filter matches; docs/filter.md has the language. */
  where?: string;
}

/** All scripts, by name, without their failures. */
export interface ScriptList {
  scripts: Script[];
}

/** The state that a script keeps for an entity. */
export interface ScriptState {
  /** The table self; null if it is empty. */
  state: Json;
}

/** What a script would have done about a reading. */
export interface ScriptStep {
  commands?: TriedCommand[];
  /** Why it has failed, with the traceback; absent if it has not. */
  error?: string;
  /** The line of the source where it has failed, from 1. */
  line?: number;
  patches?: TriedPatch[];
  /** The lines that it has printed. */
  printed?: string[];
  reading: TriedReading;
  /** What it would have done. */
  readings?: TriedReading[];
  /** The table self afterwards; absent if it is empty. */
  state?: Json;
}

/** What a script would have done, in the order of the readings. */
export interface ScriptTrial {
  steps: ScriptStep[];
}

/** A version of a script. */
export interface ScriptVersion {
  /** Only readings with a value for any of these keys; by default all. */
  keys?: string[];
  /** A comment about the version. */
  note?: string;
  owner: string;
  /** The Lua 5.1 source. It must define on_reading(e, r), every_minute(e), or both. */
  source: string;
  /** Only entities of this type or one that extends it. */
  type?: string;
  /** Milliseconds since the epoch. */
  updated_ms: number;
  version: number;
  /** Only entities that this filter matches; docs/filter.md has the language. */
  where?: string;
}

/** The versions of a script, the newest first. */
export interface ScriptVersions {
  versions: ScriptVersion[];
}

/** Selects entities. */
export interface SearchBody {
  /** Also count all entities that match. */
  count?: boolean;
  /** The cursor from the previous page. */
  cursor?: string;
  fields?: FieldList;
  /** docs/filter.md has the language; the empty filter matches all. */
  filter?: string;
  /** The maximum number of entities to return. */
  limit?: number;
  /** Only entities whose id contains this, in any case. */
  search?: string;
  /** Only entities of this type or one that extends it. */
  type?: string;
}

/** All sections of an entity. */
export interface Sections {
  attributes: JsonObject;
  /** The parts of desired that differ from reported. */
  delta: JsonObject;
  desired: JsonObject;
  metadata: Metadata;
  reported: JsonObject;
}

/** All sections of an entity as they are written. */
export interface SectionsBody {
  attributes?: { [key: string]: Json };
  desired?: { [key: string]: Json };
  reported?: { [key: string]: Json };
}

/** A message that the server would send. */
export interface SentMessage {
  payload: string;
  topic: string;
}

/** One of the readings of an array. */
export type SentReading = ValuesBody | ReadingBody;

/** The history of several entities. */
export interface SeriesList {
  /** A series for each group. */
  series: Group[];
  /** A step of the calendar. */
  step?: string;
  /** The length of a step that is a duration. */
  step_ms?: number;
  /** The time zone of such a step. */
  tz?: string;
}

/** The response to a device's request. */
export interface ServerCall {
  /** The error, instead of another answer. */
  error?: string;
  /** In milliseconds since the epoch. */
  time?: number;
}

/** A request of a device. */
export interface ServerCallBody {
  method: string;
  params?: { [key: string]: Json };
}

/** What somebody logs in with: a token, or a name and a password. */
export interface SessionBody {
  name?: string;
  password?: string;
  token?: string;
}

/** A document of a shadow. */
export interface Shadow {
  clientToken?: string;
  metadata?: JsonObject;
  state?: JsonObject;
  /** In seconds since the epoch. */
  timestamp: number;
  version: number;
}

/** An update of a shadow. */
export interface ShadowBody {
  /** Returned in the response. */
  clientToken?: string;
  state: { [key: string]: Json };
  /** The version that the shadow must have. */
  version?: number;
}

/** Has the names of shadows. */
export interface ShadowList {
  results: string[];
  timestamp: number;
}

/** A mapping in JSON. */
export interface StatementBody {
  /** The groups that the expressions name. */
  from?: StatementGroup[];
  /** The entity to which the values are written. */
  into: string;
  /** The values that are computed. */
  select: StatementField[];
}

/** A value that a mapping computes. */
export interface StatementField {
  /** The key that is written. */
  as?: string;
  /** The expression. */
  value: string;
}

/** One or several entities that a mapping reads from: by list, by like, or by entity and one of out and in. */
export interface StatementGroup {
  /** The name of the group in expressions. */
  as: string;
  entity?: string;
  /** The type of the relations to the entity. */
  in?: string;
  /** A pattern of ids with % for any characters and _ for one. */
  like?: string;
  list?: string[];
  /** The type of the relations from the entity. */
  out?: string;
}

/** A text that may be inserted there. */
export interface Suggestion {
  kind: "word" | "operator" | "path" | "relation" | "id" | "value" | "function";
  text: string;
}

/** Enables or disables a script. */
export interface SwitchScriptBody {
  on: boolean;
}

/** Has the counters of a server since its start. */
export interface System {
  /** The live actors. */
  actors: number;
  /** Where devices and people connect. */
  addresses: Addresses;
  dead_letters: DeadLetters;
  /** The failures of actors. */
  failures: number;
  /** The messages that actors handled. */
  handled: number;
  ingest: Ingest;
  name: string;
  /** The node of a cluster that has answered, which owns the store; absent if there is no cluster. */
  node?: string;
  /** Milliseconds since the epoch. */
  now_ms: number;
  restarts: number;
  /** The actors that wait for a worker. */
  runnable: number;
  /** Milliseconds since the epoch. */
  started_ms: number;
  timers: number;
  /** The version of the server. */
  version: string;
  workers: number;
}

/** What a device sends: values measured now, a reading, or an array of either. */
export type TelemetryBody = ValuesBody | ReadingBody | SentReading[];

/** A template with its name and version. */
export interface Template {
  /** The version, for If-Match. */
  etag: string;
  name: string;
  /** Why it is not in force; absent if it is. */
  problem?: string;
  template: TemplateBody;
  /** Milliseconds since the epoch. */
  updated_ms: number;
}

/** Says how a device answers commands. */
export interface TemplateAnswer {
  /** An expression; if it has a value, the command has failed with that reason. */
  error?: string;
  /** Named says that only a payload with a member of the command's name, in any case, is its answer, and that this member is the result. */
  named?: boolean;
  /** An expression for the number of the answered command; by default, the one that was sent first. */
  number?: string;
  /** An expression for the result; by default, it is the payload. */
  result?: string;
  /** Where the answer arrives, with the placeholders of the entity's id. */
  topic: string;
}

/** Gives messages with some topics a meaning. */
export interface TemplateBody {
  /** The ways in which commands of the entity are sent. If there are several, the one with the command's name is used, otherwise the one without a name. */
  commands?: TemplateCommand[];
  /** The id of the entity, with placeholders of the topic; by default {id}. */
  entity?: string;
  /** Flatten turns members of objects into separate keys: energy.power. */
  flatten?: boolean;
  /** Into says what the values become; by default telemetry. */
  into?: "telemetry" | "reported" | "nothing";
  /** * for all members of the payload as keys, or path.* for those of an object in it. Values takes precedence. */
  members?: string;
  /** Json (the default), or text for a payload that is a number, true, false or a text, which expressions use as value. */
  payload?: "json" | "text";
  /** An expression for the time of the values; by default, or if a message has none, it is the time of arrival. TimeUnit is ms (the default), s, or iso for RFC 3339. TimeZone is the zone of iso times that have none, such as Europe/Berlin. */
  time?: string;
  time_unit?: "ms" | "s" | "iso";
  time_zone?: string;
  /** A topic in which {name} stands for one level, and + for one that does not matter. */
  topic: string;
  /** The type of an entity that is created by its first message. */
  type?: string;
  /** Expressions by key; keys may contain placeholders of the topic. */
  values?: Record<string, string>;
  /** A condition; a message for which it does not hold is taken and dropped. */
  when?: string;
}

/** Says how a command of an entity is sent. */
export interface TemplateCommand {
  /** Answer says what ends the command. By default a command is done when the client has acknowledged the message. */
  answer?: TemplateAnswer;
  /** The name of the command; by default, it is for all commands that no other entry names. */
  name?: string;
  /** Any JSON. In its strings {request}, {command} and {number}, a number of the command, are filled in, as are the placeholders; a string that is one of these alone becomes the value itself. By default, it is the request. */
  payload?: Json;
  /** Text sends a payload that is a string without its quotes. */
  text?: boolean;
  /** The topic to which it is sent, with placeholders of the entity's id, and {command} for the name of the command. */
  topic: string;
}

/** All templates, by name. */
export interface TemplateList {
  /** Ready-made templates, for common devices. */
  ready: ReadyTemplate[];
  templates: Template[];
}

/** One rollup of a rule. */
export interface Tier {
  /** How long a row is kept after its end; 0 means forever. A later tier must be kept at least as long as the one before. */
  keep?: string;
  /** Percentiles says that rows have percentiles, which takes some hundred bytes a row. A tier with percentiles needs them in the tier before it, too. */
  percentiles?: boolean;
  /** The length of a row, whose edges are multiples of it since 1970 in UTC. The step of a later tier is a multiple of the one before. */
  step: string;
}

/** A timer of an actor. */
export interface Timer {
  /** Its period; 0 if it fires once. */
  every_ms: number;
  /** How long until it fires. */
  in_ms: number;
  key: string;
}

/** Selects the entities to reach from one. */
export interface TraverseBody {
  /** How many relations to follow one after the other. */
  depth?: number;
  direction?: "out" | "in" | "both";
  /** A condition on the properties of a relation, such as relation.since > 2020. */
  edge?: string;
  /** The parts of the entities to return; by default none. */
  fields?: FieldList;
  /** The maximum number of entities to return. */
  limit?: number;
  /** A filter for the entities in the answer. */
  match?: string;
  /** A filter for the entities from which the traversal continues. */
  through?: string;
  /** The types of the relations to follow; all if empty. */
  types?: string[];
}

/** A command that a script would have sent. */
export interface TriedCommand {
  name: string;
  request?: Json;
}

/** A command to try. */
export interface TriedCommandBody {
  name: string;
  request?: Json;
}

/** A change of attributes that a script would have made. */
export interface TriedPatch {
  patch: Json;
  section: "attributes" | "desired";
}

/** A reading. */
export interface TriedReading {
  /** Milliseconds since the epoch. */
  ts: number;
  values: Json;
}

/** Why a message would be refused. */
export interface TriedRefusal {
  cause: string;
  detail: string;
  /** The member of the template that is at fault; absent if it is the message. */
  in?: string;
}

/** The result of applying a template to a message. */
export interface TriedTemplate {
  /** The entity that the message is about. */
  entity?: string;
  /** What the values become; empty if the message is dropped. */
  into?: "telemetry" | "reported" | "nothing";
  /** Why the message would be refused; absent if it would be accepted. */
  refused?: TriedRefusal;
  /** The message with the command. */
  sent?: SentMessage;
  /** The time of the values, in milliseconds; absent if it is the time of arrival. */
  ts?: number;
  /** The type of the entity if the message makes it. */
  type?: string;
  /** The values, by key. */
  values?: Json;
}

/** A script, and the readings to try it on. */
export interface TryScriptBody {
  /** The entity; the caller must be permitted to write it. */
  entity: string;
  /** The start of the range, inclusive. */
  from?: Instant;
  /** The number of readings, counted from the last one. */
  last?: number;
  /** The script; by default the stored one of the name. */
  script?: ScriptFields;
  /** The end of the range, exclusive. */
  to?: Instant;
}

/** A template and a message. */
export interface TryTemplateBody {
  /** A command of the entity, to see how it would be sent. */
  command?: TriedCommandBody;
  /** The name of the template that it would replace. */
  name?: string;
  payload: string;
  /** Replaces payload if that is not text, in Base64. */
  payload_bytes?: string;
  template: TemplateBody;
  topic: string;
}

/** A type with its version. */
export interface Type {
  /** The commands that can be sent to it. */
  commands?: Record<string, CommandDeclaration>;
  /** Types whose members this one has under a name: the property p of the component c is the attribute /c/p, and its telemetry t the key "c.t". */
  components?: Record<string, string>;
  description?: string;
  /** The version, for If-Match. */
  etag: string;
  /** The types whose members this one has as well. If two of them declare the same name, they must declare it alike. */
  extends?: string[];
  id: string;
  name?: string;
  /** Presence says when its device counts as offline. Without it, the types that this one extends decide, and then the server. */
  presence?: PresenceType2;
  /** The attributes of an entity, by the first name of their path. */
  properties?: Record<string, Property>;
  /** The types of the edges that begin at an entity. */
  relations?: Record<string, RelationDeclaration>;
  /** Strict refuses readings, attributes, relations and commands that are not declared. A type is also strict if one that it extends is. */
  strict?: boolean;
  /** The keys of its readings. */
  telemetry?: Record<string, Schema>;
}

/** A type, resolved or not. */
export type TypeAnswer = Type | ResolvedType;

/** A type as it is written; a response can be sent back unchanged. */
export interface TypeBody {
  /** The commands that can be sent to it. */
  commands?: Record<string, CommandDeclaration>;
  /** Types whose members this one has under a name: the property p of the component c is the attribute /c/p, and its telemetry t the key "c.t". */
  components?: Record<string, string>;
  description?: string;
  /** Ignored: the version goes into If-Match. */
  etag?: string;
  /** The types whose members this one has as well. If two of them declare the same name, they must declare it alike. */
  extends?: string[];
  id: string;
  name?: string;
  /** Presence says when its device counts as offline. Without it, the types that this one extends decide, and then the server. */
  presence?: PresenceType2;
  /** The attributes of an entity, by the first name of their path. */
  properties?: Record<string, Property>;
  /** The types of the edges that begin at an entity. */
  relations?: Record<string, RelationDeclaration>;
  /** Strict refuses readings, attributes, relations and commands that are not declared. A type is also strict if one that it extends is. */
  strict?: boolean;
  /** The keys of its readings. */
  telemetry?: Record<string, Schema>;
}

/** All types. */
export interface TypeList {
  types: Type[];
}

export type TypeRef = string | null;

/** One or several types, in DTDL or in Greenroom's own format. */
export type TypesBody = TypeBody[] | JsonObject | JsonObject[];

/** A number, a bool, a string, or a JSON object or array. */
export type Value = Json;

/** Values by key, measured now. */
export type ValuesBody = Record<string, Value>;

/** Says how people can log in, besides with a token, or with a name and a password. */
export interface Ways {
  /** Where the login with OpenID Connect begins; absent if there is none. */
  oidc?: string;
  /** The host of its provider. */
  provider?: string;
}

/** A webhook. */
export interface Webhook {
  dead: number;
  /** The version, for If-Match. */
  etag: string;
  name: string;
  /** Waiting deliveries, and those that were given up. */
  queued: number;
  /** Only in the response to the request that made it: it cannot be read again. */
  secret?: string;
  /** Milliseconds since the epoch. */
  updated_ms: number;
  url: string;
}

/** A webhook as it is written. */
export interface WebhookBody {
  /** Make a new secret; the previous one is no longer used. */
  rotate?: boolean;
  url: string;
}

/** All webhooks, by name. */
export interface WebhookList {
  webhooks: Webhook[];
}
