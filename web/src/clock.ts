import { effect, signal } from "@preact/signals";
import { visible } from "./visibility";

/**
 * The time of the server in milliseconds, once a second while the page can be seen: ages are computed
 * against the clock that stamped the readings, not against that of whoever looks at them.
 */
export const now = signal(Date.now());

let offset = 0;

/** Takes in the server's time as an answer told it. Small differences are the way of the answer, not the clocks'. */
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
