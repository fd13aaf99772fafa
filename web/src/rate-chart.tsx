import { Chart } from "./chart";
import { formatCount } from "./format";

/** The time span of the chart. */
export const rateChartSeconds = 120;

/** Messages per second in the last two minutes, at each poll. */
export function RateChart({ rates, of }: { rates: readonly { at: number; messages: number }[]; of: string }) {
  const last = rates.at(-1);
  const to = (last?.at ?? Date.now()) / 1000;
  return (
    <section class="panel rate" aria-label="Messages per second">
      <header>
        <h2>Messages per second</h2>
        <span class="panel-range">2 min</span>
      </header>
      <div class="lane-plot">
        <Chart
          data={[rates.map((rate) => rate.at / 1000), rates.map((rate) => rate.messages)]}
          from={to - rateChartSeconds}
          to={to}
          color="--series-1"
          zero
          label={last ? `Messages per second of ${of}, last 2 minutes: now ${formatCount(last.messages)}` : "Messages per second: not measured yet"}
        />
      </div>
    </section>
  );
}
