import { useSignal } from "@preact/signals";
import { AlarmTable } from "./alarms";
import { api, describe } from "./api";
import { attempt } from "./attempt";
import { usePolled } from "./polled";
import { formatRoute, type Route } from "./route";
import type { AlarmRule } from "./types";

type AlarmsRoute = Extract<Route, { page: "alarms" }>;

const severities = ["critical", "major", "minor", "warning", "info"] as const;

const shown = [
  ["raised", "Open"],
  ["cleared", "Cleared"],
  ["any", "All"],
] as const;

function List({ route }: { route: AlarmsRoute }) {
  const severity = useSignal("");
  const again = useSignal(0);
  const problem = useSignal("");
  const cursors = useSignal<readonly string[]>([]);
  const cursor = cursors.value[cursors.value.length - 1] ?? "";
  const query = { state: route.state, severity: severity.value, cursor, limit: 50 };
  const { value, error } = usePolled((abort) => api.alarms(query, abort), 2000, [route.state, severity.value, cursor, again.value]);
  return (
    <section class="panel" aria-label="Alarms">
      <header>
        <h2>Alarms</h2>
        <nav class="alarm-states" aria-label="State">
          {shown.map(([state, name]) => (
            <a key={state} href={formatRoute({ page: "alarms", state })} onClick={() => (cursors.value = [])} {...(state === route.state ? { "aria-current": "true" } : {})}>
              {name}
            </a>
          ))}
        </nav>
        <label>
          <span class="visually-hidden">Severity</span>
          <select
            value={severity.value}
            onChange={(e) => {
              severity.value = e.currentTarget.value;
              cursors.value = [];
            }}
          >
            <option value="">all severities</option>
            {severities.map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
        </label>
      </header>
      {(problem.value || error) !== "" && (
        <p class="problem" role="alert">
          {problem.value || error}
        </p>
      )}
      {value && value.alarms.length === 0 && <p class="hint">{route.state === "raised" ? "No open alarms." : "No alarms."}</p>}
      {value && value.alarms.length > 0 && (
        <AlarmTable
          alarms={value.alarms}
          withEntity
          onDone={(text) => {
            problem.value = text;
            again.value++;
          }}
        />
      )}
      <footer class="pages">
        {cursor !== "" && (
          <button type="button" class="link" onClick={() => (cursors.value = cursors.value.slice(0, -1))}>
            Newer
          </button>
        )}
        {value?.next && (
          <button type="button" class="link" onClick={() => (cursors.value = [...cursors.value, value.next as string])}>
            Older
          </button>
        )}
      </footer>
    </section>
  );
}

/** Describes in one line which entities a rule applies to. */
export function concerns(rule: Pick<AlarmRule, "type" | "entity" | "where">): string {
  const parts: string[] = [];
  if (rule.entity) parts.push(rule.entity);
  if (rule.type) parts.push(`each ${rule.type}`);
  if (rule.where) parts.push(`where ${rule.where}`);
  return parts.length === 0 ? "all entities" : parts.join(" ");
}

function Rules({ rules, onEdit, onDone }: { rules: readonly AlarmRule[]; onEdit: (rule: AlarmRule) => void; onDone: (problem: string) => void }) {
  const remove = (rule: AlarmRule): void => {
    if (confirm(`Delete the rule ${rule.name}? Its open alarms are cleared.`)) void attempt(() => api.deleteAlarmRule(rule), onDone);
  };
  return (
    <table class="letters">
      <thead>
        <tr>
          <th scope="col">Rule</th>
          <th scope="col">Applies to</th>
          <th scope="col">Raise</th>
          <th scope="col">Severity</th>
          <th scope="col" aria-label="Actions" />
        </tr>
      </thead>
      <tbody>
        {rules.map((rule) => (
          <tr key={rule.name}>
            <th scope="row">{rule.name}</th>
            <td>{concerns(rule)}</td>
            <td>
              <code>{rule.raise}</code>
              {rule.for && ` for ${rule.for}`}
              {rule.clear && (
                <p class="refusal-detail">
                  clear: <code>{rule.clear}</code>
                  {rule.clear_for && ` for ${rule.clear_for}`}
                </p>
              )}
            </td>
            <td class={`alarm-severity ${rule.severity}`}>{rule.severity}</td>
            <td>
              <button type="button" class="link" aria-label={`Edit ${rule.name}`} onClick={() => onEdit(rule)}>
                Edit
              </button>{" "}
              <button type="button" class="link" aria-label={`Delete ${rule.name}`} onClick={() => remove(rule)}>
                Delete
              </button>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** The fields of a rule by name, with the labels of their inputs. */
const fields = [
  ["name", "Name", ""],
  ["raise", "Raise when", "temperature > 80"],
  ["clear", "Clear when", "it no longer holds"],
  ["for", "For at least", "immediately"],
  ["type", "Only type", "all"],
  ["where", "Only where", 'attributes.building = "a"'],
  ["message", "Message", ""],
] as const;

type Draft = Record<(typeof fields)[number][0] | "severity", string>;

const blank: Draft = { name: "", raise: "", clear: "", for: "", type: "", where: "", message: "", severity: "major" };

/** Creates a rule, or changes the given one. */
function RuleForm({ rule, onDone }: { rule: AlarmRule | null; onDone: () => void }) {
  const draft = useSignal<Draft>({ ...blank, ...rule });
  const problem = useSignal("");
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    try {
      // Parts of a rule that the form does not show stay as they are.
      const { name, ...rest } = draft.value;
      await api.putAlarmRule(name, { ...rule, ...rest }, rule);
      draft.value = blank;
      problem.value = "";
      onDone();
    } catch (thrown) {
      problem.value = describe(thrown);
    }
  };
  return (
    <form class="alarm-rule" aria-label={rule ? `Edit ${rule.name}` : "Create a rule"} onSubmit={(event) => void submit(event)}>
      {fields.map(([field, label, placeholder]) => (
        <label key={field}>
          <span>{label}</span>
          <input
            type="text"
            spellcheck={false}
            required={field === "name" || field === "raise"}
            disabled={field === "name" && rule !== null}
            placeholder={placeholder}
            value={draft.value[field]}
            onInput={(e) => (draft.value = { ...draft.value, [field]: e.currentTarget.value })}
          />
        </label>
      ))}
      <label>
        <span>Severity</span>
        <select value={draft.value.severity} onChange={(e) => (draft.value = { ...draft.value, severity: e.currentTarget.value })}>
          {severities.map((each) => (
            <option key={each}>{each}</option>
          ))}
        </select>
      </label>
      <button type="submit">{rule ? "Save" : "Create"}</button>
      {rule && (
        <button type="button" class="link" onClick={onDone}>
          Cancel
        </button>
      )}
      {problem.value !== "" && (
        <p class="problem" role="alert">
          {problem.value}
        </p>
      )}
    </form>
  );
}

export function AlarmsPage({ route }: { route: AlarmsRoute }) {
  const again = useSignal(0);
  const edited = useSignal<AlarmRule | null>(null);
  const problem = useSignal("");
  const { value, error } = usePolled((abort) => api.alarmRules(abort), 5000, [again.value]);
  return (
    <main id="main" class="page" tabIndex={-1}>
      <List route={route} />
      <section class="panel alarm-rules" aria-label="Rules">
        <header>
          <h2>Rules</h2>
          <span class="panel-range">conditions are filters</span>
        </header>
        {(problem.value || error) !== "" && (
          <p class="problem" role="alert">
            {problem.value || error}
          </p>
        )}
        {value && value.rules.length === 0 && <p class="hint">No rules yet. A rule raises an alarm for each entity that satisfies its condition.</p>}
        {value && value.rules.length > 0 && (
          <Rules
            rules={value.rules}
            onEdit={(rule) => (edited.value = rule)}
            onDone={(text) => {
              problem.value = text;
              again.value++;
            }}
          />
        )}
        <RuleForm
          key={edited.value?.name ?? ""}
          rule={edited.value}
          onDone={() => {
            edited.value = null;
            again.value++;
          }}
        />
      </section>
    </main>
  );
}
