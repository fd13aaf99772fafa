import type { Bucket, Entity } from "./types";

/** An entity as the lists and the page of an entity ask for it. */
export type LiveEntity = Pick<Entity, "id" | "type" | "created_ms" | "updated_ms" | "actor" | "presence"> & Required<Pick<Entity, "latest">>;

/** An entity as the page asks for what is declared and wanted of it. */
export type EntityState = Entity & Required<Pick<Entity, "attributes" | "desired" | "reported" | "delta" | "metadata" | "relations">>;

/** A step with the aggregates of a chart. */
export type ChartBucket = Bucket & { avg: number; min: number; max: number; count: number };
