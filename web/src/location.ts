import { signal } from "@preact/signals";
import { formatRoute, parseRoute, type Route } from "./route";

/** The current route; always equal to the address bar. */
export const route = signal<Route>(parseRoute(window.location.hash));

window.addEventListener("hashchange", () => {
  route.value = parseRoute(window.location.hash);
});

/** Navigates to a route. replace is for refinements (a search, a range) that "back" should skip. */
export function navigate(to: Route, replace = false): void {
  const hash = formatRoute(to);
  if (hash === window.location.hash) return;
  if (replace) window.history.replaceState(null, "", hash);
  else window.history.pushState(null, "", hash);
  route.value = to;
}
