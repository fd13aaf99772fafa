export type Freshness = "fresh" | "late" | "stale";

const fresh = 60_000;
const late = 60 * 60_000;

/**
 * How far a value of this age (milliseconds) can be trusted to be current. Sensors of
 * one house report between every second and every few minutes, so a minute is fresh, an hour is
 * late, and anything older is stale.
 */
export function freshness(age: number): Freshness {
  if (age < fresh) return "fresh";
  return age < late ? "late" : "stale";
}
