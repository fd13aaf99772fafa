import { formatValue, kindOf } from "./format";
import { type Json, stringifyJSON } from "./json";

/** A value in a cell: numbers and strings in one line, switches in words, JSON that can be expanded. */
export function ValueView({ value }: { value: Json }) {
  const kind = kindOf(value);
  if (kind === "json") {
    return (
      <details class="json">
        <summary title={stringifyJSON(value)}>{stringifyJSON(value)}</summary>
        <pre>{stringifyJSON(value, 2)}</pre>
      </details>
    );
  }
  if (kind === "bool") return <span class={value === true ? "switch on" : "switch"}>{formatValue(value)}</span>;
  return (
    <span class={`value ${kind}`} title={kind === "number" ? String(value) : formatValue(value)}>
      {formatValue(value)}
    </span>
  );
}
