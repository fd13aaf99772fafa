const first = 500;
const most = 15_000;

/**
 * How long to wait (milliseconds) before the n-th try in a row, n from 1. It doubles, up to 15 s;
 * random in [0, 1) spreads the browsers that all lost the same server by up to a quarter.
 */
export function backoff(attempt: number, random: number): number {
  const base = Math.min(most, first * 2 ** Math.min(attempt - 1, 16));
  return Math.round(base * (1 - random / 4));
}
