// As much Protobuf as a Sparkplug B birth certificate needs; the server implements the rest.

const varint = 0;
const fixed64 = 1;
const bytes = 2;

const typeInt64 = 4;
const typeDouble = 10;

/** A field of a message: tag and content. Numbers are below 128. */
function field(number: number, wire: number, value: readonly number[]): number[] {
  return [number << 3 | wire, ...(wire === bytes ? [value.length] : []), ...value];
}

function metric(name: string, type: number, value: readonly number[]): number[] {
  return field(2, bytes, [...field(1, bytes, [...new TextEncoder().encode(name)]), ...field(4, varint, [type]), ...value]);
}

/**
 * The payload of an NBIRTH with one metric, with seq and bdSeq 0. It has no timestamps, so that the value has
 * the time at which it is sent, even if that is later, or again.
 */
export function sparkplugBirth(name: string, value: number): Uint8Array {
  const double = new Uint8Array(8);
  new DataView(double.buffer).setFloat64(0, value, true);
  return new Uint8Array([...metric("bdSeq", typeInt64, field(11, varint, [0])), ...metric(name, typeDouble, field(13, fixed64, [...double])), ...field(3, varint, [0])]);
}

export function base64(data: Uint8Array): string {
  return btoa(String.fromCharCode(...data));
}
