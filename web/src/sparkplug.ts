// The least of Protobuf that a birth certificate of Sparkplug B needs: the server has the rest.

const varint = 0;
const fixed64 = 1;
const bytes = 2;

const typeInt64 = 4;
const typeDouble = 10;

/** A field of a message: its tag, and what it has. Numbers are below 128. */
function field(number: number, wire: number, value: readonly number[]): number[] {
  return [number << 3 | wire, ...(wire === bytes ? [value.length] : []), ...value];
}

function metric(name: string, type: number, value: readonly number[]): number[] {
  return field(2, bytes, [...field(1, bytes, [...new TextEncoder().encode(name)]), ...field(4, varint, [type]), ...value]);
}

/**
 * The payload of an NBIRTH with one metric: seq and bdSeq are 0. It has no times, so that the value is
 * one of when it is sent, also if that is done later, or again.
 */
export function sparkplugBirth(name: string, value: number): Uint8Array {
  const double = new Uint8Array(8);
  new DataView(double.buffer).setFloat64(0, value, true);
  return new Uint8Array([...metric("bdSeq", typeInt64, field(11, varint, [0])), ...metric(name, typeDouble, field(13, fixed64, [...double])), ...field(3, varint, [0])]);
}

export function base64(data: Uint8Array): string {
  return btoa(String.fromCharCode(...data));
}
