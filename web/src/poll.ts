import { effect } from "@preact/signals";
import { visible } from "./visibility";

/**
 * Runs a task now and again each time ms milliseconds after it ended, never twice at once
 * and not while the page is hidden. The returned function stops it and aborts a running task.
 */
export function poll(task: (signal: AbortSignal) => Promise<void>, ms: number): () => void {
  return effect(() => {
    if (!visible.value) return undefined;
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const run = async (): Promise<void> => {
      try {
        await task(abort.signal);
      } finally {
        if (!abort.signal.aborted) timer = setTimeout(() => void run(), ms);
      }
    };
    // A task reads signals before its first await; it must not become this effect's dependency.
    queueMicrotask(() => {
      if (!abort.signal.aborted) void run();
    });
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  });
}
