import { signal } from "@preact/signals";
import { formatRoute, parseRoute, type Route } from "./route";

/** The current route; always equal to the address bar. */
export const route = signal<Route>(parseRoute(window.location.hash));

let mayLeave: (to: Route) => boolean = () => true;

/** Has ask called before the current route is left, also for another one of the same page; false stays. Returns what ends that. */
export function guardRoute(ask: (to: Route) => boolean): () => void {
  mayLeave = ask;
  return () => {
    mayLeave = () => true;
  };
}

window.addEventListener("hashchange", () => {
  const to = parseRoute(window.location.hash);
  if (formatRoute(to) === formatRoute(route.value)) return;
  if (mayLeave(to)) route.value = to;
  else window.history.replaceState(null, "", formatRoute(route.value));
});

/** Navigates to a route. replace is for refinements (a search, a range) that "back" should skip. */
export function navigate(to: Route, replace = false): void {
  const hash = formatRoute(to);
  if (hash === window.location.hash || !mayLeave(to)) return;
  if (replace) window.history.replaceState(null, "", hash);
  else window.history.pushState(null, "", hash);
  route.value = to;
}
