import { effect, signal } from "@preact/signals";
import { visible } from "./visibility";

/**
 * The time of the server in milliseconds, updated every second while the page is visible. Ages are computed
 * by the clock that stamped the readings, not by that of the browser.
 */
export const now = signal(Date.now());

let offset = 0;

/** Adjusts the clock to the server's time in a response. Small differences are network latency. */
export function setServerTime(ms: number): void {
  const difference = ms - Date.now();
  if (Math.abs(difference - offset) > 2_000) offset = Math.abs(difference) > 2_000 ? difference : 0;
}

export function serverNow(): number {
  return Date.now() + offset;
}

effect(() => {
  if (!visible.value) return undefined;
  now.value = serverNow();
  const timer = setInterval(() => {
    now.value = serverNow();
  }, 1000);
  return () => clearInterval(timer);
});
