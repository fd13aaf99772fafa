import assert from "node:assert/strict";
import { test } from "node:test";
import { backoff } from "../src/backoff";
import { EventParser } from "../src/sse";
import { Stream } from "../src/stream";
import type { Change } from "../src/types";

test("events are found wherever the chunks are cut", () => {
  const text = ': hi\r\n\r\nid: 7\nevent: change\ndata: {"a":1}\n\nid: 8\r\nevent: change\r\ndata: x\r\ndata: y\r\n\r\n';
  for (let size = 1; size <= text.length; size++) {
    const parser = new EventParser();
    const events = [];
    for (let at = 0; at < text.length; at += size) events.push(...parser.push(text.slice(at, at + size)));
    assert.deepEqual(
      events,
      [
        { type: "change", data: '{"a":1}', id: "7" },
        { type: "change", data: "x\ny", id: "8" },
      ],
      `cut each ${size}`,
    );
  }
});

test("an event without id keeps the last one, comments are nothing", () => {
  const parser = new EventParser();
  assert.deepEqual(parser.push(": alive\n\nid: 3\ndata: a\n\ndata: b\n\n"), [
    { type: "message", data: "a", id: "3" },
    { type: "message", data: "b", id: "3" },
  ]);
  assert.deepEqual(parser.push("event: reset\n\n"), [{ type: "reset", data: "", id: "3" }]);
});

test("pauses double up to a limit and are spread", () => {
  assert.deepEqual([1, 2, 3, 4, 5, 6, 60].map((n) => backoff(n, 0)), [500, 1000, 2000, 4000, 8000, 15_000, 15_000]);
  assert.equal(backoff(60, 0.999), 11_254);
});

/** A stream in a world where nothing happens unless the test says so. */
class World {
  readonly requests: { url: string; signal: AbortSignal; answer: (response: Response) => void }[] = [];
  readonly timers = new Map<number, { run: () => void; ms: number }>();
  readonly changes: Change[] = [];
  gaps = 0;
  #ids = 0;
  #body: ReadableStreamDefaultController<Uint8Array> | undefined;

