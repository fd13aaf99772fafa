const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** The place of a cursor in bytes of UTF-8, which is how the server counts. */
export function offsetOf(text: string, cursor: number): number {
  return encoder.encode(text.slice(0, cursor)).length;
}

/** The text with a suggestion in the place that it is for, and the cursor behind it. */
export function completed(text: string, place: { from: number; to: number }, suggestion: string): { value: string; cursor: number } {
  const bytes = encoder.encode(text);
  const before = decoder.decode(bytes.subarray(0, place.from)) + suggestion;
  const after = decoder.decode(bytes.subarray(place.to));
  const space = after.startsWith(" ") || suggestion.endsWith("(") || suggestion.endsWith(".") ? "" : " ";
  return { value: before + space + after, cursor: (before + space).length };
}
