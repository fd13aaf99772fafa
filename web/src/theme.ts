import { computed, signal } from "@preact/signals";

/** auto follows the system. The choice is kept by the browser; preload.ts applies it before the first paint. */
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

/** What is on the screen now; charts draw their colors from it. */
export const dark = computed(() => (theme.value === "auto" ? systemIsDark.value : theme.value === "dark"));

/** Changes to the other appearance; when that is also the system's, the choice is left to the system again. */
export function toggleTheme(): void {
  const wanted = dark.value ? "light" : "dark";
  theme.value = (wanted === "dark") === systemIsDark.value ? "auto" : wanted;
  if (theme.value === "auto") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme.value;
  try {
    localStorage.setItem(key, theme.value);
  } catch {
    // Storage is off: the choice lasts as long as the page.
  }
}
