import { useSignal, type Signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { ApiError, api, describe, isAbort } from "./api";
import { attempt } from "./attempt";
import { now } from "./clock";
import { formatCount, formatPlural, formatTime } from "./format";
import { guardRoute, navigate } from "./location";
import { NamedList } from "./named-list";
import { usePolled } from "./polled";
import { formatRoute, type Route } from "./route";
import type { Script, ScriptBody, ScriptFailure, ScriptStep, ScriptVersion } from "./types";

type ScriptsRoute = Extract<Route, { page: "scripts" }>;

/** The content of the editor. */
interface Draft {
  name: Signal<string>;
  source: Signal<string>;
  type: Signal<string>;
  where: Signal<string>;
  keys: Signal<string>;
}

/** Remarks about lines of the source, by line number. */
type Marks = ReadonlyMap<number, string>;

const askDiscard = "Discard what is not saved?";
const checkAfter = 300; // milliseconds after the last key

const beginning = `function on_reading(e, r)
  -- r.temperature is a value of the reading, e.latest.flow the newest of another key
  e:set { double = 2 * (r.temperature or 0) }
end
`;

function bodyOf({ source, type, where, keys }: Draft): ScriptBody {
  const list = keys.value
    .split(",")
    .map((key) => key.trim())
    .filter((key) => key !== "");
  return {
    source: source.value,
    ...(type.value.trim() === "" ? {} : { type: type.value.trim() }),
    ...(where.value.trim() === "" ? {} : { where: where.value.trim() }),
    ...(list.length === 0 ? {} : { keys: list }),
  };
}

const stateWords: Record<string, string> = { disabled: "off", failures: "off: failures" };

function StateWord({ state }: { state: string }) {
  return <span class={`mapping-state ${state === "on" ? "" : state === "disabled" ? "waiting" : "failing"}`}>{stateWords[state] ?? state}</span>;
}

/** Reports whether the draft differs from what is stored. */
function isChanged(draft: Draft, stored: Script | undefined): boolean {
  const now = bodyOf(draft);
  if (!stored) return now.source !== beginning;
  const keys = (list: readonly string[] | undefined): string => (list ?? []).join(",");
  return now.source !== stored.source || (now.type ?? "") !== (stored.type ?? "") || (now.where ?? "") !== (stored.where ?? "") || keys(now.keys) !== keys(stored.keys);
}

/** Reports whether a script was saved after the version of it that a draft began with. */
function isLater(stored: Script, base: Script | undefined): boolean {
  return base?.name === stored.name && stored.version > base.version;
}

/** The note of a version. If it names another version by its number, it says that one's time instead. */
function noteOf(version: ScriptVersion, all: readonly ScriptVersion[]): string {
  const back = /^back to version (\d+)$/.exec(version.note ?? "");
  const old = back && all.find((other) => String(other.version) === back[1]);
  return old ? `back to the version of ${formatTime(old.updated_ms, now.value)}` : (version.note ?? "");
}

/** An editor with line numbers, some of which are marked. */
function Code({ text, marks }: { text: Signal<string>; marks: Marks }) {
  const gutter = useRef<HTMLOListElement>(null);
  const lines = text.value.split("\n").length;
  return (
    <div class="code">
      <ol ref={gutter} aria-hidden="true">
        {Array.from({ length: lines }, (_, i) => (
          <li key={i} class={marks.has(i + 1) ? "marked" : ""} title={marks.get(i + 1) ?? ""}>
            {i + 1}
          </li>
        ))}
      </ol>
      <textarea
        aria-label="Source"
        rows={18}
        spellcheck={false}
        wrap="off"
        value={text.value}
        onInput={(e) => (text.value = e.currentTarget.value)}
        onScroll={(e) => {
          if (gutter.current) gutter.current.scrollTop = e.currentTarget.scrollTop;
        }}
        onKeyDown={(e) => {
          if (e.key !== "Tab" || e.shiftKey || e.ctrlKey || e.altKey) return; // with a modifier it leaves the field
          e.preventDefault();
          e.currentTarget.setRangeText("  ", e.currentTarget.selectionStart, e.currentTarget.selectionEnd, "end");
          text.value = e.currentTarget.value;
        }}
      />
    </div>
  );
}

/** The error in the script, checked shortly after each change. */
function useCheck(draft: Draft): { line: number; text: string } {
  const wrong = useSignal({ line: 0, text: "" });
  const { name, source, type, where, keys } = draft;
  useEffect(() => {
    if (source.value.trim() === "") {
      wrong.value = { line: 0, text: "" };
      return undefined;
    }
    const abort = new AbortController();
    const timer = setTimeout(() => {
      api.checkScript(name.value.trim() || "script", bodyOf(draft), abort.signal).then(
        () => (wrong.value = { line: 0, text: "" }),
        (thrown: unknown) => {
          if (!isAbort(thrown)) wrong.value = { line: thrown instanceof ApiError ? thrown.line : 0, text: describe(thrown) };
        },
      );
    }, checkAfter);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [name.value, source.value, type.value, where.value, keys.value]);
  return wrong.value;
}

function Effects({ step }: { step: ScriptStep }) {
  return (
    <>
      {step.readings?.map((r, i) => <code key={`r${i}`}>set {JSON.stringify(r.values)}</code>)}
      {step.patches?.map((p, i) => (
        <code key={`p${i}`}>
          {p.section} {JSON.stringify(p.patch)}
        </code>
      ))}
      {step.commands?.map((c, i) => (
        <code key={`c${i}`}>
          command {c.name} {c.request === undefined ? "" : JSON.stringify(c.request)}
        </code>
      ))}
      {step.printed?.map((line, i) => <code key={`l${i}`}>{line}</code>)}
      {step.error && <pre class="failure-text">{step.error}</pre>}
    </>
  );
}

function Trial({ draft, steps }: { draft: Draft; steps: Signal<readonly ScriptStep[] | null> }) {
  const entity = useSignal("");
  const last = useSignal("20");
  const error = useSignal("");
  const run = async (event: Event): Promise<void> => {
    event.preventDefault();
    try {
      const trial = await api.tryScript(draft.name.value.trim() || "script", { script: bodyOf(draft), entity: entity.value.trim(), last: Number(last.value) });
      steps.value = trial.steps;
      error.value = "";
    } catch (thrown) {
      steps.value = null;
      error.value = describe(thrown);
    }
  };
  return (
    <form class="card template-editor script-trial" aria-label="Trial" onSubmit={(event) => void run(event)}>
      <h2>Try it on the last readings of an entity</h2>
      <div class="fields">
        <label>
          <span>Entity</span>
          <input type="text" required spellcheck={false} value={entity.value} onInput={(e) => (entity.value = e.currentTarget.value)} />
        </label>
        <label>
          <span>Readings</span>
          <input type="number" min={1} max={1000} required value={last.value} onInput={(e) => (last.value = e.currentTarget.value)} />
        </label>
        <button type="submit" disabled={entity.value.trim() === "" || draft.source.value.trim() === ""}>
          Try
        </button>
      </div>
      <p role="alert" class="problem">
        {error.value}
      </p>
      {steps.value && steps.value.length === 0 && <p role="status">It would not be called for any of them.</p>}
      {steps.value && steps.value.length > 0 && (
        <table class="steps">
          <thead>
            <tr>
              <th scope="col">Reading</th>
              <th scope="col">What it would have done</th>
              <th scope="col">self</th>
            </tr>
          </thead>
          <tbody>
            {steps.value.map((step, i) => (
              <tr key={i} class={step.error ? "failed" : ""}>
                <td>
                  {formatTime(step.reading.ts, now.value)}
                  <code>{JSON.stringify(step.reading.values)}</code>
                </td>
                <td>
                  <Effects step={step} />
                </td>
                <td>{step.state !== undefined && <code>{JSON.stringify(step.state)}</code>}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </form>
  );
}

function Failures({ list, version }: { list: readonly ScriptFailure[]; version: number }) {
  return (
    <section class="card" aria-label="Failures">
      <h2>Last failures</h2>
      {list.map((failure) => (
        <details key={`${failure.time_ms} ${failure.entity} ${failure.seq ?? 0} ${failure.text}`}>
          <summary>
            {formatTime(failure.time_ms, now.value)} {failure.entity}
            {failure.line ? `, line ${failure.line}` : ""}
            {failure.version === version ? "" : " of an earlier version"}: {failure.text.split("\n")[0]}
          </summary>
          <pre class="failure-text">{failure.text}</pre>
        </details>
      ))}
    </section>
  );
}

interface VersionsProps {
  script: Script;
  changed: boolean;
  onFill: (version: ScriptVersion) => void;
  onShow: (script: Script) => void;
  onError: (text: string) => void;
}

function Versions({ script, changed, onFill, onShow, onError }: VersionsProps) {
  const list = usePolled((abort) => api.scriptVersions(script.name, abort), 5000, [script.name, script.version]);
  const discards = (): boolean => !changed || confirm(askDiscard);
  const rollBack = async (version: ScriptVersion): Promise<void> => {
    try {
      onShow(await api.rollBackScript(script.name, version.version));
      onError("");
    } catch (thrown) {
      onError(describe(thrown));
    }
  };
  return (
    <section class="card" aria-label="Versions">
      <h2>Versions</h2>
      <ul class="picks">
        {list.value?.versions.map((version) => (
          <li key={version.version}>
            <button type="button" class="link" title={`Show version ${version.version}`} onClick={() => discards() && onFill(version)}>
              {formatTime(version.updated_ms, now.value)}
            </button>
            <span>{version.version === script.version ? `${version.owner} in force` : version.owner}</span>
            {version.version !== script.version && (
              <button type="button" class="link roll-back" onClick={() => discards() && void rollBack(version)}>
                Roll back
              </button>
            )}
            {version.note && <p>{noteOf(version, list.value?.versions ?? [])}</p>}
          </li>
        ))}
      </ul>
    </section>
  );
}

/** Told where another version was saved while the draft was being changed. */
function Newer({ script, onShow, onKeep }: { script: Script; onShow: () => void; onKeep: () => void }) {
  return (
    <p role="alert" class="problem newer">
      {script.owner || "Somebody"} saved another version at {formatTime(script.updated_ms, now.value)}, while you were editing.{" "}
      <button type="button" class="link" onClick={onShow}>
        Discard mine
      </button>{" "}
      <button type="button" class="link" onClick={onKeep}>
        Keep mine
      </button>
    </p>
  );
}

interface EditorProps {
  draft: Draft;
  /** The script that the draft began with. */
  base: Signal<Script | undefined>;
  /** The script as it is now. */
  stored: Script | undefined;
  marks: Marks;
  wrong: string;
  error: string;
  onShow: (script: Script | undefined) => void;
  onError: (text: string) => void;
}

function Editor({ draft, base, stored, marks, wrong, error, onShow, onError }: EditorProps) {
  const { name, source, type, where, keys } = draft;
  const save = async (event: Event): Promise<void> => {
    event.preventDefault();
    const known = base.value?.name === name.value.trim() ? base.value.etag : "";
    await attempt(async () => {
      base.value = await api.putScript(name.value.trim(), bodyOf(draft), known);
      navigate({ page: "scripts", id: base.value.name });
    }, onError);
  };
  const remove = async (): Promise<void> => {
    if (!stored || !confirm(`Delete ${stored.name}, its versions and its state?`)) return;
    await attempt(async () => {
      await api.deleteScript(stored);
      onShow(undefined);
      navigate({ page: "scripts", id: "" });
    }, onError);
  };
  const newer = stored !== undefined && isLater(stored, base.value);
  return (
    <form class="card template-editor script-editor" aria-label="Script" onSubmit={(event) => void save(event)}>
      {stored && (
        <p class="script-counts">
          <StateWord state={stored.state} /> <span title={`version ${stored.version}`}>version of {formatTime(stored.updated_ms, now.value)}</span> by {stored.owner || "anybody"}:{" "}
          {formatPlural(stored.runs, "call")}, {formatCount(stored.failures)} failed, {formatPlural(stored.effects, "effect")}, {formatCount(stored.refused)} refused
        </p>
      )}
      {stored?.problem && <p class="problem">{stored.problem}</p>}
      <div class="fields">
        <label>
          <span>Name</span>
          <input type="text" required spellcheck={false} value={name.value} onInput={(e) => (name.value = e.currentTarget.value)} />
        </label>
        <label>
          <span>Type</span>
          <input type="text" spellcheck={false} placeholder="any" value={type.value} onInput={(e) => (type.value = e.currentTarget.value)} />
        </label>
        <label>
          <span>Entities (filter)</span>
          <input type="text" spellcheck={false} placeholder={`id like "pump-%"`} value={where.value} onInput={(e) => (where.value = e.currentTarget.value)} />
        </label>
        <label>
          <span>Keys</span>
          <input type="text" spellcheck={false} placeholder="any" value={keys.value} onInput={(e) => (keys.value = e.currentTarget.value)} />
        </label>
      </div>
      <Code text={source} marks={marks} />
      <p role="status" class="problem script-check">
        {wrong}
      </p>
      <p role="alert" class="problem">
        {error}
      </p>
      {newer && <Newer script={stored} onShow={() => onShow(stored)} onKeep={() => (base.value = stored)} />}
      <div class="buttons">
        <button type="submit" disabled={newer || name.value.trim() === "" || source.value.trim() === "" || wrong !== ""}>
          Save
        </button>
        {stored && stored.state !== "refused" && (
          <button type="button" class="link" onClick={() => void attempt(() => api.switchScript(stored.name, stored.state !== "on"), onError)}>
            {stored.state === "on" ? "Switch off" : "Switch on"}
          </button>
        )}
        {stored && (
          <button type="button" class="link" onClick={() => void remove()}>
            Delete
          </button>
        )}
        {isChanged(draft, base.value) && <span class="unsaved">not saved</span>}
      </div>
    </form>
  );
}

/** The lines named by the last failures, the trial and the check. */
function marksOf(wrong: { line: number; text: string }, steps: readonly ScriptStep[] | null, failed: readonly ScriptFailure[]): Marks {
  const marks = new Map<number, string>();
  for (const failure of failed) if (failure.line && !marks.has(failure.line)) marks.set(failure.line, failure.text);
  for (const step of steps ?? []) if (step.line) marks.set(step.line, step.error ?? "");
  if (wrong.line > 0) marks.set(wrong.line, wrong.text);
  return marks;
}

/** The scripts, and one of them with its versions and failures. */
export function ScriptsPage({ route }: { route: ScriptsRoute }) {
  const list = usePolled((abort) => api.scripts(abort), 2000, []);
  const one = usePolled(async (abort) => (route.id === "" ? null : api.script(route.id, abort)), 1000, [route.id]);
  const stored = one.value?.name === route.id ? one.value : undefined;
  const error = useSignal("");
  const draft: Draft = { name: useSignal(""), source: useSignal(beginning), type: useSignal(""), where: useSignal(""), keys: useSignal("") };
  const steps = useSignal<readonly ScriptStep[] | null>(null);
  const base = useSignal<Script | undefined>(undefined);
  const fill = (script: ScriptBody): void => {
    draft.source.value = script.source;
    draft.type.value = script.type ?? "";
    draft.where.value = script.where ?? "";
    draft.keys.value = (script.keys ?? []).join(", ");
    steps.value = null;
  };
  const show = (script: Script | undefined): void => {
    base.value = script;
    draft.name.value = script?.name ?? "";
    error.value = "";
    fill(script ?? { source: beginning });
  };
  useEffect(() => {
    if (!stored) {
      if (route.id === "" && base.value) show(undefined);
    } else if (base.value?.name !== stored.name) {
      show(stored);
    } else if (isLater(stored, base.value) && !(isChanged(draft, base.value) && isChanged(draft, stored))) {
      show(stored);
    }
  }, [stored?.name, stored?.version, route.id]);
  useEffect(() => guardRoute((to) => (to.page === "scripts" && to.id === base.value?.name) || !isChanged(draft, base.value) || confirm(askDiscard)), []);
  useEffect(() => {
    const ask = (event: BeforeUnloadEvent): void => {
      if (isChanged(draft, base.value)) event.preventDefault();
    };
    window.addEventListener("beforeunload", ask);
    return () => window.removeEventListener("beforeunload", ask);
  }, []);
  const wrong = useCheck(draft);
  const unchanged = stored !== undefined && stored.source === draft.source.value;
  return (
    <main id="main" class="page scripts" tabIndex={-1}>
      <p role="alert" class="problem">
        {list.error}
      </p>
      <div class="split master">
        <div>
          {list.value && (
            <NamedList
              label="Scripts"
              noun="script"
              about="Calls"
              states
              selected={route.id}
              create={formatRoute({ page: "scripts", id: "" })}
              items={list.value.scripts.map(({ name, runs, state }) => ({
                name,
                href: formatRoute({ page: "scripts", id: name }),
                about: formatCount(runs),
                state: <StateWord state={state} />,
              }))}
            />
          )}
          {stored && <Versions script={stored} changed={isChanged(draft, base.value)} onFill={fill} onShow={show} onError={(text) => (error.value = text)} />}
        </div>
        <div>
          <Editor
            draft={draft}
            base={base}
            stored={stored}
            marks={marksOf(wrong, steps.value, unchanged ? (stored?.failed ?? []).filter((failure) => failure.version === stored?.version) : [])}
            wrong={wrong.text}
            error={error.value || one.error}
            onShow={show}
            onError={(text) => (error.value = text)}
          />
          <Trial draft={draft} steps={steps} />
          {stored?.failed && stored.failed.length > 0 && <Failures list={stored.failed} version={stored.version} />}
        </div>
      </div>
    </main>
  );
}
