import { useSignal, type Signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { api, describe, isAbort } from "./api";
import { now } from "./clock";
import { formatAge } from "./format";
import { NamedList } from "./named-list";
import { usePolled } from "./polled";
import { entityRoute, formatRoute, type Route } from "./route";
import { guessTemplate } from "./template-guess";
import type { ReadyTemplate, Refusal, Template, TemplateBody, TriedTemplate } from "./types";

type TemplatesRoute = Extract<Route, { page: "templates" }>;

/** The content of the editor, and the message to try it on. */
interface Draft {
  name: Signal<string>;
  text: Signal<string>;
  topic: Signal<string>;
  payload: Signal<string>;
  /** Used instead of payload if that is not text. */
  bytes: Signal<string>;
}

const tryAfter = 250; // milliseconds after the last key

function show(body: TemplateBody): string {
  return JSON.stringify(body, null, 2);
}

/** Parses a template, with the error of JSON.parse in one line. */
function parseTemplate(text: string): { body: TemplateBody | null; error: string } {
  try {
    return { body: JSON.parse(text) as TemplateBody, error: "" };
  } catch (thrown) {
    return { body: null, error: `The template must be JSON: ${thrown instanceof Error ? thrown.message : String(thrown)}` };
  }
}

function Refused({ list, onPick }: { list: readonly Refusal[]; onPick: (refusal: Refusal) => void }) {
  return (
    <section class="card" aria-label="Refused messages">
      <h2>Refused messages</h2>
      {list.length === 0 ? (
        <p class="hint">None recently whose topic a template could use.</p>
      ) : (
        <ul class="picks">
          {list.map((refusal) => (
            <li key={`${refusal.cause} ${refusal.where} ${refusal.client ?? ""}`}>
              <button type="button" class="link" onClick={() => onPick(refusal)}>
                {refusal.where}
              </button>
              <span>
                {formatAge(now.value - refusal.last_ms)}
                {refusal.count > 1 ? ` × ${refusal.count}` : ""}
              </span>
              <p class="refusal-detail">{refusal.detail}</p>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

function ReadyList({ list, onPick }: { list: readonly ReadyTemplate[]; onPick: (ready: ReadyTemplate) => void }) {
  return (
    <details class="card ready">
      <summary>Ready-made templates</summary>
      <ul class="picks">
        {list.map((ready) => (
          <li key={ready.name}>
            <button type="button" class="link" onClick={() => onPick(ready)}>
              {ready.name}
            </button>
            <p class="refusal-detail">{ready.title}</p>
          </li>
        ))}
      </ul>
    </details>
  );
}

/** The result for the message, requested shortly after each change. */
function useTrial(draft: Draft): { result: TriedTemplate | null; error: string } {
  const result = useSignal<TriedTemplate | null>(null);
  const error = useSignal("");
  const { name, text, topic, payload, bytes } = draft;
  useEffect(() => {
    const { body, error: wrong } = parseTemplate(text.value);
    if (text.value.trim() === "" || !body) {
      result.value = null;
      error.value = text.value.trim() === "" ? "" : wrong;
      return undefined;
    }
    const abort = new AbortController();
    const timer = setTimeout(() => {
      api.tryTemplate({ name: name.value, template: body, topic: topic.value, payload: payload.value, bytes: bytes.value }, abort.signal).then(
        (tried) => {
          result.value = tried;
          error.value = "";
        },
        (thrown: unknown) => {
          if (isAbort(thrown)) return;
          result.value = null;
          error.value = describe(thrown);
        },
      );
    }, tryAfter);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [name.value, text.value, topic.value, payload.value, bytes.value]);
  return { result: result.value, error: error.value };
}

function Outcome({ result, error }: { result: TriedTemplate | null; error: string }) {
  return (
    <div class="outcome" role="status" aria-label="Outcome">
      {error !== "" && <p class="problem">{error}</p>}
      {error === "" && !result && <p class="hint">Pick a message or a template.</p>}
      {error === "" && result?.refused && <p class="problem">It would be refused: {result.refused.detail}</p>}
      {error === "" && result && !result.refused && result.into === "nothing" && <p>It is accepted and dropped.</p>}
      {error === "" && result && !result.refused && result.into !== "nothing" && (
        <>
          <p>
            {result.into === "reported" ? "Reported by " : "A reading of "}
            <a href={entityRoute(result.entity ?? "")}>{result.entity}</a>
            {result.type ? `, created with the type ${result.type}` : ""}
            {result.ts !== undefined ? ` at ${new Date(result.ts).toISOString()}` : " at the time of arrival"}:
          </p>
          <pre>{JSON.stringify(result.values, null, 2)}</pre>
        </>
      )}
    </div>
  );
}

function Editor({ draft, stored, onError, error }: { draft: Draft; stored: Template | undefined; onError: (text: string) => void; error: string }) {
  const { name, text, topic, payload, bytes } = draft;
  const trial = useTrial(draft);
  const save = async (event: Event): Promise<void> => {
    event.preventDefault();
    const { body, error: wrong } = parseTemplate(text.value);
    if (!body) {
      onError(wrong);
      return;
    }
    try {
      await api.putTemplate(name.value, body, stored?.name === name.value ? stored.etag : "");
      onError("");
      location.hash = formatRoute({ page: "templates", id: name.value });
    } catch (thrown) {
      onError(describe(thrown));
    }
  };
  const remove = async (): Promise<void> => {
    if (!stored || !confirm(`Delete ${stored.name}? Messages to its topics will be refused.`)) return;
    try {
      await api.deleteTemplate(stored);
      onError("");
      location.hash = formatRoute({ page: "templates", id: "" });
    } catch (thrown) {
      onError(describe(thrown));
    }
  };
  return (
    <form class="card template-editor" aria-label="Template" onSubmit={(event) => void save(event)}>
      <label>
        <span>Name</span>
        <input type="text" required spellcheck={false} value={name.value} onInput={(e) => (name.value = e.currentTarget.value)} />
      </label>
      <label class="wide">
        <span>Template</span>
        <textarea rows={14} spellcheck={false} value={text.value} onInput={(e) => (text.value = e.currentTarget.value)} />
      </label>
      <label class="wide">
        <span>Topic</span>
        <input type="text" spellcheck={false} value={topic.value} onInput={(e) => (topic.value = e.currentTarget.value)} />
      </label>
      <label class="wide">
        <span>{bytes.value === "" ? "Its payload" : "Its payload, in Base64"}</span>
        <textarea
          rows={6}
          spellcheck={false}
          value={bytes.value === "" ? payload.value : bytes.value}
          onInput={(e) => {
            if (bytes.value === "") payload.value = e.currentTarget.value;
            else bytes.value = e.currentTarget.value;
          }}
        />
      </label>
      <Outcome {...trial} />
      <p role="alert" class="problem">
        {error}
      </p>
      <div class="buttons">
        <button type="submit" disabled={name.value === "" || text.value.trim() === ""}>
          Save
        </button>
        {stored && (
          <button type="button" class="link" onClick={() => void remove()}>
            Delete
          </button>
        )}
      </div>
    </form>
  );
}

/** The templates, and one of them beside refused messages. */
export function TemplatesPage({ route }: { route: TemplatesRoute }) {
  const list = usePolled((abort) => api.templates(abort), 3000, []);
  const refusals = usePolled((abort) => api.refusals(abort), 2000, []);
  const error = useSignal("");
  const draft: Draft = { name: useSignal(""), text: useSignal(""), topic: useSignal(""), payload: useSignal(""), bytes: useSignal("") };
  const stored = list.value?.templates.find((each) => each.name === route.id);
  const shown = useSignal("");
  useEffect(() => {
    const version = stored ? `${stored.name} ${stored.etag}` : route.id === "" ? "" : shown.value;
    if (version === shown.value) return;
    shown.value = version;
    error.value = "";
    draft.name.value = stored?.name ?? "";
    draft.text.value = stored ? show(stored.template) : "";
  }, [stored?.name, stored?.etag, route.id]);
  const pickRefusal = (refusal: Refusal): void => {
    draft.topic.value = refusal.where;
    draft.payload.value = refusal.payload ?? "";
    draft.bytes.value = refusal.payload_bytes ?? "";
    if (draft.text.value.trim() === "") draft.text.value = show(guessTemplate(refusal.where, refusal.payload ?? ""));
  };
  const pickReady = (ready: ReadyTemplate): void => {
    if (stored?.name !== ready.name) draft.name.value = ready.name;
    draft.text.value = show(ready.template);
    draft.topic.value = ready.topic;
    draft.payload.value = ready.payload;
    draft.bytes.value = "";
  };
  const refused = (refusals.value?.recent ?? []).filter((each) => each.source === "mqtt" && each.payload_size !== undefined);
  return (
    <main id="main" class="page templates" tabIndex={-1}>
      <p role="alert">{list.error}</p>
      <div class="split master">
        <div>
          {list.value && (
            <NamedList
              label="Templates"
              noun="template"
              about="Topic"
              selected={route.id}
              create={formatRoute({ page: "templates", id: "" })}
              items={list.value.templates.map(({ name, template, problem }) => ({
                name,
                href: formatRoute({ page: "templates", id: name }),
                about: (
                  <>
                    <code>{template.topic}</code>
                    {problem && <p class="problem">{problem}</p>}
                  </>
                ),
              }))}
            />
          )}
          <Refused list={refused.slice(0, 30)} onPick={pickRefusal} />
          {list.value && <ReadyList list={list.value.ready} onPick={pickReady} />}
        </div>
        <Editor draft={draft} stored={stored} error={error.value} onError={(text) => (error.value = text)} />
      </div>
    </main>
  );
}
