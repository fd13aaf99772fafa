import { computed, effect } from "@preact/signals";
import { loggedOut } from "./session";
import { Stream } from "./stream";
import { system } from "./system";
import { visible } from "./visibility";

/** The page's only stream. */
export const stream = new Stream({
  fetch: async (url, init) => {
    const response = await fetch(url, init);
    if (response.status === 401) loggedOut.value = true;
    return response;
  },
  setTimeout: (run, ms) => setTimeout(run, ms),
  clearTimeout: (timer) => clearTimeout(timer as number | undefined),
  random: Math.random,
  now: Date.now,
});

effect(() => stream.setVisible(visible.value));

/** The state of the connection to the server, from both the stream and the requests. */
export const connection = computed<"live" | "connecting" | "lost">(() => {
  const status = stream.status.value;
  if (status === "lost" || system.failing.value) return "lost";
  return status === "connecting" || (!system.info.value && !system.forbidden.value) ? "connecting" : "live";
});

/** Runs something each time the server is reachable again after it was lost. The returned function ends that. */
export function onBack(run: () => void): () => void {
  let lost = false;
  return connection.subscribe((state) => {
    if (state === "live" && lost) run();
    lost = state === "lost" || (lost && state !== "live");
  });
}
