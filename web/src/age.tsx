import { now } from "./clock";
import { formatAge, formatTime } from "./format";
import { freshness } from "./freshness";

/** The age of a reading, ticking, in the color of its freshness; the exact time is its title. */
export function Age({ ts }: { ts: number }) {
  if (ts <= 0) return <span class="age">never</span>; // a declared entity without readings
  const age = now.value - ts;
  return (
    <time class={`age ${freshness(age)}`} dateTime={new Date(ts).toISOString()} title={formatTime(ts, now.value)}>
      <i key={ts} class="dot" aria-hidden="true" />
      {formatAge(age)}
    </time>
  );
}
