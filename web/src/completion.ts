const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** The position of a cursor in bytes of UTF-8, as the server counts. */
export function offsetOf(text: string, cursor: number): number {
  return encoder.encode(text.slice(0, cursor)).length;
}

/** Inserts a suggestion into the text and puts the cursor behind it. */
export function completed(text: string, place: { from: number; to: number }, suggestion: string): { value: string; cursor: number } {
  const bytes = encoder.encode(text);
  const before = decoder.decode(bytes.subarray(0, place.from)) + suggestion;
  const after = decoder.decode(bytes.subarray(place.to));
  const space = after.startsWith(" ") || suggestion.endsWith("(") || suggestion.endsWith(".") ? "" : " ";
  return { value: before + space + after, cursor: (before + space).length };
}
