import type { ChartBucket, EntityState, LiveEntity } from "./answers";
import { parseJSON } from "./json";
import { loggedOut } from "./session";
import type {
  ActorDetail,
  ActorTree,
  Alarm,
  AlarmList,
  AlarmRule,
  AlarmRuleList,
  Audit,
  Bucket,
  Caller,
  Cluster,
  Command,
  CommandPage,
  Completion,
  Entity,
  Mapping,
  MappingList,
  Offers,
  PointPage,
  Principal,
  PrincipalPage,
  ProvisionKey,
  ProvisionKeyBody,
  ProvisionKeyList,
  Query,
  QueryList,
  Refusals,
  RelationPage,
  ResolvedType,
  Script,
  ScriptBody,
  ScriptList,
  ScriptTrial,
  ScriptVersions,
  System,
  Template,
  TemplateBody,
  TemplateList,
  TriedTemplate,
  TypeList,
  Ways,
} from "./types";

export type Params = Record<string, string | number | readonly string[] | undefined>;

/**
 * A path of the API, relative to the page, so that the dashboard also works under a prefix.
 * Segments are escaped one by one; undefined and empty parameters are omitted.
 */
export function apiPath(segments: readonly string[], query: Params = {}): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (Array.isArray(value)) for (const item of value) parameters.append(name, item);
    else if (value !== undefined && value !== "") parameters.set(name, String(value));
  }
  const text = parameters.toString();
  return `v1/${segments.map(encodeURIComponent).join("/")}${text === "" ? "" : `?${text}`}`;
}

/** A response that was not 2xx, with the text of its problem document. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
    /** The line that the error is about, 0 for none. */
    readonly line = 0,
  ) {
    super(message);
    this.name = "ApiError";
  }
}

/** The message for a refused request: the problem document's detail, its title, or the bare status. */
export function problemMessage(status: number, body: string): string {
  try {
    const problem = JSON.parse(body) as { title?: unknown; detail?: unknown };
    if (typeof problem.detail === "string" && problem.detail !== "") return problem.detail;
    if (typeof problem.title === "string" && problem.title !== "") return problem.title;
  } catch {
    // Not a problem document: the response is from a proxy.
  }
  return `The server answered ${status}.`;
}

/** The line that a problem document is about, 0 for none. */
export function problemLine(body: string): number {
  try {
    const { line } = JSON.parse(body) as { line?: unknown };
    return typeof line === "number" ? line : 0;
  } catch {
    return 0; // not a problem document
  }
}

function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return send<T>(path, { headers: { accept: "application/json" }, ...(signal ? { signal } : {}) });
}

async function send<T>(path: string, init: RequestInit): Promise<T> {
  const response = await fetch(path, init);
  const body = await response.text();
  if (response.status === 401) loggedOut.value = true;
  if (!response.ok) throw new ApiError(response.status, problemMessage(response.status, body), problemLine(body));
  return (body === "" ? undefined : parseJSON(body)) as T;
}

const stateFields = "attributes,desired,reported,delta,metadata,relations";

