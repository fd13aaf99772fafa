import { useSignal } from "@preact/signals";
import { api, describe } from "./api";
import { now } from "./clock";
import { formatAge, formatTime } from "./format";
import { type Json, stringifyJSON } from "./json";
import { usePolled } from "./polled";
import type { Command } from "./types";

const polledEvery = 1000;

/** Reports whether a command is still pending. */
export function isOpen(command: Command): boolean {
  return command.state === "queued" || command.state === "sent" || command.state === "delivered";
}

/** The outcome of a command in one line: why it failed, its answer, or its progress. */
export function outcome(command: Command): string {
  if (command.error) return command.error;
  if (command.result !== undefined) return stringifyJSON(command.result as Json);
  if (isOpen(command) && command.progress !== undefined) return stringifyJSON(command.progress as Json);
  return "";
}

/** The error in the text of a request, "" for none. An empty text means no request. */
export function requestProblem(text: string): string {
  if (text.trim() === "") return "";
  try {
    JSON.parse(text);
    return "";
  } catch {
    return 'The request must be JSON, such as {"angle":30}.';
  }
}

function Row({ command, onCancel }: { command: Command; onCancel: () => void }) {
  return (
    <tr>
      <td class="letter-time" title={formatTime(command.created_ms, now.value)}>
        {formatAge(now.value - command.created_ms)}
      </td>
      <td>
        <code title={command.id}>{command.name}</code> {command.request !== undefined && <span class="command-request">{stringifyJSON(command.request as Json)}</span>}
        {command.by && <span class="refusal-client"> by {command.by}</span>}
        {outcome(command) !== "" && <p class="refusal-detail">{outcome(command)}</p>}
      </td>
      <td class={`command-state ${command.state}`}>{command.state.replaceAll("_", " ")}</td>
      <td>
        {isOpen(command) && (
          <button type="button" class="link" aria-label={`Cancel ${command.name}`} onClick={onCancel}>
            Cancel
          </button>
        )}
      </td>
    </tr>
  );
}

/** The form that sends a command. It suggests the names that the type declares; others can be typed. */
function SendForm({ id, type, onSent }: { id: string; type: string | undefined; onSent: () => void }) {
  const name = useSignal("");
  const request = useSignal("");
  const problem = useSignal("");
  const sending = useSignal(false);
  const { value: declared } = usePolled((abort) => (type ? api.type(type, abort) : Promise.resolve(null)), 60_000, [type]);
  const names = Object.keys(declared?.commands ?? {}).sort();
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    problem.value = requestProblem(request.value);
    if (problem.value !== "") return;
    sending.value = true;
    try {
      await api.sendCommand(id, name.value, request.value);
      request.value = "";
      onSent();
    } catch (error) {
      problem.value = describe(error);
    } finally {
      sending.value = false;
    }
  };
  return (
    <form class="send-command" aria-label="Send a command" onSubmit={(event) => void submit(event)}>
      <label>
        <span>Command</span>
        <input type="text" required spellcheck={false} list="declared-commands" value={name.value} onInput={(e) => (name.value = e.currentTarget.value)} />
        <datalist id="declared-commands">
          {names.map((each) => (
            <option key={each} value={each} />
          ))}
        </datalist>
      </label>
      <label class="command-request-field">
        <span>Request (JSON)</span>
        <input type="text" spellcheck={false} placeholder="none" value={request.value} onInput={(e) => (request.value = e.currentTarget.value)} />
      </label>
      <button type="submit" disabled={name.value === "" || sending.value}>
        Send
      </button>
      {problem.value !== "" && (
        <p class="problem" role="alert">
          {problem.value}
        </p>
      )}
    </form>
  );
}

/** Sends commands to the device of an entity and shows the state of the newest ones. */
export function Commands({ id, type }: { id: string; type: string | undefined }) {
  const again = useSignal(0);
  const problem = useSignal("");
  const { value } = usePolled((abort) => api.commands(id, 20, abort), polledEvery, [id, again.value]);
  const cancel = async (command: Command): Promise<void> => {
    try {
      await api.cancelCommand(id, command.id);
      problem.value = "";
    } catch (error) {
      problem.value = describe(error);
    }
    again.value++;
  };
  return (
    <section class="panel commands" aria-label="Commands">
      <header>
        <h2>Commands</h2>
        <span class="panel-range">newest first</span>
      </header>
      <SendForm id={id} type={type} onSent={() => again.value++} />
      {problem.value !== "" && (
        <p class="problem" role="alert">
          {problem.value}
        </p>
      )}
      {value && value.commands.length === 0 && <p class="hint">No commands yet.</p>}
      {value && value.commands.length > 0 && (
        <table class="letters">
          <thead>
            <tr>
              <th scope="col">Sent</th>
              <th scope="col">Command</th>
              <th scope="col">State</th>
              <th scope="col" aria-label="Actions" />
            </tr>
          </thead>
          <tbody>
            {value.commands.map((command) => (
              <Row key={command.id} command={command} onCancel={() => void cancel(command)} />
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}
