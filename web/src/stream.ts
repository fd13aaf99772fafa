import { signal } from "@preact/signals";
import { apiPath } from "./api";
import { backoff } from "./backoff";
import { parseJSON } from "./json";
import { EventParser } from "./sse";
import type { Change, PresenceEvent } from "./types";

/** off: there are no watches. paused: the page is hidden. */
export type StreamStatus = "off" | "paused" | "connecting" | "live" | "lost";

/** What a part of the page wants from the stream. */
export interface Watch {
  /** The entities wanted; null is all of them. */
  entities: readonly string[] | null;
  onChange: (change: Change) => void;
  /** A device went online or offline, or has another connection. */
  onPresence?: (event: PresenceEvent) => void;
  /** Changes may have been missed (first connection, cursor expired): fetch everything again. */
  onGap: () => void;
}

/** The dependencies of the stream, which tests replace. */
export interface StreamEnvironment {
  fetch: (url: string, init: RequestInit) => Promise<Response>;
  setTimeout: (run: () => void, ms: number) => unknown;
  clearTimeout: (timer: unknown) => void;
  random: () => number;
  now: () => number;
}

/** The server sends a heartbeat every 15 s; a connection that is silent for this long is dead. */
const silenceLimit = 40_000;

/** The path of the stream. */
const kinds = "kinds=readings,presence";

/** Longer filters do not fit in a request line everywhere; then the stream has all entities. */
const filterLimit = 6_000;

/**
 * The only connection to /v1/stream, shared by all watches. It resumes from the cursor of the last
 * event, with a growing pause between attempts, after any interruption: an error status, an end,
 * a timeout, a change of the watched entities.
 */
export class Stream {
  readonly status = signal<StreamStatus>("off");
  /** When the next try begins (ms); only while lost. */
  readonly retryAt = signal(0);
  /** When the last byte arrived (ms). */
  readonly heardAt = signal(0);

  #watches = new Set<Watch>();
  #cursor = "";
  #attempt = 0;
  #connection: AbortController | null = null;
  #connectedTo = "";
  #timer: unknown;
  #visible = true;
  #scheduled = false;

  constructor(private readonly env: StreamEnvironment) {}

  /** Starts a watch; the returned function ends it. Watches that start and end together cause only one new connection. */
  watch(watch: Watch): () => void {
    this.#watches.add(watch);
    this.#reviseSoon();
    return () => {
      this.#watches.delete(watch);
      this.#reviseSoon();
    };
  }

  /** Sets whether the page is visible: a hidden page needs no stream and catches up by cursor. */
  setVisible(visible: boolean): void {
    this.#visible = visible;
    this.#reviseSoon();
  }

  /** Reconnects now instead of at the end of the pause. */
  retry(): void {
    if (this.status.value !== "lost") return;
    this.#attempt = 0;
    this.#connect();
  }

  #reviseSoon(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    queueMicrotask(() => {
      this.#scheduled = false;
      this.#revise();
    });
  }

  #revise(): void {
    if (this.#watches.size === 0 || !this.#visible) {
      this.#close();
      if (this.#watches.size === 0) this.#cursor = ""; // the next watch fetches everything first
      this.status.value = this.#watches.size === 0 ? "off" : "paused";
      return;
    }
    if (this.#connectedTo !== this.#filter() || (!this.#connection && this.status.value !== "lost")) this.#connect();
  }

  /** The wanted entities as a query; empty for all. */
  #filter(): string {
    const wanted = new Set<string>();
    for (const watch of this.#watches) {
      if (watch.entities === null) return "";
      for (const id of watch.entities) wanted.add(id);
    }
    const path = apiPath(["stream"], { entity: [...wanted].sort() });
    return path.length > filterLimit ? "" : path.slice(path.indexOf("?") + 1);
  }

  #close(): void {
    this.env.clearTimeout(this.#timer);
    this.#connection?.abort();
    this.#connection = null;
    this.#connectedTo = "";
  }

  #connect(): void {
    this.#close();
    const filter = this.#filter();
    const query = [kinds, filter, this.#cursor === "" ? "" : `cursor=${encodeURIComponent(this.#cursor)}`].filter((part) => part !== "");
    this.#connectedTo = filter;
    const connection = new AbortController();
    this.#connection = connection;
    if (this.status.value !== "lost") this.status.value = "connecting";
    this.#run(`v1/stream?${query.join("&")}`, connection).catch(() => {
      if (this.#connection === connection) this.#lose();
    });
  }

  async #run(url: string, connection: AbortController): Promise<void> {
    const resumed = this.#cursor !== "";
    this.#watchSilence(connection);
    const response = await this.env.fetch(url, { headers: { accept: "text/event-stream" }, signal: connection.signal, cache: "no-store" });
    if (!response.ok || !response.body) {
      // Do not repeat a cursor that was refused (another server, a restored backup).
      if (response.status >= 400 && response.status < 500) this.#cursor = "";
      throw new Error(`stream: status ${response.status}`);
    }
    if (connection.signal.aborted) return;
    this.#attempt = 0;
    this.#hear(connection);
    this.status.value = "live";
    if (!resumed) this.#gap();
    const parser = new EventParser();
    const decoder = new TextDecoder();
    const reader = response.body.getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (connection.signal.aborted) return;
      if (done) throw new Error("stream: ended");
      this.#hear(connection);
      for (const event of parser.push(decoder.decode(value, { stream: true }))) this.#take(event.type, event.data, event.id);
    }
  }

  #take(type: string, data: string, id: string): void {
    if (type === "reset") {
      this.#cursor = id;
      this.#gap();
      return;
    }
    if (id !== "") this.#cursor = id;
    if (type === "presence") {
      const event = parseJSON(data) as PresenceEvent;
      for (const watch of [...this.#watches]) {
        if (watch.entities === null || watch.entities.includes(event.entity)) watch.onPresence?.(event);
      }
      return;
    }
    if (type !== "change") return; // a newer server may send more
    const change = parseJSON(data) as Change;
    for (const watch of [...this.#watches]) {
      if (watch.entities === null || watch.entities.includes(change.entity)) watch.onChange(change);
    }
  }

  #gap(): void {
    for (const watch of [...this.#watches]) watch.onGap();
  }

  #hear(connection: AbortController): void {
    this.heardAt.value = this.env.now();
    this.#watchSilence(connection);
  }

  #watchSilence(connection: AbortController): void {
    this.env.clearTimeout(this.#timer);
    this.#timer = this.env.setTimeout(() => {
      if (this.#connection !== connection) return;
      connection.abort();
      this.#lose();
    }, silenceLimit);
  }

  #lose(): void {
    const filter = this.#connectedTo;
    this.#close();
    this.#connectedTo = filter; // pause before the same request; a different one is sent at once
    this.#attempt++;
    const pause = backoff(this.#attempt, this.env.random());
    this.status.value = "lost";
    this.retryAt.value = this.env.now() + pause;
    this.#timer = this.env.setTimeout(() => this.#connect(), pause);
  }
}
