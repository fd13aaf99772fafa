import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { describe, isAbort } from "./api";
import { poll } from "./poll";

/**
 * What a task loads repeatedly, with a pause of ms milliseconds: the last result, and the
 * last error or "". When the inputs change it starts again and keeps the result meanwhile.
 */
export function usePolled<T>(load: (abort: AbortSignal) => Promise<T>, ms: number, inputs: readonly unknown[]): { value: T | null; error: string } {
  const value = useSignal<T | null>(null);
  const error = useSignal("");
  useEffect(
    () =>
      poll(async (abort) => {
        try {
          value.value = await load(abort);
          error.value = "";
        } catch (thrown) {
          if (!isAbort(thrown)) error.value = describe(thrown);
        }
      }, ms),
    inputs,
  );
  return { value: value.value, error: error.value };
}