export const api = {
  entities: (query: { search?: string; q?: string; cursor?: string; limit?: number }, signal?: AbortSignal) =>
    get<{ entities: LiveEntity[]; next?: string }>(apiPath(["entities"], query), signal),

  entity: (id: string, signal?: AbortSignal) => get<LiveEntity>(apiPath(["entities", id]), signal),

  /** Returns an entity, null if there is none. Unlike a plain read, this logs no error in the browser. */
  entityIfAny: async (id: string, signal?: AbortSignal) => {
    const page = await get<{ entities: (LiveEntity & Required<Pick<Entity, "reported" | "metadata">>)[] }>(
      apiPath(["entities"], { q: `id = ${JSON.stringify(id)}`, fields: "latest,reported,metadata" }),
      signal,
    );
    return page.entities[0] ?? null;
  },

  state: (id: string, signal?: AbortSignal) => get<EntityState>(apiPath(["entities", id], { fields: stateFields }), signal),

  relations: (id: string, direction: "in" | "out", limit: number, signal?: AbortSignal) =>
    get<RelationPage>(apiPath(["entities", id, "relations"], { direction, limit }), signal),

  types: (signal?: AbortSignal) => get<TypeList>(apiPath(["types"]), signal),

  type: (id: string, signal?: AbortSignal) => get<ResolvedType>(apiPath(["types", id], { resolved: "true" }), signal),

  mappings: (signal?: AbortSignal) => get<MappingList>(apiPath(["mappings"]), signal),

  mapping: (name: string, signal?: AbortSignal) => get<Mapping>(apiPath(["mappings", name]), signal),

  scripts: (signal?: AbortSignal) => get<ScriptList>(apiPath(["scripts"]), signal),

  script: (name: string, signal?: AbortSignal) => get<Script>(apiPath(["scripts", name]), signal),

  /** Rejects with the error in a script. */
  checkScript: (name: string, body: ScriptBody, signal: AbortSignal) =>
    send<void>(`${apiPath(["scripts", name])}?check`, { method: "PUT", headers: { "content-type": "application/json" }, body: JSON.stringify(body), signal }),

  /** Replaces a version of a script, or creates the script if no version is given. */
  putScript: (name: string, body: ScriptBody, etag: string) =>
    send<Script>(apiPath(["scripts", name]), {
      method: "PUT",
      headers: { "content-type": "application/json", ...(etag === "" ? { "if-none-match": "*" } : { "if-match": `"${etag}"` }) },
      body: JSON.stringify(body),
    }),

  deleteScript: (script: Script) => send<void>(apiPath(["scripts", script.name]), { method: "DELETE", headers: { "if-match": `"${script.etag}"` } }),

  scriptVersions: (name: string, signal?: AbortSignal) => get<ScriptVersions>(apiPath(["scripts", name, "versions"]), signal),

  rollBackScript: (name: string, version: number) =>
    send<Script>(apiPath(["scripts", name, "rollback"]), { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ version }) }),

  switchScript: (name: string, on: boolean) =>
    send<Script>(apiPath(["scripts", name, "switch"]), { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ on }) }),

  tryScript: (name: string, body: { script: ScriptBody; entity: string; last: number }) =>
    send<ScriptTrial>(apiPath(["scripts", name, "try"]), { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) }),

  templates: (signal?: AbortSignal) => get<TemplateList>(apiPath(["templates"]), signal),

  /** Replaces a version of a template, or creates the template if no version is given. */
  putTemplate: (name: string, body: TemplateBody, etag: string) =>
    send<Template>(apiPath(["templates", name]), {
      method: "PUT",
      headers: { "content-type": "application/json", ...(etag === "" ? { "if-none-match": "*" } : { "if-match": `"${etag}"` }) },
      body: JSON.stringify(body),
    }),

  deleteTemplate: (template: Template) =>
    send<void>(apiPath(["templates", template.name]), { method: "DELETE", headers: { "if-match": `"${template.etag}"` } }),

  tryTemplate: (tried: { name: string; template: TemplateBody; topic: string; payload: string; bytes: string }, signal: AbortSignal) =>
    send<TriedTemplate>(apiPath(["templates", "try"]), {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({
        name: tried.name,
        template: tried.template,
        topic: tried.topic,
        payload: tried.payload,
        ...(tried.bytes === "" ? {} : { payload_bytes: tried.bytes }),
      }),
      signal,
    }),

  complete: (q: string, offset: number, signal?: AbortSignal) => get<Completion>(apiPath(["query", "complete"], { q, offset }), signal),

  queries: (signal?: AbortSignal) => get<QueryList>(apiPath(["queries"]), signal),

  /** Saves a query under an unused id. */
  saveQuery: (id: string, title: string, filter: string) =>
    send<Query>(apiPath(["queries", id]), {
      method: "PUT",
      headers: { "content-type": "application/json", "if-none-match": "*" },
      body: JSON.stringify({ title, filter }),
    }),

  deleteQuery: (query: Query) =>
    send<void>(apiPath(["queries", query.id]), { method: "DELETE", headers: { "if-match": `"${query.etag}"` } }),

  points: (id: string, key: string, query: { from?: number; to?: number; limit?: number; order?: "asc" | "desc" }, signal?: AbortSignal) =>
    get<PointPage>(apiPath(["entities", id, "telemetry", key], query), signal),

  buckets: (id: string, key: string, query: { from: number; to: number; step: string }, signal?: AbortSignal) =>
    get<{ step_ms: number; buckets: ChartBucket[] }>(apiPath(["entities", id, "telemetry", key], { ...query, agg: "avg,min,max,count" }), signal),

  aggregate: (id: string, key: string, agg: string, query: { from: number; to: number; step: string }, signal?: AbortSignal) =>
    get<{ step_ms: number; buckets: Bucket[] }>(apiPath(["entities", id, "telemetry", key], { ...query, agg }), signal),

  system: (signal?: AbortSignal) => get<System>(apiPath(["system"]), signal),

  cluster: (signal?: AbortSignal) => get<Cluster>(apiPath(["cluster"]), signal),

  refusals: (signal?: AbortSignal) => get<Refusals>(apiPath(["refusals"]), signal),

  session: (signal?: AbortSignal) => get<Caller>(apiPath(["session"]), signal),

  login: (credentials: { token: string } | { name: string; password: string }) =>
    send<Caller>(apiPath(["session"]), { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(credentials) }),

  ways: () => get<Ways>(apiPath(["session", "ways"])),
  logout: () => send<void>(apiPath(["session"]), { method: "DELETE" }),

  principals: (signal?: AbortSignal) => get<PrincipalPage>(apiPath(["principals"], { limit: 1000 }), signal),

  principal: (name: string, signal?: AbortSignal) => get<Principal>(apiPath(["principals", name]), signal),

  createPrincipal: (name: string, role: string, filter: string, rate = 0) =>
    send<Principal>(apiPath(["principals"]), {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ name, grants: [{ role, ...(filter === "" ? {} : { filter }) }], ...(rate === 0 ? {} : { rate_kib: rate }) }),
    }),

  /** The principals that somebody has created, or that were provisioned with a key. */
  principalsBy: (by: string, signal?: AbortSignal) => get<PrincipalPage>(apiPath(["principals"], { by, limit: 1000 }), signal),

  provisionKeys: (signal?: AbortSignal) => get<ProvisionKeyList>(apiPath(["provisioning"]), signal),

  createProvisionKey: (body: ProvisionKeyBody) =>
    send<ProvisionKey>(apiPath(["provisioning"]), { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) }),

  deleteProvisionKey: (name: string) => send<void>(apiPath(["provisioning", name]), { method: "DELETE" }),

  offers: (signal?: AbortSignal) => get<Offers>(apiPath(["claims"], { limit: 1000 }), signal),

  claimed: (signal?: AbortSignal) =>
    get<{ entities: Entity[]; next?: string }>(apiPath(["entities"], { q: "exists attributes.claimedBy", fields: "attributes", limit: 200 }), signal),

  claim: (id: string, secret: string) =>
    send<void>(apiPath(["entities", id, "claim"]), { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ secret }) }),

  revoke: (name: string) => send<void>(apiPath(["principals", name]), { method: "DELETE" }),

  audit: (signal?: AbortSignal) => get<Audit>(apiPath(["audit"], { limit: 50 }), signal),

  commands: (id: string, limit: number, signal?: AbortSignal) => get<CommandPage>(apiPath(["entities", id, "commands"], { limit }), signal),

  /** Sends a command; request is its JSON as typed. */
  alarms: (query: { state?: string; severity?: string; entity?: string; acknowledged?: string; shelved?: string; cursor?: string; limit?: number }, signal?: AbortSignal) =>
    get<AlarmList>(apiPath(["alarms"], query), signal),

  acknowledgeAlarm: (id: string) => act(id, "acknowledge", {}),

  shelveAlarm: (id: string, time: string) => act(id, "shelve", { for: time }),

  unshelveAlarm: (id: string) => act(id, "unshelve", {}),

  clearAlarm: (id: string) => act(id, "clear", {}),

  alarmRules: (signal?: AbortSignal) => get<AlarmRuleList>(apiPath(["alarm-rules"]), signal),

  /** Replaces the rule that was read, or creates one under an unused name. */
  putAlarmRule: (name: string, rule: object, before: AlarmRule | null) =>
    send<AlarmRule>(apiPath(["alarm-rules", name]), {
      method: "PUT",
      headers: { "content-type": "application/json", ...(before ? { "if-match": `"${before.etag}"` } : { "if-none-match": "*" }) },
      body: JSON.stringify(rule),
    }),

  deleteAlarmRule: (rule: AlarmRule) => send<void>(apiPath(["alarm-rules", rule.name]), { method: "DELETE", headers: { "if-match": `"${rule.etag}"` } }),

  sendCommand: (id: string, name: string, request: string) =>
    send<Command>(apiPath(["entities", id, "commands"]), {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: `{"name":${JSON.stringify(name)}${request.trim() === "" ? "" : `,"request":${request}`}}`,
    }),

  cancelCommand: (id: string, command: string) => send<Command>(apiPath(["entities", id, "commands", command]), { method: "DELETE" }),

  actors: (path: string, signal?: AbortSignal) => get<ActorTree>(apiPath(["actors"], { path, limit: 200 }), signal),

  actor: (path: string, pid: string, signal?: AbortSignal) =>
    get<ActorDetail>(apiPath(["actor"], pid !== "" ? { pid } : { path }), signal),
};

/** Performs an action on an alarm. */
function act(id: string, what: string, body: object): Promise<Alarm> {
  return send<Alarm>(apiPath(["alarms", id, what]), { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
}

/** Reports whether an error is the result of our own abort. */
export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}

/** Describes whatever was thrown in a sentence. */
export function describe(error: unknown): string {
  if (error instanceof ApiError) return error.message;
  return "The server cannot be reached.";
}
