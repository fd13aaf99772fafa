import { signal } from "@preact/signals";
import { formatRoute, parseRoute, type Route } from "./route";

/** Where the person is; the address bar and this are always the same. */
export const route = signal<Route>(parseRoute(window.location.hash));

window.addEventListener("hashchange", () => {
  route.value = parseRoute(window.location.hash);
});

/** Goes somewhere. replace is for refinements (a search, a range) that "back" should not walk through. */
export function navigate(to: Route, replace = false): void {
  const hash = formatRoute(to);
  if (hash === window.location.hash) return;
  if (replace) window.history.replaceState(null, "", hash);
  else window.history.pushState(null, "", hash);
  route.value = to;
}
