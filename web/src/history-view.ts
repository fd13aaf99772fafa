import { batch, type Signal, signal } from "@preact/signals";
import { describe, isAbort } from "./api";
import { serverNow } from "./clock";
import { numeric } from "./format";
import { loadSeries, oldest, outgrown } from "./history";
import { type Range, resolveRange, type TimeWindow } from "./range";
import { add, type Column, columns, grows, type Series, trim } from "./series";
import type { Change } from "./types";

/** One chart of the view. */
export interface Lane {
  key: string;
  /** A boolean: drawn in steps, never averaged. */
  isSwitch: boolean;
  drawn: Signal<Drawn | null>;
}

export interface Drawn {
  series: Series;
  columns: Column[];
}

/** What to show. */
export interface ViewRequest {
  id: string;
  keys: readonly { key: string; isSwitch: boolean }[];
  range: Range;
  /** The chosen aggregate, empty for the most detailed view. */
  agg: string;
  /** A live range without readings follows the newest reading instead of the clock. */
  follow: boolean;
  /** Event time of the newest known reading, in milliseconds. */
  newest: number;
}

/** How often aggregates that the stream extends are fetched again, to include corrections and late readings. */
const refreshEvery = 60_000;

/** How often those that it cannot extend are fetched again. */
const aggregateEvery = 5_000;

/** The histories of some keys of one entity in one window of time, live while the window is. */
export class HistoryView {
  readonly window = signal<TimeWindow>({ from: Date.now() - 900_000, to: Date.now(), live: true });
  readonly lanes = signal<readonly Lane[]>([]);
  readonly loading = signal(true);
  /** The drawing is not up to date with the request. */
  readonly changing = signal(true);
  readonly error = signal("");

  #request: ViewRequest | null = null;
  #newest = 0;
  #oldest: number | undefined;
  #abort: AbortController | null = null;
  #loadedAt = 0;
  #pending: Change[] = [];
  #during: Change[] = [];
  #frame = 0;

  /** Shows something else. Lanes that remain keep their drawing until the new one is ready. */
  show(request: ViewRequest): void {
    const same = this.#request?.id === request.id;
    const known = new Map(same ? this.lanes.value.map((lane) => [lane.key, lane]) : []);
    this.#request = request;
    this.#newest = Math.max(same ? this.#newest : 0, request.newest);
    this.#oldest = undefined;
    batch(() => {
      this.changing.value = true;
      this.lanes.value = request.keys.map(({ key, isSwitch }) => known.get(key) ?? { key, isSwitch, drawn: signal(null) });
      this.#move(serverNow());
    });
    void this.reload();
  }

  async reload(): Promise<void> {
    const request = this.#request;
    if (!request) return;
    this.#abort?.abort();
    const abort = new AbortController();
    this.#abort = abort;
    this.#loadedAt = Date.now();
    this.#during = [];
    this.loading.value = true;
    try {
      await this.#load(request, abort.signal);
      this.error.value = "";
    } catch (error) {
      if (!isAbort(error)) this.error.value = describe(error);
    } finally {
      if (this.#abort === abort) {
        this.loading.value = false;
        this.changing.value = false;
      }
    }
  }

  async #load(request: ViewRequest, abort: AbortSignal): Promise<void> {
    const keys = request.keys.map(({ key }) => key);
    if (request.range.kind === "all") this.#oldest = await oldest(request.id, keys, abort);
    this.#move(serverNow());
    const window = this.window.value;
    const lanes = this.lanes.value;
    const loaded = await Promise.all(lanes.map((lane) => loadSeries(request.id, lane.key, window, lane.isSwitch, request.agg, abort)));
    batch(() => {
      lanes.forEach((lane, i) => {
        const series = loaded[i] as Series;
        // Readings committed while the response was on its way. It may contain them: adding a reading
        // twice does not change a raw series, but it would count twice in an aggregate.
        if (series.mode === "raw") for (const change of this.#during) this.#add(lane, series, change);
        lane.drawn.value = { series, columns: columns(series) };
      });
      this.#move(serverNow());
    });
  }

  /** Applies a change of the stream; the screen follows at the next frame. */
  apply(change: Change): void {
    if (change.entity !== this.#request?.id || !this.window.value.live) return;
    this.#pending.push(change);
    if (this.loading.value) this.#during.push(change);
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      this.#flush();
    });
  }

  #flush(): void {
    const changes = this.#pending;
    this.#pending = [];
    batch(() => {
      for (const lane of this.lanes.value) {
        const drawn = lane.drawn.value;
        if (!drawn) continue;
        const grown = changes.filter((change) => this.#add(lane, drawn.series, change)).length > 0;
        if (grown) lane.drawn.value = { series: drawn.series, columns: columns(drawn.series) };
      }
      for (const change of changes) this.#newest = Math.max(this.#newest, change.ts);
      this.#move(serverNow());
    });
  }

  #add(lane: Lane, series: Series, change: Change): boolean {
    const value = numeric(change.values[lane.key] ?? null);
    if (value === undefined || change.ts < this.window.value.from || !grows(series)) return false;
    add(series, change.ts, value);
    return true;
  }

  /** Moves the window with the clock; called once a second. */
  tick(now: number): void {
    if (!this.#request || !this.window.value.live) return;
    batch(() => this.#move(now));
    let reload = false;
    for (const lane of this.lanes.value) {
      const series = lane.drawn.value?.series;
      if (!series) continue;
      trim(series, this.window.value.from);
      if (outgrown(series)) reload = true;
      const every = grows(series) ? refreshEvery : aggregateEvery;
      if (series.mode === "aggregate" && Date.now() - this.#loadedAt > every) reload = true;
    }
    if (reload && !this.loading.value) void this.reload();
  }

  #move(now: number): void {
    const request = this.#request;
    if (!request) return;
    const oldest = request.range.kind === "all" ? this.#oldest : this.#firstDrawn();
    const extent = { now, newest: this.#newest, ...(oldest === undefined ? {} : { oldest }) };
    const { from, to, live } = resolveRange(request.range, extent, request.follow);
    const before = this.window.value;
    if (before.from !== from || before.to !== to || before.live !== live) this.window.value = { from, to, live };
  }

  #firstDrawn(): number | undefined {
    const firsts = this.lanes.value.flatMap((lane) => lane.drawn.peek()?.series.ts[0] ?? []);
    return firsts.length > 0 ? Math.min(...firsts) : undefined;
  }

  close(): void {
    this.#abort?.abort();
    cancelAnimationFrame(this.#frame);
    this.#request = null;
  }
}

