/** A value as the API sends it. Integers that a double cannot hold arrive as bigint, see parseJSON. */
export type Json = null | boolean | number | bigint | string | Json[] | { [key: string]: Json };

type Reviver = (this: unknown, key: string, value: unknown, context?: { source?: string }) => unknown;

const keepInteger: Reviver = (_key, value, context) => {
  if (typeof value !== "number" || Number.isSafeInteger(value)) return value;
  const source = context?.source;
  return source !== undefined && /^-?\d+$/.test(source) ? BigInt(source) : value;
};

/**
 * Parses JSON and keeps 64-bit integers exact: Greenroom's integers are int64, and a double loses
 * the last digits of a meter reading or an identifier above 2^53. A reviver costs time on each
 * number, so it runs only when the text has a run of digits long enough to matter.
 */
export function parseJSON(text: string): unknown {
  return /\d{16}/.test(text) ? JSON.parse(text, keepInteger as (key: string, value: unknown) => unknown) : JSON.parse(text);
}

/** JSON text of a value, the inverse of parseJSON. */
export function stringifyJSON(value: Json, indent = 0): string {
  const bigs: string[] = [];
  const text = JSON.stringify(
    value,
    (_key, item: unknown) => (typeof item === "bigint" ? `\u0000${bigs.push(item.toString()) - 1}\u0000` : item),
    indent,
  );
  return text.replace(/"\\u0000(\d+)\\u0000"/g, (_match, index: string) => bigs[Number(index)] ?? "");
}
