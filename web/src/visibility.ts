import { signal } from "@preact/signals";

/** Whether the page can be seen: a hidden one neither polls nor streams. */
export const visible = signal(typeof document === "undefined" || !document.hidden);

if (typeof document !== "undefined") {
  document.addEventListener("visibilitychange", () => {
    visible.value = !document.hidden;
  });
}
