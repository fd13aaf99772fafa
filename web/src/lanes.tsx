import { useSignal } from "@preact/signals";
import { useCallback, useEffect, useRef } from "preact/hooks";
import { Chart } from "./chart";
import { now } from "./clock";
import { formatAverage, formatNumber, formatPlural, formatTime } from "./format";
import { type Drawn, HistoryView, type Lane, type ViewRequest } from "./history-view";
import { onBack, stream } from "./live";
import { formatStep } from "./range";
import { summarize } from "./series";

/** How many colors the palette has. */
const colors = 6;

export interface LanesProps {
  request: ViewRequest;
  /** The range in words, for captions: "the last hour". */
  rangeTitle: string;
  onSelect?: (from: number, to: number) => void;
}

/** Describes a series: raw readings, or an aggregate. */
function modeLabel(drawn: Drawn): string {
  const { series } = drawn;
  if (series.mode === "aggregate") {
    return series.of === "avg" ? `avg per ${formatStep(series.step)}, band min to max` : `${series.of} per ${formatStep(series.step)}`;
  }
  const n = series.ts.length;
  return series.truncated ? `raw, the newest ${n.toLocaleString("en-US")}` : `raw, ${formatPlural(n, "reading")}`;
}

function show(value: number | null | undefined, lane: Lane, drawn: Drawn): string {
  if (value === null || value === undefined) return "–";
  if (lane.isSwitch) return value > 0 ? "true" : "false";
  return drawn.series.mode === "aggregate" ? formatAverage(value) : formatNumber(value);
}

function Readout({ lane, drawn, index }: { lane: Lane; drawn: Drawn; index: number | null }) {
  const [times, line, low, high] = drawn.columns;
  if (index === null || times?.[index] === undefined || line?.[index] === null || line?.[index] === undefined) {
    const summary = summarize(drawn.series);
    return <output class="lane-value">{summary ? show(summary.last, lane, drawn) : "–"}</output>;
  }
  return (
    <output class="lane-value">
      {show(line[index], lane, drawn)}
      {low && high && (
        <span class="lane-band">
          {show(low[index], lane, drawn)} … {show(high[index], lane, drawn)}
        </span>
      )}
      <span class="lane-time">{formatTime((times[index] as number) * 1000, now.peek())}</span>
    </output>
  );
}

function LaneView({ lane, index, view, rangeTitle, onSelect }: { lane: Lane; index: number; view: HistoryView } & Omit<LanesProps, "request">) {
  const cursor = useSignal<number | null>(null);
  const drawn = lane.drawn.value;
  const { from, to } = view.window.value;
  const summary = drawn && summarize(drawn.series);
  const onCursor = useCallback((at: number | null) => {
    cursor.value = at;
  }, []);
  const label = drawn && summary
    ? `${lane.key}, ${rangeTitle}: from ${show(summary.min, lane, drawn)} to ${show(summary.max, lane, drawn)}, last ${show(summary.last, lane, drawn)}`
    : `${lane.key}, ${rangeTitle}: no readings`;
  return (
    <figure class={`lane series-${(index % colors) + 1}`}>
      <figcaption>
        <span class="lane-key">
          <i class="swatch" aria-hidden="true" />
          {lane.key}
        </span>
        <span class="lane-mode">{drawn && summary ? modeLabel(drawn) : ""}</span>
        {drawn && <Readout lane={lane} drawn={drawn} index={cursor.value} />}
      </figcaption>
      <div class="lane-plot">
        {drawn && summary ? (
          <Chart
            data={drawn.columns}
            from={from / 1000}
            to={to / 1000}
            color={`--series-${(index % colors) + 1}`}
            stepped={lane.isSwitch}
            dots={drawn.series.ts.length < 60 && !lane.isSwitch}
            group="lanes"
            label={label}
            onCursor={onCursor}
            {...(onSelect ? { onSelect } : {})}
          />
        ) : (
          <p class="lane-empty">{drawn ? "No readings in this range." : ""}</p>
        )}
      </div>
    </figure>
  );
}

/** Charts of several keys below each other, each with its own scale, with a shared time axis and cursor. */
export function Lanes({ request, rangeTitle, onSelect }: LanesProps) {
  const holder = useRef<HistoryView | null>(null);
  holder.current ??= new HistoryView();
  const view = holder.current;
  // Live changes must not cause new requests. Only choices of the user do, and this text stands for them.
  const identity = JSON.stringify([request.id, request.keys, request.range, request.agg, request.follow]);

  useEffect(() => view.show(request), [identity]);
  useEffect(
    () => stream.watch({ entities: [request.id], onChange: (change) => view.apply(change), onGap: () => void view.reload() }),
    [request.id],
  );
  useEffect(() => now.subscribe((ms) => view.tick(ms)), []);
  useEffect(
    () =>
      onBack(() => {
        if (view.error.peek() !== "") void view.reload();
      }),
    [],
  );
  useEffect(() => () => view.close(), []);

  const lanes = view.lanes.value;
  const silent = lanes.every((lane) => lane.drawn.value?.series.ts.length === 0);
  return (
    <div class="lanes" aria-busy={view.changing.value}>
      {view.error.value !== "" && <p class="problem">{view.error.value}</p>}
      {silent && <p class="lane-empty">No readings in this range.</p>}
      {!silent &&
        lanes.map((lane, i) => (
          <LaneView key={lane.key} lane={lane} index={i} view={view} rangeTitle={rangeTitle} {...(onSelect ? { onSelect } : {})} />
        ))}
    </div>
  );
}
