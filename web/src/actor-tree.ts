import { batch, computed, signal } from "@preact/signals";
import { ApiError, api, describe, isAbort } from "./api";
import { type ActorTree, merge, remove, unloaded, visibleRows } from "./tree";

/** Branches refreshed in one round, and branches that a search may open. */
const roundLimit = 24;
const searchLimit = 100;

/** A branch with more children than this is not opened automatically. */
const openByItself = 40;

/** The actors on the page: the open branches, refreshed each round. */
export class ActorTreeView {
  readonly tree = signal<ActorTree>(new Map());
  readonly expanded = signal<ReadonlySet<string>>(new Set(["/"]));
  readonly search = signal("");
  readonly error = signal("");
  /** A search stopped before it had seen all branches. */
  readonly partial = signal(false);
  readonly rows = computed(() => visibleRows(this.tree.value, this.expanded.value, this.search.value));

  #turn = 0;
  #opened = false;

  /** One round: refreshes the open branches, in turns if there are many. */
  async refresh(signal: AbortSignal): Promise<void> {
    const open = [...this.expanded.value].filter((path) => path === "/" || this.tree.value.has(path));
    const start = open.length > roundLimit ? this.#turn % open.length : 0;
    this.#turn = start + roundLimit;
    const chosen = open.length > roundLimit ? [...open, ...open].slice(start, start + roundLimit) : open;
    await this.#look(chosen, signal);
    if (!this.#opened && this.tree.value.has("/")) {
      this.#opened = true;
      await this.#openFirst(signal);
    }
    if (this.search.value !== "") await this.#complete(signal);
  }

  async toggle(path: string, open = !this.expanded.value.has(path)): Promise<void> {
    const next = new Set(this.expanded.value);
    if (open) next.add(path);
    else next.delete(path);
    this.expanded.value = next;
    if (open) await this.#look([path], new AbortController().signal);
  }

  /** The first round opens small branches below the root, so that the page shows more than one line. */
  async #openFirst(signal: AbortSignal): Promise<void> {
    const root = this.tree.value.get("/");
    const small = (root?.children ?? []).filter((path) => {
      const children = this.tree.value.get(path)?.info.children ?? 0;
      return children > 0 && children <= openByItself;
    });
    this.expanded.value = new Set([...this.expanded.value, ...small.slice(0, 8)]);
    await this.#look(small.slice(0, 8), signal);
  }

  /** Loads branches that a search has not seen, up to a limit. */
  async #complete(signal: AbortSignal): Promise<void> {
    for (let i = 0; i < searchLimit && !signal.aborted; i += 8) {
      const paths = unloaded(this.tree.value).slice(0, 8);
      if (paths.length === 0) break;
      await this.#look(paths, signal);
    }
    this.partial.value = unloaded(this.tree.value).length > 0 || [...this.tree.value.values()].some((node) => node.more);
  }

  async #look(paths: readonly string[], signal: AbortSignal): Promise<void> {
    const answers = await Promise.allSettled(paths.map((path) => api.actors(path, signal)));
    if (signal.aborted) return;
    batch(() => {
      let problem = "";
      answers.forEach((answer, i) => {
        if (answer.status === "fulfilled") {
          this.tree.value = merge(this.tree.value, answer.value);
        } else if (answer.reason instanceof ApiError && answer.reason.status === 404) {
          this.tree.value = remove(this.tree.value, paths[i] as string); // it has stopped since the last round
        } else if (!isAbort(answer.reason)) {
          problem = describe(answer.reason);
        }
      });
      this.error.value = problem;
    });
  }
}
