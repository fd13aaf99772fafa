/** One event of a stream; id is the cursor to resume after it. */
export interface StreamEvent {
  type: string;
  data: string;
  id: string;
}

/**
 * Parses server-sent events from chunks of text, split anywhere. EventSource would do this, but it
 * hides the heartbeats that distinguish a silent stream from a dead one, and it gives up at the
 * first response that is not 200, as sent for a restarting server behind a proxy.
 */
export class EventParser {
  #rest = "";
  #type = "";
  #data: string[] = [];
  #id = "";

  /** Returns the events that this chunk completes. */
  push(chunk: string): StreamEvent[] {
    const text = this.#rest + chunk;
    // A final \r may be half of \r\n: keep it for the next chunk.
    const lines = (text.endsWith("\r") ? text.slice(0, -1) : text).split(/\r\n|\n|\r/);
    this.#rest = (lines.pop() ?? "") + (text.endsWith("\r") ? "\r" : "");
    const events: StreamEvent[] = [];
    for (const line of lines) {
      if (line === "") {
        // By the standard an event without data is ignored; a reset needs no data, so here its name is enough.
        if (this.#data.length > 0 || this.#type !== "") events.push({ type: this.#type || "message", data: this.#data.join("\n"), id: this.#id });
        this.#type = "";
        this.#data = [];
        continue;
      }
      this.#field(line);
    }
    return events;
  }

  #field(line: string): void {
    const colon = line.indexOf(":");
    if (colon === 0) return; // a comment: the heartbeat
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "event") this.#type = value;
    else if (name === "data") this.#data.push(value);
    else if (name === "id" && !value.includes("\0")) this.#id = value;
  }
}