  readonly stream = new Stream({
    fetch: (url, init) =>
      new Promise((resolve, reject) => {
        const signal = init.signal as AbortSignal;
        signal.addEventListener("abort", () => reject(new DOMException("aborted", "AbortError")));
        this.requests.push({ url, signal, answer: resolve });
      }),
    setTimeout: (run, ms) => {
      this.timers.set(++this.#ids, { run, ms });
      return this.#ids;
    },
    clearTimeout: (timer) => void this.timers.delete(timer as number),
    random: () => 0,
    now: () => 0,
  });

  watch(entities: string[] | null = null): () => void {
    return this.stream.watch({ entities, onChange: (change) => this.changes.push(change), onGap: () => this.gaps++ });
  }

  get last() {
    return this.requests[this.requests.length - 1] as (typeof this.requests)[number];
  }

  async open(): Promise<void> {
    const body = new ReadableStream<Uint8Array>({ start: (controller) => void (this.#body = controller) });
    this.last.answer(new Response(body, { status: 200 }));
    await this.settle();
  }

  async send(text: string): Promise<void> {
    this.#body?.enqueue(new TextEncoder().encode(text));
    await this.settle();
  }

  async end(): Promise<void> {
    this.#body?.close();
    await this.settle();
  }

  async refuse(status: number): Promise<void> {
    this.last.answer(new Response("", { status }));
    await this.settle();
  }

  /** Lets the one timer that is set go off, and tells how long it was. */
  async fire(): Promise<number> {
    assert.equal(this.timers.size, 1);
    const [id, { run, ms }] = [...this.timers][0] as [number, { run: () => void; ms: number }];
    this.timers.delete(id);
    run();
    await this.settle();
    return ms;
  }

  /** Waits until all that was begun has happened: promises and the readers of streams need several turns. */
  async settle(): Promise<void> {
    for (let i = 0; i < 10; i++) await new Promise((resolve) => setImmediate(resolve));
  }
}

const change = (id: number, entity = "a"): string => `id: ${id}\nevent: change\ndata: {"entity":"${entity}","ts":${id},"values":{"x":1},"committed_ms":1}\n\n`;

test("the first connection asks for a fetch, then delivers changes", async () => {
  const world = new World();
  world.watch();
  await world.settle();
  assert.equal(world.last.url, "v1/stream?kinds=readings,presence");
  assert.equal(world.stream.status.value, "connecting");
  await world.open();
  assert.equal(world.stream.status.value, "live");
  assert.equal(world.gaps, 1);
  await world.send(change(1) + change(2));
  assert.deepEqual(
    world.changes.map(({ ts }) => ts),
    [1, 2],
  );
});

test("a broken connection resumes at the cursor after a pause, without a fetch", async () => {
  const world = new World();
  world.watch();
  await world.settle();
  await world.open();
  await world.send(change(41));
  await world.end();
  assert.equal(world.stream.status.value, "lost");
  assert.equal(await world.fire(), 500);
  assert.equal(world.last.url, "v1/stream?kinds=readings,presence&cursor=41");
  await world.open();
  assert.equal(world.gaps, 1, "nothing was missed");
  assert.equal(world.stream.status.value, "live");
});

test("pauses grow while the server refuses and begin anew after a success", async () => {
  const world = new World();
  world.watch();
  await world.settle();
  const pauses: number[] = [];
  for (let i = 0; i < 3; i++) {
    await world.refuse(503);
    pauses.push(await world.fire());
  }
  assert.deepEqual(pauses, [500, 1000, 2000]);
  await world.open();
  await world.end();
  assert.equal(await world.fire(), 500);
});

test("a reset asks for a fetch and goes on from its cursor", async () => {
  const world = new World();
  world.watch();
  await world.settle();
  await world.open();
  await world.send("id: 900\nevent: reset\ndata: {}\n\n");
  assert.equal(world.gaps, 2);
  await world.end();
  await world.fire();
  assert.equal(world.last.url, "v1/stream?kinds=readings,presence&cursor=900");
});

test("a cursor that the server refuses is dropped", async () => {
  const world = new World();
  world.watch();
  await world.settle();
  await world.open();
  await world.send(change(5));
  await world.end();
  await world.fire();
  await world.refuse(400);
  await world.fire();
  assert.equal(world.last.url, "v1/stream?kinds=readings,presence");
  await world.open();
  assert.equal(world.gaps, 2);
});

test("a silent connection is given up, a heartbeat keeps it", async () => {
  const world = new World();
  world.watch();
  await world.settle();
  await world.open();
  await world.send(": alive\n\n");
  assert.equal(world.stream.status.value, "live");
  const before = world.last;
  assert.equal(await world.fire(), 40_000);
  assert.ok(before.signal.aborted);
  assert.equal(world.stream.status.value, "lost");
});

test("watches share one connection, and another wish changes it from where it was", async () => {
  const world = new World();
  const unwatch = world.watch(["b", "a"]);
  world.watch(["a"]);
  await world.settle();
  assert.equal(world.requests.length, 1);
  assert.equal(world.last.url, "v1/stream?kinds=readings,presence&entity=a&entity=b");
  await world.open();
  await world.send(change(3, "a"));
  assert.equal(world.changes.length, 2, "each watch gets it");
  unwatch();
  await world.settle();
  assert.equal(world.last.url, "v1/stream?kinds=readings,presence&entity=a&cursor=3");
  assert.ok(world.requests[0]?.signal.aborted);
});

test("a hidden page has no connection and catches up by cursor", async () => {
  const world = new World();
  world.watch();
  await world.settle();
  await world.open();
  await world.send(change(8));
  world.stream.setVisible(false);
  await world.settle();
  assert.equal(world.stream.status.value, "paused");
  assert.ok(world.last.signal.aborted);
  assert.equal(world.timers.size, 0);
  world.stream.setVisible(true);
  await world.settle();
  assert.equal(world.last.url, "v1/stream?kinds=readings,presence&cursor=8");
});

test("the person may try before the pause is over", async () => {
  const world = new World();
  world.watch();
  await world.settle();
  await world.refuse(502);
  world.stream.retry();
  await world.settle();
  assert.equal(world.requests.length, 2);
});

test("when nobody watches there is no connection", async () => {
  const world = new World();
  const unwatch = world.watch();
  await world.settle();
  await world.open();
  unwatch();
  await world.settle();
  assert.equal(world.stream.status.value, "off");
  assert.ok(world.last.signal.aborted);
  assert.equal(world.timers.size, 0);
});
