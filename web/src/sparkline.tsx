const width = 96;
const height = 24;

/** The points attribute of a line through the values, scaled to the box; "" if there is no line to draw. */
export function sparkPoints(values: readonly number[], slots: number): string {
  if (values.length < 2) return "";
  const min = Math.min(...values);
  const span = Math.max(...values) - min;
  const step = width / (slots - 1);
  const start = width - step * (values.length - 1);
  return values
    .map((value, i) => {
      const y = span > 0 ? height - 3 - ((value - min) / span) * (height - 6) : height / 2;
      return `${(start + i * step).toFixed(1)},${y.toFixed(1)}`;
    })
    .join(" ");
}

/** A line without axes beside a value. Screen readers skip it, because the row has the value itself. */
export function Sparkline({ values, slots = 40 }: { values: readonly number[]; slots?: number }) {
  return (
    <svg class="sparkline" viewBox={`0 0 ${width} ${height}`} width={width} height={height} aria-hidden="true">
      <polyline points={sparkPoints(values, slots)} />
    </svg>
  );
}
