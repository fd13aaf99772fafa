import { batch, signal } from "@preact/signals";
import { ApiError, api, isAbort } from "./api";
import { setServerTime } from "./clock";
import { poll } from "./poll";
import { perSecond } from "./rate";
import type { System } from "./types";

/** Rates at one look at the system, per second. */
export interface SystemRate {
  at: number;
  messages: number;
  readings: number;
}

/** How many looks are remembered: five minutes of one a second. */
const remembered = 300;

/** /v1/system, looked at once a second by every page: numbers, rates and whether the server answers. */
export const system = {
  info: signal<System | null>(null),
  rates: signal<readonly SystemRate[]>([]),
  failing: signal(false),
  /** Whether the server answers that we may not see it. */
  forbidden: signal(false),
  /** When the last answer came, by this machine's clock; 0 before the first. */
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

/** Looks once. Two failures in a row count as lost; one may be a restart that is already over. */
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

/** Begins to look; called again (the person asks to retry), it begins anew with a look at once. */
export function watchSystem(): void {
  stop?.();
  stop = poll(look, 1000);
}
