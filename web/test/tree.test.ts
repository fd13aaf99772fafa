import assert from "node:assert/strict";
import { test } from "node:test";
import { observe, perSecond } from "../src/rate";
import { type ActorTree, merge, nameOf, remove, unloaded, visibleRows } from "../src/tree";
import type { Actor } from "../src/types";

function actor(path: string, more: Partial<Actor> = {}): Actor {
  return { path, pid: `${path}#1`, type: "t", state: "running", activity: "idle", attached: true, mailbox: 0, handled: 0, restarts: 0, children: 0, ...more };
}

function grown(): ActorTree {
  const root = merge(new Map(), { actor: actor("/", { children: 2 }), children: [actor("/a", { children: 2 }), actor("/b", { children: 1 })], more: false, now_ms: 0 });
  return merge(root, { actor: actor("/a", { children: 2 }), children: [actor("/a/x"), actor("/a/y", { type: "Pump" })], more: false, now_ms: 0 });
}

test("a rate is the growth by time, and nothing when the counter began anew", () => {
  assert.equal(perSecond({ at: 0, count: 10 }, { at: 2000, count: 30 }), 10);
  assert.equal(perSecond(undefined, { at: 0, count: 1 }), undefined);
  assert.equal(perSecond({ at: 5, count: 1 }, { at: 5, count: 2 }), undefined);
  assert.equal(perSecond({ at: 0, count: 9 }, { at: 1, count: 2 }), undefined);
});

test("observations cover the window and no more than one before it", () => {
  let past = observe([], { at: 0, count: 0 }, 5000);
  for (let s = 1; s <= 20; s++) past = observe(past, { at: s * 1000, count: s * 3 }, 5000);
  assert.deepEqual(
    past.map(({ at }) => at),
    [15_000, 16_000, 17_000, 18_000, 19_000, 20_000],
  );
  assert.deepEqual(observe(past, { at: 21_000, count: 1 }, 5000), [{ at: 21_000, count: 1 }]);
});

test("two looks make a rate, a new life of the actor makes none", () => {
  let tree = merge(new Map(), { actor: actor("/", { handled: 10 }), children: [actor("/a", { handled: 5 })], more: false, now_ms: 1000 });
  assert.equal(tree.get("/")?.rate, undefined);
  tree = merge(tree, { actor: actor("/", { handled: 30 }), children: [actor("/a", { handled: 9, pid: "/a#2" })], more: false, now_ms: 3000 });
  assert.equal(tree.get("/")?.rate, 10);
  assert.equal(tree.get("/a")?.rate, undefined);
});

test("an actor seen in its parent's answer and in its own within a second keeps its rate", () => {
  let tree = merge(new Map(), { actor: actor("/"), children: [actor("/a", { handled: 0 })], more: false, now_ms: 0 });
  tree = merge(tree, { actor: actor("/"), children: [actor("/a", { handled: 20 })], more: false, now_ms: 1000 });
  tree = merge(tree, { actor: actor("/a", { handled: 20 }), children: [], more: false, now_ms: 1000 });
  assert.equal(tree.get("/a")?.rate, 20);
});

test("a new answer forgets the children that are gone, with all below them", () => {
  const tree = merge(grown(), { actor: actor("/", { children: 1 }), children: [actor("/b", { children: 1 })], more: false, now_ms: 1 });
  assert.deepEqual([...tree.keys()].sort(), ["/", "/b"]);
});

test("the children of a branch survive an answer that only mentions the branch", () => {
  const tree = merge(grown(), {
    actor: actor("/", { children: 2 }),
    children: [actor("/a", { children: 2 }), actor("/b", { children: 1 })],
    more: false,
    now_ms: 1,
  });
  assert.deepEqual(tree.get("/a")?.children, ["/a/x", "/a/y"]);
});

test("a stopped actor leaves its parent", () => {
  const tree = remove(grown(), "/a");
  assert.deepEqual([...tree.keys()].sort(), ["/", "/b"]);
  assert.deepEqual(tree.get("/")?.children, ["/b"]);
});

test("only what is expanded is shown", () => {
  const paths = (open: string[]): string[] => visibleRows(grown(), new Set(open), "").map((row) => row.path);
  assert.deepEqual(paths([]), ["/"]);
  assert.deepEqual(paths(["/"]), ["/", "/a", "/b"]);
  assert.deepEqual(paths(["/", "/a"]), ["/", "/a", "/a/x", "/a/y", "/b"]);
});

test("a search shows matches and the way to them, whatever is collapsed", () => {
  const rows = visibleRows(grown(), new Set(), "pump");
  assert.deepEqual(
    rows.map((row) => [row.path, row.match, row.level]),
    [
      ["/", false, 1],
      ["/a", false, 2],
      ["/a/y", true, 3],
    ],
  );
  assert.deepEqual([rows[2]?.place, rows[2]?.siblings], [2, 2]);
});

test("branches that were never loaded are found, nearest first", () => {
  assert.deepEqual(unloaded(grown()), ["/b"]);
  assert.equal(nameOf("/a/x"), "x");
  assert.equal(nameOf("/"), "/");
});
