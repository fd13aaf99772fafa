import { computed, signal } from "@preact/signals";

/** auto follows the system. The browser stores the choice; preload.ts applies it before the first paint. */
export type Theme = "auto" | "light" | "dark";

const key = "greenroom.theme";
const systemDark = window.matchMedia("(prefers-color-scheme: dark)");
const systemIsDark = signal(systemDark.matches);
systemDark.addEventListener("change", (event) => {
  systemIsDark.value = event.matches;
});

function stored(): Theme {
  const value = document.documentElement.dataset["theme"];
  return value === "light" || value === "dark" ? value : "auto";
}

export const theme = signal<Theme>(stored());

/** The current appearance, which determines the colors of charts. */
export const dark = computed(() => (theme.value === "auto" ? systemIsDark.value : theme.value === "dark"));

/** Switches to the other appearance, or to auto if the system has that one. */
export function toggleTheme(): void {
  const wanted = dark.value ? "light" : "dark";
  theme.value = (wanted === "dark") === systemIsDark.value ? "auto" : wanted;
  if (theme.value === "auto") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme.value;
  try {
    localStorage.setItem(key, theme.value);
  } catch {
    // Storage is disabled: the choice lasts as long as the page.
  }
}
