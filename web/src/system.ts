import { batch, signal } from "@preact/signals";
import { ApiError, api, isAbort } from "./api";
import { setServerTime } from "./clock";
import { poll } from "./poll";
import { perSecond } from "./rate";
import type { System } from "./types";

/** Rates per second at one time. */
export interface SystemRate {
  at: number;
  messages: number;
  readings: number;
}

/** How many samples are kept: five minutes, one per second. */
const remembered = 300;

/** /v1/system, polled every second by every page: numbers, rates and whether the server responds. */
export const system = {
  info: signal<System | null>(null),
  rates: signal<readonly SystemRate[]>([]),
  failing: signal(false),
  /** Whether the server denies access to it. */
  forbidden: signal(false),
  /** When the last response arrived, by the local clock; 0 before the first. */
  answeredAt: signal(0),
};

function take(info: System): void {
  const before = system.info.value;
  setServerTime(info.now_ms);
  const restarted = before !== null && before.started_ms !== info.started_ms;
  const messages = before && perSecond({ at: before.now_ms, count: before.handled }, { at: info.now_ms, count: info.handled });
  const readings =
    before && perSecond({ at: before.now_ms, count: before.ingest.readings }, { at: info.now_ms, count: info.ingest.readings });
  batch(() => {
    system.info.value = info;
    system.failing.value = false;
    system.answeredAt.value = Date.now();
    if (restarted || typeof messages !== "number" || typeof readings !== "number") return;
    system.rates.value = [...system.rates.value.slice(1 - remembered), { at: info.now_ms, messages, readings }];
  });
}

let misses = 0;

/** Polls once. Two consecutive failures count as lost; a single one may be a restart. */
async function look(signal: AbortSignal): Promise<void> {
  try {
    take(await api.system(signal));
    misses = 0;
  } catch (error) {
    if (isAbort(error)) return;
    if (error instanceof ApiError && error.status === 403) {
      misses = 0;
      batch(() => {
        system.forbidden.value = true;
        system.failing.value = false;
        system.answeredAt.value = Date.now();
      });
      return;
    }
    misses++;
    if (misses >= 2) system.failing.value = true;
  }
}

let stop: (() => void) | undefined;

/** Starts polling, and returns what ends it. Called again, when the user asks to retry, it starts over at once. */
export function watchSystem(): () => void {
  stop?.();
  stop = poll(look, 1000);
  return () => stop?.();
}
