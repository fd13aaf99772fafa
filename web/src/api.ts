import { parseJSON } from "./json";
import type { ActorPage, BucketPage, Entity, EntityPage, PointPage, SystemInfo } from "./types";

export type Query = Record<string, string | number | readonly string[] | undefined>;

/**
 * A path of the API, relative to the page, so that the dashboard also works under a prefix.
 * Segments are escaped one by one; undefined and empty parameters are left out.
 */
export function apiPath(segments: readonly string[], query: Query = {}): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (Array.isArray(value)) for (const item of value) parameters.append(name, item);
    else if (value !== undefined && value !== "") parameters.set(name, String(value));
  }
  const text = parameters.toString();
  return `v1/${segments.map(encodeURIComponent).join("/")}${text === "" ? "" : `?${text}`}`;
}

/** An answer that was not 2xx, with the words of its problem document. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
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
    // Not a problem document: a proxy on the way answered.
  }
  return `The server answered ${status}.`;
}

async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  const response = await fetch(path, { headers: { accept: "application/json" }, ...(signal ? { signal } : {}) });
  const body = await response.text();
  if (!response.ok) throw new ApiError(response.status, problemMessage(response.status, body));
  return parseJSON(body) as T;
}

export const api = {
  entities: (query: { search?: string; cursor?: string; limit?: number }, signal?: AbortSignal) =>
    get<EntityPage>(apiPath(["entities"], query), signal),

  entity: (id: string, signal?: AbortSignal) => get<Entity>(apiPath(["entities", id]), signal),

  points: (id: string, key: string, query: { from?: number; to?: number; limit?: number; order?: "asc" | "desc" }, signal?: AbortSignal) =>
    get<PointPage>(apiPath(["entities", id, "telemetry", key], query), signal),

  buckets: (id: string, key: string, query: { from: number; to: number; step: string }, signal?: AbortSignal) =>
    get<BucketPage>(apiPath(["entities", id, "telemetry", key], { ...query, agg: "avg,min,max,count" }), signal),

  system: (signal?: AbortSignal) => get<SystemInfo>(apiPath(["system"]), signal),

  actors: (path: string, signal?: AbortSignal) => get<ActorPage>(apiPath(["actors"], { path, limit: 200 }), signal),
};

/** Whether an error is only the echo of our own abort. */
export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}

/** A sentence for a person, whatever was thrown. */
export function describe(error: unknown): string {
  if (error instanceof ApiError) return error.message;
  return "The server cannot be reached.";
}
