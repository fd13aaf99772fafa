import type { Bucket, Entity } from "./types";

/** An entity as requested by the lists and by the page of an entity. */
export type LiveEntity = Pick<Entity, "id" | "type" | "created_ms" | "updated_ms" | "actor" | "presence"> & Required<Pick<Entity, "latest">>;

/** An entity as requested for its attributes and its desired state. */
export type EntityState = Entity & Required<Pick<Entity, "attributes" | "desired" | "reported" | "delta" | "metadata" | "relations">>;

/** One step of a chart, with its aggregates. */
export type ChartBucket = Bucket & { avg: number; min: number; max: number; count: number };
