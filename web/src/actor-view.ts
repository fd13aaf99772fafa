import { batch, signal } from "@preact/signals";
import { ApiError, api, describe, isAbort } from "./api";
import { rateChartSeconds } from "./rate-chart";
import { type Observation, observe, perSecond } from "./rate";
import type { ActorDetail, Actor } from "./types";

/** A snapshot of an actor. */
export interface ActorLook {
  at: number;
  messages: number;
}

/** The period of a rate in milliseconds, as in the tree. */
const rateWindow = 5_000;

/** One actor and its first children, refreshed every second. */
export class ActorView {
  readonly detail = signal<ActorDetail | null>(null);
  readonly children = signal<readonly Actor[]>([]);
  readonly more = signal(false);
  readonly problem = signal<{ text: string; gone: boolean } | null>(null);
  readonly rates = signal<readonly ActorLook[]>([]);

  #seen: readonly Observation[] = [];

  constructor(
    private readonly path: string,
    private readonly pid: string,
  ) {}

  async refresh(abort: AbortSignal): Promise<void> {
    try {
      const detail = await api.actor(this.path, this.pid, abort);
      // Children are requested by path, which an actor without a name does not have.
      const page = detail.actor.children > 0 && this.pid === "" ? await api.actors(this.path, abort) : undefined;
      batch(() => {
        this.#take(detail);
        this.children.value = page?.children ?? [];
        this.more.value = page?.more ?? detail.actor.children > 0;
        this.problem.value = null;
      });
    } catch (error) {
      if (isAbort(error)) return;
      this.problem.value = { text: describe(error), gone: error instanceof ApiError && error.status === 404 };
    }
  }

  /** A new actor at the same path counts from zero, so its rates start again. */
  #take(detail: ActorDetail): void {
    if (this.detail.value?.actor.pid !== detail.actor.pid) {
      this.#seen = [];
      this.rates.value = [];
    }
    this.detail.value = detail;
    this.#seen = observe(this.#seen, { at: detail.now_ms, count: detail.actor.handled }, rateWindow);
    const messages = perSecond(this.#seen[0], this.#seen[this.#seen.length - 1] as Observation);
    if (messages !== undefined) this.rates.value = [...this.rates.value.slice(1 - rateChartSeconds), { at: detail.now_ms, messages }];
  }
}
