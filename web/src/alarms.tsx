import { useSignal } from "@preact/signals";
import { api, describe } from "./api";
import { now } from "./clock";
import { formatAge, formatTime } from "./format";
import { type Json, stringifyJSON } from "./json";
import { usePolled } from "./polled";
import { entityRoute } from "./route";
import type { Alarm } from "./types";

/** How long a click on Shelve shelves an alarm. */
const shelfTimes = ["1h", "8h", "1d", "7d"] as const;

/** Describes an alarm in one line, without its severity. */
export function alarmNote(alarm: Alarm): string {
  const notes: string[] = [];
  if (alarm.values.length > 0) notes.push(alarm.values.map((v) => `${v.key} = ${stringifyJSON(v.value as Json)}`).join(", "));
  if (alarm.acknowledged) notes.push(["acknowledged", alarm.acknowledged.by && `by ${alarm.acknowledged.by}`, alarm.acknowledged.note && `(${alarm.acknowledged.note})`].filter(Boolean).join(" "));
  if (alarm.shelved) notes.push(["shelved", `until ${formatTime(alarm.shelved.until_ms)}`, alarm.shelved.by && `by ${alarm.shelved.by}`].filter(Boolean).join(" "));
  if (alarm.cause && alarm.cause !== "condition") notes.push(causes[alarm.cause] ?? alarm.cause);
  return notes.join("; ");
}

const causes: Record<string, string> = {
  operator: "cleared by hand",
  withdrawn: "withdrawn by a late reading",
  rule: "its rule changed",
  scope: "its rule no longer applies to the entity",
  entity: "its entity was deleted",
};

function Actions({ alarm, onDone }: { alarm: Alarm; onDone: (problem: string) => void }) {
  const act = async (action: () => Promise<unknown>): Promise<void> => {
    try {
      await action();
      onDone("");
    } catch (thrown) {
      onDone(describe(thrown));
    }
  };
  const about = `${alarm.rule} of ${alarm.entity}`;
  return (
    <td>
      <div class="alarm-actions">
      {!alarm.acknowledged && (
        <button type="button" class="link" aria-label={`Acknowledge ${about}`} onClick={() => void act(() => api.acknowledgeAlarm(alarm.id))}>
          Acknowledge
        </button>
      )}
      {alarm.state === "raised" && !alarm.shelved && (
        <select
          aria-label={`Shelve ${about}`}
          value=""
          onChange={(e) => {
            const time = e.currentTarget.value;
            if (time !== "") void act(() => api.shelveAlarm(alarm.id, time));
          }}
        >
          <option value="">Shelve…</option>
          {shelfTimes.map((time) => (
            <option key={time} value={time}>
              for {time}
            </option>
          ))}
        </select>
      )}
      {alarm.shelved && alarm.state === "raised" && (
        <button type="button" class="link" aria-label={`Unshelve ${about}`} onClick={() => void act(() => api.unshelveAlarm(alarm.id))}>
          Unshelve
        </button>
      )}
      {alarm.state === "raised" && (
        <button type="button" class="link" aria-label={`Clear ${about}`} onClick={() => void act(() => api.clearAlarm(alarm.id))}>
          Clear
        </button>
      )}
      </div>
    </td>
  );
}

function Row({ alarm, withEntity, onDone }: { alarm: Alarm; withEntity: boolean; onDone: (problem: string) => void }) {
  const note = alarmNote(alarm);
  return (
    <tr class={alarm.state === "raised" ? "alarm" : "alarm cleared"}>
      <td class={`alarm-severity ${alarm.severity}`}>{alarm.severity}</td>
      <td>
        {withEntity && (
          <a href={entityRoute(alarm.entity)} title={alarm.entity}>
            {alarm.entity}
          </a>
        )}{" "}
        <code>{alarm.rule}</code>
        {alarm.message && <span> {alarm.message}</span>}
        {note !== "" && <p class="refusal-detail">{note}</p>}
      </td>
      <td class="letter-time" title={formatTime(alarm.raised_ms, now.value)}>
        {formatAge(now.value - alarm.raised_ms)}
      </td>
      <td class="alarm-state">{alarm.state === "raised" ? "open" : `cleared ${formatTime(alarm.cleared_ms ?? 0, now.value)}`}</td>
      <Actions alarm={alarm} onDone={onDone} />
    </tr>
  );
}

/** A table of alarms with the possible actions. */
export function AlarmTable({ alarms, withEntity, onDone }: { alarms: readonly Alarm[]; withEntity: boolean; onDone: (problem: string) => void }) {
  return (
    <table class="letters alarms">
      <thead>
        <tr>
          <th scope="col">Severity</th>
          <th scope="col">Alarm</th>
          <th scope="col">Raised</th>
          <th scope="col">State</th>
          <th scope="col" aria-label="Actions" />
        </tr>
      </thead>
      <tbody>
        {alarms.map((alarm) => (
          <Row key={alarm.id} alarm={alarm} withEntity={withEntity} onDone={onDone} />
        ))}
      </tbody>
    </table>
  );
}

/** The last alarms of an entity; nothing if it never had one. */
export function EntityAlarms({ id }: { id: string }) {
  const again = useSignal(0);
  const problem = useSignal("");
  const { value } = usePolled((abort) => api.alarms({ entity: id, limit: 10 }, abort), 2000, [id, again.value]);
  if (!value || value.alarms.length === 0) return null;
  return (
    <section class="panel entity-alarms" aria-label="Alarms">
      <header>
        <h2>Alarms</h2>
        <span class="panel-range">the last 10</span>
      </header>
      {problem.value !== "" && (
        <p class="problem" role="alert">
          {problem.value}
        </p>
      )}
      <AlarmTable
        alarms={value.alarms}
        withEntity={false}
        onDone={(text) => {
          problem.value = text;
          again.value++;
        }}
      />
    </section>
  );
}
