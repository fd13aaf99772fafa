import { type Json, stringifyJSON } from "./json";

const significant = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 6 });
const average = new Intl.NumberFormat("en-US", { maximumFractionDigits: 1 });
const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

/** Formats a number: whole numbers in full, fractions to six significant digits, extremes with an exponent. */
export function formatNumber(value: number | bigint): string {
  if (typeof value === "bigint") return whole.format(value);
  if (!Number.isFinite(value)) return String(value);
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return whole.format(value);
  const size = Math.abs(value);
  if (size >= 1e15 || size < 1e-6) return value.toExponential(4);
  return significant.format(value);
}

/** Formats an average with no more digits than its readings are likely to have had. */
export function formatAverage(value: number): string {
  const size = Math.abs(value);
  if (size >= 100 && size < 1e15) return average.format(value);
  return formatNumber(Number(value.toPrecision(4)));
}

/** A count or a rate in few characters: 950, 1.2 k, 3.4 M. */
export function formatCount(value: number): string {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size < 10 && !Number.isInteger(value)) return value.toFixed(1);
  if (size < 9999.5) return whole.format(value);
  for (const [unit, name] of [
    [1e12, "T"],
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ] as const) {
    if (size >= unit * 0.99995) {
      const scaled = value / unit;
      return `${Math.abs(scaled) < 99.95 ? scaled.toFixed(1) : scaled.toFixed(0)} ${name}`;
    }
  }
  return whole.format(value);
}

/** Formats a count with a noun: 1 entity, 1,200 entities. By default the plural is the noun with an s. */
export function formatPlural(n: number, noun: string, plural = `${noun}s`): string {
  return `${whole.format(n)} ${n === 1 ? noun : plural}`;
}

/** Bytes with a binary unit. */
export function formatBytes(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let scaled = bytes;
  let unit = 0;
  while (scaled >= 1024 && unit < units.length - 1) {
    scaled /= 1024;
    unit++;
  }
  return `${unit === 0 || scaled >= 100 ? scaled.toFixed(0) : scaled.toFixed(1)} ${units[unit]}`;
}

/** Milliseconds of latency: 0.42 ms, 3.1 ms, 1.20 s. */
export function formatLatency(ms: number): string {
  if (!Number.isFinite(ms) || ms <= 0) return "–";
  if (ms >= 1000) return `${(ms / 1000).toFixed(2)} s`;
  return `${ms < 1 ? ms.toFixed(2) : ms < 10 ? ms.toFixed(1) : ms.toFixed(0)} ms`;
}

export type ValueKind = "number" | "bool" | "string" | "json";

export function kindOf(value: Json): ValueKind {
  switch (typeof value) {
    case "number":
    case "bigint":
      return "number";
    case "boolean":
      return "bool";
    case "string":
      return "string";
    default:
      return "json";
  }
}

/** The number to draw for a value, if it has one: booleans are steps between 0 and 1. */
export function numeric(value: Json): number | undefined {
  switch (typeof value) {
    case "number":
      return Number.isFinite(value) ? value : undefined;
    case "bigint":
      return Number(value);
    case "boolean":
      return value ? 1 : 0;
    default:
      return undefined;
  }
}

/** One line for a table cell. */
export function formatValue(value: Json): string {
  switch (typeof value) {
    case "number":
    case "bigint":
      return formatNumber(value);
    case "boolean":
      return value ? "true" : "false";
    case "string":
      return value;
    default:
      return stringifyJSON(value);
  }
}

/** How long ago, in one unit: "now", "12 s", "5 min", "3 h", "12 d"; readings of the future are "ahead". */
export function formatAge(ms: number): string {
  if (ms < -5_000) return `${formatDuration(-ms)} ahead`;
  if (ms < 1_000) return "now";
  return formatDuration(ms);
}

/** A duration in its largest whole unit. */
export function formatDuration(ms: number): string {
  const seconds = Math.floor(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 2 * 86_400) return `${Math.floor(seconds / 3600)} h`;
  if (seconds < 2 * 365 * 86_400) return `${Math.floor(seconds / 86_400)} d`;
  return `${Math.floor(seconds / (365.25 * 86_400))} y`;
}

/** A duration in two units, for uptimes: "3 h 12 min". */
export function formatUptime(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const minutes = Math.floor(seconds / 60);
  const hours = Math.floor(minutes / 60);
  if (seconds < 60) return `${seconds} s`;
  if (minutes < 60) return `${minutes} min ${seconds % 60} s`;
  if (hours < 48) return `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

const months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const two = (n: number): string => String(n).padStart(2, "0");

export function formatClock(ms: number, seconds = true): string {
  const d = new Date(ms);
  return `${two(d.getHours())}:${two(d.getMinutes())}${seconds ? `:${two(d.getSeconds())}` : ""}`;
}

export function formatDate(ms: number, now: number = Date.now()): string {
  const d = new Date(ms);
  const year = d.getFullYear() === new Date(now).getFullYear() ? "" : ` ${d.getFullYear()}`;
  return `${d.getDate()} ${months[d.getMonth()]}${year}`;
}

/** Local time, with the date when it is not today's. */
export function formatTime(ms: number, now: number = Date.now()): string {
  const today = new Date(ms).toDateString() === new Date(now).toDateString();
  return today ? formatClock(ms) : `${formatDate(ms, now)} ${formatClock(ms)}`;
}

/** The value that an input of type datetime-local holds, in local time. */
export function toLocalInput(ms: number): string {
  const d = new Date(ms);
  return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}T${formatClock(ms)}`;
}

/**
 * Labels of a time axis, with as much of date and time as the distance (seconds) between them needs. Where a
 * day begins, and at the first label of a day that is not today, the date is below the time. null means no label.
 */
export function formatTicks(seconds: (number | null)[], increment: number, now: number = Date.now()): string[] {
  let day = formatDate(now, now);
  return seconds.map((s) => {
    if (s === null) return "";
    const ms = s * 1000;
    if (increment >= 365 * 86_400) return String(new Date(ms).getFullYear());
    const date = formatDate(ms, now);
    if (increment >= 86_400) return date;
    const clock = formatClock(ms, increment < 60);
    if (date === day) return clock;
    day = date;
    return `${clock}\n${date}`;
  });
}
