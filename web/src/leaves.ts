import type { Json } from "./json";
import type { JsonObject } from "./types";

/** A value in a document and its path. */
export interface Leaf {
  path: string;
  value: Json;
}

function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The leaves of a document, by path: members of objects are joined by dots, arrays and empty objects are leaves. */
export function leaves(document: JsonObject, before = ""): Leaf[] {
  return Object.keys(document)
    .sort()
    .flatMap((name) => {
      const value = document[name] as Json;
      const path = before === "" ? name : `${before}.${name}`;
      return isObject(value) && Object.keys(value).length > 0 ? leaves(value, path) : [{ path, value }];
    });
}

/** When the leaves were set, in milliseconds by path. The metadata is a document of the same form. */
export function times(metadata: JsonObject, before = ""): Map<string, number> {
  const all = new Map<string, number>();
  for (const [name, value] of Object.entries(metadata)) {
    const path = before === "" ? name : `${before}.${name}`;
    if (!isObject(value)) continue;
    if (typeof value["timestamp"] === "number") all.set(path, value["timestamp"] * 1000);
    else for (const [below, time] of times(value, path)) all.set(below, time);
  }
  return all;
}

/** One row that compares desired with reported. */
export interface Twin {
  path: string;
  desired?: Json;
  reported?: Json;
  /** Desired differs from reported. */
  differs: boolean;
}

/** Desired and reported side by side. The server says what differs. */
export function twins(desired: JsonObject, reported: JsonObject, delta: JsonObject): Twin[] {
  const rows = new Map<string, Twin>();
  const row = (path: string): Twin => {
    const known = rows.get(path) ?? { path, differs: false };
    rows.set(path, known);
    return known;
  };
  for (const { path, value } of leaves(desired)) row(path).desired = value;
  for (const { path, value } of leaves(reported)) row(path).reported = value;
  for (const { path } of leaves(delta)) row(path).differs = true;
  return [...rows.values()].sort((a, b) => (a.path < b.path ? -1 : 1));
}
