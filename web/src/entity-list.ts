import type { LiveEntity } from "./answers";
import { batch, type Signal, signal } from "@preact/signals";
import { api, describe, isAbort } from "./api";
import { applyChange, newEntity } from "./entity";
import { fromPoints, add } from "./series";
import { numeric } from "./format";
import { chartableKeys } from "./entity";
import { applyPresence } from "./presence";
import type { Change, PresenceEvent } from "./types";

export interface Row {
  entity: Signal<LiveEntity>;
  /** The last values of the first key of the row that can be drawn, for the sparkline. */
  spark: Signal<readonly number[]>;
  sparkKey: string;
}

const pageSize = 50;
const sparkLength = 40;
const sparkRequests = 3;

/**
 * The entities that the table shows: pages of the server's list, kept live by the stream. Each row is
 * a signal of its own, so that a reading renders one row. Changes are collected and applied once a
 * frame, however many arrive.
 */
export class EntityList {
  readonly ids = signal<readonly string[]>([]);
  readonly next = signal<string | undefined>(undefined);
  readonly loading = signal(true);
  readonly error = signal("");
  readonly search = signal("");
  /** The filter of the list. Only the server decides which entities match it. */
  readonly filter = signal("");

  #rows = new Map<string, Row>();
  #pages = 1;
  #abort: AbortController | null = null;
  #pending: Change[] = [];
  #frame = 0;
  #sparks: string[] = [];
  #sparksRunning = 0;
  #closed = false;

  row(id: string): Row | undefined {
    return this.#rows.get(id);
  }

  /** Fetches the shown pages again; a different search starts at the first page. */
  async load(search = this.search.value, filter = this.filter.value): Promise<void> {
    if (search !== this.search.value || filter !== this.filter.value) this.#pages = 1;
    this.search.value = search;
    this.filter.value = filter;
    await this.#fetch(async (abort) => {
      const entities: LiveEntity[] = [];
      let cursor: string | undefined;
      for (let page = 0; page < this.#pages; page++) {
        const answer = await api.entities({ search, q: filter, limit: pageSize, ...(cursor ? { cursor } : {}) }, abort);
        entities.push(...answer.entities);
        cursor = answer.next;
        if (!cursor) break;
      }
      this.#show(entities, cursor);
    });
  }

  async loadMore(): Promise<void> {
    const cursor = this.next.value;
    if (!cursor || this.loading.value) return;
    await this.#fetch(async (abort) => {
      const answer = await api.entities({ search: this.search.value, q: this.filter.value, limit: pageSize, cursor }, abort);
      this.#pages++;
      const known = this.ids.value.flatMap((id) => this.#rows.get(id)?.entity.value ?? []);
      this.#show([...known, ...answer.entities], answer.next);
    });
  }

  /** Applies a change of the stream; the screen follows at the next frame. */
  apply(change: Change): void {
    this.#pending.push(change);
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      const changes = this.#pending;
      this.#pending = [];
      batch(() => {
        for (const item of changes) this.#applyNow(item);
      });
    });
  }

  /** Applies that a device went online or offline. */
  applyPresence(event: PresenceEvent): void {
    const row = this.#rows.get(event.entity);
    if (row) row.entity.value = applyPresence(row.entity.value, event);
  }

  close(): void {
    this.#closed = true;
    this.#abort?.abort();
    cancelAnimationFrame(this.#frame);
  }

  async #fetch(run: (abort: AbortSignal) => Promise<void>): Promise<void> {
    this.#abort?.abort();
    const abort = new AbortController();
    this.#abort = abort;
    this.loading.value = true;
    try {
      await run(abort.signal);
      this.error.value = "";
    } catch (error) {
      if (!isAbort(error)) this.error.value = describe(error);
    } finally {
      if (this.#abort === abort) this.loading.value = false;
    }
  }

  #show(entities: readonly LiveEntity[], next: string | undefined): void {
    batch(() => {
      const shown = new Map<string, Row>();
      for (const entity of entities) {
        const row = this.#rows.get(entity.id) ?? this.#newRow(entity);
        row.entity.value = entity;
        shown.set(entity.id, row);
      }
      this.#rows = shown;
      this.ids.value = [...shown.keys()];
      this.next.value = next;
    });
  }

  #newRow(entity: LiveEntity): Row {
    const key = chartableKeys(entity)[0] ?? "";
    if (key !== "") {
      this.#sparks.push(entity.id);
      queueMicrotask(() => this.#fillSparks());
    }
    return { entity: signal(entity), spark: signal([]), sparkKey: key };
  }

  #applyNow(change: Change): void {
    const row = this.#rows.get(change.entity);
    if (!row) {
      this.#insert(change);
      return;
    }
    row.entity.value = applyChange(row.entity.value, change);
    const value = numeric(change.values[row.sparkKey] ?? null);
    if (value !== undefined) row.spark.value = [...row.spark.value.slice(1 - sparkLength), value];
  }

  /** A first reading: inserts the new entity if its position is on the pages shown. */
  #insert(change: Change): void {
    const ids = this.ids.value;
    if (this.filter.value !== "") return;
    if (!change.entity.toLowerCase().includes(this.search.value.toLowerCase())) return;
    const last = ids[ids.length - 1];
    if (this.next.value && last !== undefined && change.entity > last) return;
    this.#rows.set(change.entity, this.#newRow(newEntity(change)));
    const after = ids.findIndex((id) => id > change.entity);
    this.ids.value = after < 0 ? [...ids, change.entity] : [...ids.slice(0, after), change.entity, ...ids.slice(after)];
  }

  /** Fetches the start of sparklines, a few at a time: they are decoration and must not delay other requests. */
  #fillSparks(): void {
    while (this.#sparksRunning < sparkRequests && this.#sparks.length > 0 && !this.#closed) {
      const row = this.#rows.get(this.#sparks.shift() as string);
      if (!row) continue;
      this.#sparksRunning++;
      void this.#fillSpark(row).finally(() => {
        this.#sparksRunning--;
        this.#fillSparks();
      });
    }
  }

  async #fillSpark(row: Row): Promise<void> {
    try {
      const page = await api.points(row.entity.value.id, row.sparkKey, { limit: sparkLength, order: "desc" });
      const series = fromPoints(page.points.reverse());
      const latest = row.entity.value.latest[row.sparkKey];
      const value = latest && numeric(latest.value);
      if (latest && value !== undefined) add(series, latest.ts, value);
      row.spark.value = series.values.slice(-sparkLength);
    } catch {
      // The line then starts with the next reading.
    }
  }
}
