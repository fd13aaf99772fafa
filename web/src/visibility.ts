import { signal } from "@preact/signals";

/** Whether the page is visible: a hidden page neither polls nor streams. */
export const visible = signal(typeof document === "undefined" || !document.hidden);

if (typeof document !== "undefined") {
  document.addEventListener("visibilitychange", () => {
    visible.value = !document.hidden;
  });
}
