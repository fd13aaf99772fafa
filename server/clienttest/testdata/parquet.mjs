// Reads an exported history with hyparquet, and prints its columns and its rows, one in a line. Of a
// number it prints the bits.
import { asyncBufferFromFile, parquetMetadataAsync, parquetReadObjects } from "hyparquet";
import { compressors } from "hyparquet-compressors";

const { path } = JSON.parse(process.argv[2]);
const file = await asyncBufferFromFile(path);
const metadata = await parquetMetadataAsync(file);
console.log(metadata.schema.slice(1).map((s) => `${s.name} ${s.converted_type ?? s.type} ${s.repetition_type}`).join(", "));

const bits = new DataView(new ArrayBuffer(8));
for (const row of await parquetReadObjects({ file, metadata, compressors })) {
  const { entity, key, ts, number, integer, boolean, text, json } = row;
  let hex = null;
  if (number !== null && number !== undefined) {
    bits.setFloat64(0, number);
    hex = bits.getBigUint64(0).toString(16);
  }
  console.log(JSON.stringify([entity, key, ts.getTime(), hex, integer?.toString() ?? null, boolean ?? null, text ?? null, json ?? null]));
}
