import { useSignal } from "@preact/signals";
import { useEffect, useId, useRef } from "preact/hooks";
import { ApiError, api, describe, isAbort } from "./api";
import { completed, offsetOf } from "./completion";
import type { Completion, Query } from "./types";

/** The most suggestions that are shown. */
const shownItems = 40;

/** Fetches suggestions for the cursor; a later request cancels an earlier one. */
function useCompletion() {
  const completion = useSignal<Completion | null>(null);
  const abort = useRef<AbortController | null>(null);
  useEffect(() => () => abort.current?.abort(), []);
  const ask = async (text: string, cursor: number): Promise<void> => {
    abort.current?.abort();
    abort.current = new AbortController();
    try {
      completion.value = await api.complete(text, offsetOf(text, cursor), abort.current.signal);
    } catch (error) {
      if (!isAbort(error)) completion.value = null; // it helps and must not disturb
    }
  };
  return { completion, ask };
}

interface QueryInputProps {
  filter: string;
  onFilter: (filter: string) => void;
}

/** A filter with completion: arrow keys choose, Tab or Enter accepts, Enter without a choice searches, Escape closes. */
function QueryInput({ filter, onFilter }: QueryInputProps) {
  const text = useSignal(filter);
  const open = useSignal(false);
  const active = useSignal(-1);
  const input = useRef<HTMLInputElement>(null);
  const list = useId();
  const { completion, ask } = useCompletion();
  const items = completion.value?.items.slice(0, shownItems) ?? [];
  const shown = open.value && items.length > 0;

  useEffect(() => {
    text.value = filter; // "back", or a saved query
  }, [filter]);

  useEffect(() => {
    if (active.value >= 0) document.getElementById(`${list}-${active.value}`)?.scrollIntoView({ block: "nearest" });
  }, [active.value]);

  const change = (next: string, cursor: number): void => {
    text.value = next;
    open.value = true;
    active.value = -1;
    void ask(next, cursor);
  };
  const take = (index: number): void => {
    const item = items[index];
    if (!item || !completion.value) return;
    const { value, cursor } = completed(text.value, completion.value, item.text);
    change(value, cursor);
    requestAnimationFrame(() => {
      input.current?.focus();
      input.current?.setSelectionRange(cursor, cursor);
    });
  };
  const submit = (): void => {
    open.value = false;
    onFilter(text.value.trim());
  };
  const onKey = (event: KeyboardEvent): void => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step !== 0 && items.length > 0) {
      open.value = true;
      active.value = (active.value + step + items.length + (active.value < 0 && step < 0 ? 1 : 0)) % items.length;
    } else if (shown && (event.key === "Tab" || event.key === "Enter") && active.value >= 0) {
      take(active.value);
    } else if (event.key === "Enter") {
      submit();
    } else if (event.key === "Escape") {
      open.value = false;
      return;
    } else {
      return;
    }
    event.preventDefault();
  };
  const wrong = text.value.trim() !== "" && text.value !== filter ? completion.value?.error : undefined;
  return (
    <div class="query-input">
      <input
        ref={input}
        type="text"
        role="combobox"
        aria-label="Filter"
        aria-expanded={shown}
        aria-controls={list}
        aria-autocomplete="list"
        {...(shown && active.value >= 0 ? { "aria-activedescendant": `${list}-${active.value}` } : {})}
        placeholder="Filter, such as temperature > 20"
        autoComplete="off"
        spellcheck={false}
        value={text.value}
        onInput={(event) => change(event.currentTarget.value, event.currentTarget.selectionStart ?? event.currentTarget.value.length)}
        onFocus={(event) => void ask(text.value, event.currentTarget.selectionStart ?? 0)}
        onBlur={() => (open.value = false)}
        onKeyDown={onKey}
      />
      <ul id={list} role="listbox" aria-label="Completions" hidden={!shown}>
        {items.map((item, i) => (
          <li
            key={`${item.kind} ${item.text}`}
            id={`${list}-${i}`}
            role="option"
            aria-selected={i === active.value}
            onMouseDown={(event) => {
              event.preventDefault(); // the focus stays in the box
              take(i);
            }}
          >
            <code>{item.text}</code>
            <span>{item.kind}</span>
          </li>
        ))}
      </ul>
      <button type="button" onClick={submit} disabled={text.value.trim() === filter}>
        Apply
      </button>
      {filter !== "" && (
        <button
          type="button"
          onClick={() => {
            text.value = "";
            onFilter("");
          }}
        >
          Clear
        </button>
      )}
      {wrong && (
        <p class="hint query-wrong" role="status">
          Column {wrong.column}: {wrong.text}
        </p>
      )}
    </div>
  );
}

/** An id for a title: small letters, digits and hyphens. */
function idOf(title: string): string {
  return title
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-|-$/g, "");
}

/** The saved queries, and a form that saves the current one. */
function Saved({ filter, onFilter }: QueryInputProps) {
  const queries = useSignal<readonly Query[]>([]);
  const naming = useSignal(false);
  const problem = useSignal("");
  const attempt = async (task: () => Promise<unknown>): Promise<boolean> => {
    try {
      await task();
      queries.value = (await api.queries()).queries;
      problem.value = "";
      return true;
    } catch (error) {
      const taken = error instanceof ApiError && error.status === 412;
      problem.value = taken ? "Another user has changed this query, or a query of this name already exists." : describe(error);
      return false;
    }
  };
  useEffect(() => void attempt(async () => undefined), []);

  const onSave = (event: SubmitEvent): void => {
    event.preventDefault();
    const title = String(new FormData(event.currentTarget as HTMLFormElement).get("title")).trim();
    const id = idOf(title);
    if (id === "") {
      problem.value = "The name must contain a letter or a digit.";
      return;
    }
    void attempt(() => api.saveQuery(id, title, filter)).then((saved) => (naming.value = !saved));
  };
  const known = queries.value.some((query) => query.filter === filter);
  return (
    <div class="saved">
      {queries.value.map((query) => (
        <span key={query.id} class={query.filter === filter ? "chip current" : "chip"}>
          <button type="button" class="chip-use" title={query.filter} onClick={() => onFilter(query.filter)}>
            {query.title || query.id}
          </button>
          <button
            type="button"
            class="chip-delete"
            aria-label={`Delete the query ${query.title || query.id}`}
            onClick={() => void attempt(() => api.deleteQuery(query))}
          >
            ×
          </button>
        </span>
      ))}
      {filter !== "" && !known && !naming.value && (
        <button type="button" class="link" onClick={() => (naming.value = true)}>
          Save this filter
        </button>
      )}
      {naming.value && (
        <form onSubmit={onSave}>
          <input name="title" aria-label="Name of the query" placeholder="Name" maxLength={60} required />
          <button type="submit">Save</button>
          <button type="button" onClick={() => (naming.value = false)}>
            Cancel
          </button>
        </form>
      )}
      <span class="problem" role="alert">
        {problem.value}
      </span>
    </div>
  );
}

/** The query box of the list of entities, with the saved queries. */
export function QueryBox(props: QueryInputProps) {
  return (
    <div class="query">
      <QueryInput {...props} />
      <Saved {...props} />
    </div>
  );
}
