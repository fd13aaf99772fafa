import { useSignal } from "@preact/signals";
import { toLocalInput } from "./format";
import { presets, type Range, type TimeWindow } from "./range";

export interface RangePickerProps {
  range: Range;
  /** The visible range, from which a custom range is edited. */
  window: () => TimeWindow;
  onChange: (range: Range) => void;
}

function CustomRange({ from, to, onChange }: { from: number; to: number; onChange: (range: Range) => void }) {
  const problem = useSignal("");
  const onSubmit = (event: SubmitEvent): void => {
    event.preventDefault();
    const data = new FormData(event.currentTarget as HTMLFormElement);
    const start = new Date(String(data.get("from"))).getTime();
    const end = new Date(String(data.get("to"))).getTime();
    if (!(end > start)) {
      problem.value = "The end must be after the beginning.";
      return;
    }
    problem.value = "";
    onChange({ kind: "custom", from: start, to: end });
  };
  return (
    <form class="custom-range" onSubmit={onSubmit}>
      <label>
        From <input type="datetime-local" name="from" step="1" required value={toLocalInput(from)} />
      </label>
      <label>
        To <input type="datetime-local" name="to" step="1" required value={toLocalInput(to)} />
      </label>
      <button type="submit">Apply</button>
      <span class="problem" role="alert">
        {problem.value}
      </span>
    </form>
  );
}

/** The presets as a row of buttons, and a form for everything else. */
export function RangePicker({ range, window, onChange }: RangePickerProps) {
  const editing = useSignal(range.kind === "custom");
  const bounds = range.kind === "custom" ? range : window();
  return (
    <div class="range">
      <div class="segments" role="group" aria-label="Time range">
        {presets.map(({ name, label, title }) => (
          <button
            type="button"
            key={name}
            title={title}
            aria-pressed={range.kind === name && !editing.value}
            onClick={() => {
              editing.value = false;
              onChange({ kind: name });
            }}
          >
            {label}
          </button>
        ))}
        <button type="button" aria-pressed={editing.value || range.kind === "custom"} onClick={() => (editing.value = true)}>
          Custom
        </button>
      </div>
      {(editing.value || range.kind === "custom") && <CustomRange key={`${bounds.from}`} from={bounds.from} to={bounds.to} onChange={onChange} />}
    </div>
  );
}
