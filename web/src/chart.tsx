import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { formatNumber, formatTicks } from "./format";
import type { Column } from "./series";
import { dark } from "./theme";

export interface ChartProps {
  /** Times in seconds, the line, and for a band its lower and upper edge. */
  data: Column[];
  /** The visible times, in seconds. */
  from: number;
  to: number;
  /** The name of a custom property that holds the color, such as "--series-1". */
  color: string;
  /** How points are connected: readings by lines, switches by steps. */
  stepped?: boolean;
  /** Whether to mark single readings if there are few. */
  dots?: boolean;
  /** Whether the axis starts at zero, for rates and counts. */
  zero?: boolean;
  /** Charts of the same group share a cursor. */
  group?: string;
  label: string;
  /** Called with the index of the data under the cursor, null if it is elsewhere. */
  onCursor?: (index: number | null) => void;
  /** Called with a range of times (seconds) selected by dragging. */
  onSelect?: (from: number, to: number) => void;
}

function css(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** A color with an opacity, for fills. Canvas does not accept var(), and the palette is in the form #rrggbb. */
function fade(color: string, opacity: number): string {
  return `${color}${Math.round(opacity * 255)
    .toString(16)
    .padStart(2, "0")}`;
}

/** The vertical range: all values with a margin, never of height zero. */
function verticalRange(min: number | null, max: number | null, props: ChartProps): [number, number] {
  if (props.stepped) return [-0.15, 1.15];
  if (min === null || max === null || !Number.isFinite(min) || !Number.isFinite(max)) return [0, 1];
  if (props.zero) return [0, Math.max(max * 1.15, 1)];
  const air = max > min ? (max - min) * 0.12 : Math.max(Math.abs(max) * 0.02, 0.5);
  return [min - air, max + air];
}

function options(props: { current: ChartProps }, width: number, height: number): uPlot.Options {
  const current = props.current;
  const color = css(current.color) || "#1f8a55";
  const muted = css("--text-muted");
  const line = css("--grid");
  const font = `11px ${css("--font")}`;
  const banded = current.data.length > 2;
  const paths = current.stepped ? uPlot.paths.stepped?.({ align: 1 }) : undefined;
  const edge: uPlot.Series = { stroke: fade(color, 0), width: 0, points: { show: false } };
  const series: uPlot.Series[] = [
    {},
    {
      stroke: color,
      width: 1.75,
      ...(paths ? { paths } : {}),
      ...(banded ? {} : { fill: (u: uPlot) => gradient(u, color), fillTo: (u: uPlot) => u.scales["y"]?.min ?? 0 }),
      points: { show: current.dots ?? false, size: 4, fill: color, width: 0 },
    },
  ];
  if (banded) series.push(edge, { ...edge });
  return {
    width,
    height,
    padding: [8, 6, 0, 0],
    legend: { show: false },
    cursor: {
      y: false,
      // Only the line has a point under the cursor, not the edges of its band.
      points: {
        size: (_u: uPlot, index: number) => (index === 1 ? 8 : 0),
        width: (_u: uPlot, index: number) => (index === 1 ? 2 : 0),
        fill: color,
        stroke: css("--surface"),
      },
      drag: { x: current.onSelect !== undefined, y: false, setScale: false },
      ...(current.group ? { sync: { key: current.group } } : {}),
    },
    scales: {
      x: { time: true, range: () => [props.current.from, props.current.to] },
      y: { range: (_u, min, max) => verticalRange(min, max, props.current) },
    },
    axes: [
      {
        stroke: muted,
        font,
        // Only the start of a day has a second line.
        size: (_u: uPlot, values: string[] | null) => (values?.some((text) => text.includes("\n")) ? 43 : 29),
        gap: 6,
        space: 72,
        grid: { show: false },
        ticks: { stroke: line, width: 1, size: 4 },
        // A label near the right edge would be cut off.
        filter: (u, splits) => {
          const { from, to } = props.current;
          const last = to - ((to - from) * 24) / Math.max(u.width - 60, 1);
          return splits.map((split) => (split > last ? null : split));
        },
        values: (_u, splits, _axis, _space, increment) => formatTicks(splits, increment),
      },
      {
        stroke: muted,
        font,
        size: 52,
        gap: 6,
        space: 22,
        grid: { stroke: line, width: 1 },
        ticks: { show: false },
        splits: current.stepped ? () => [0, 1] : undefined,
        values: (_u, splits) => splits.map((v) => (current.stepped ? (v === 1 ? "true" : "false") : formatNumber(v))),
      } as uPlot.Axis,
    ],
    series,
    ...(banded ? { bands: [{ series: [3, 2] as [number, number], fill: fade(color, 0.18) }] } : {}),
    hooks: {
      setCursor: [(u) => props.current.onCursor?.(u.cursor.idx ?? null)],
      setSelect: [
        (u) => {
          if (u.select.width < 6) return;
          const from = u.posToVal(u.select.left, "x");
          const to = u.posToVal(u.select.left + u.select.width, "x");
          u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          props.current.onSelect?.(from, to);
        },
      ],
    },
  };
}

function gradient(u: uPlot, color: string): CanvasGradient | string {
  const { top, height } = u.bbox;
  if (!Number.isFinite(top) || height <= 0) return fade(color, 0.1);
  const fill = u.ctx.createLinearGradient(0, top, 0, top + height);
  fill.addColorStop(0, fade(color, 0.22));
  fill.addColorStop(1, fade(color, 0.02));
  return fill;
}

/** A time chart on a canvas. It fills its box, whose height is fixed in the style sheet, so that nothing moves when data arrives. */
export function Chart(props: ChartProps) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const current = useRef(props);
  current.current = props;
  const isDark = dark.value;
  const banded = props.data.length > 2;

  useEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const u = new uPlot(
      options(current, element.clientWidth || 300, element.clientHeight || 150),
      current.current.data as uPlot.AlignedData,
      element,
    );
    plot.current = u;
    const observer = new ResizeObserver(() => {
      if (element.clientWidth > 0) u.setSize({ width: element.clientWidth, height: element.clientHeight });
    });
    observer.observe(element);
    return () => {
      observer.disconnect();
      u.destroy();
      plot.current = null;
    };
    // A plot cannot change these, so it is recreated when they change.
  }, [isDark, props.color, banded, props.stepped, props.dots, props.group, props.onSelect !== undefined]);

  useEffect(() => {
    // Resetting the scales calls the range functions, which read the props.
    plot.current?.setData(props.data as uPlot.AlignedData, true);
  }, [props.data, props.from, props.to]);

  return <div class="chart" ref={box} role="img" aria-label={props.label} />;
}
