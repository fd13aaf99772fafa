import { type Observation, observe, perSecond } from "./rate";
import type { Actor, ActorTree as ActorPage } from "./types";

/** An actor in the tree. */
export interface TreeNode {
  info: Actor;
  /** Messages per second over the last samples; undefined until there are two. */
  rate: number | undefined;
  /** Samples of its counter from the last seconds, oldest first. */
  seen: readonly Observation[];
  /** Paths of the children in the server's order; undefined if never loaded. */
  children: string[] | undefined;
  /** Whether the server has more children than it sent. */
  more: boolean;
}

/** Everything that was loaded, by path. It is immutable, so that signals notice each new version. */
export type ActorTree = ReadonlyMap<string, TreeNode>;

/** The period of rates in milliseconds: an actor with a message every three seconds shows 0.3, not 0, 0, 1. */
const rateWindow = 5_000;

function look(before: TreeNode | undefined, info: Actor, now: number): TreeNode {
  // A new incarnation at the same path has a counter of its own, which cannot be compared with the old one.
  const same = before !== undefined && before.info.pid === info.pid;
  const seen = observe(same ? before.seen : [], { at: now, count: info.handled }, rateWindow);
  const rate = perSecond(seen[0], seen[seen.length - 1] as Observation);
  return { info, rate, seen, children: before?.children, more: before?.more ?? false };
}

function forget(nodes: Map<string, TreeNode>, path: string): void {
  for (const child of nodes.get(path)?.children ?? []) forget(nodes, child);
  nodes.delete(path);
}

/** Applies a response of /v1/actors: updates the actor and its children, and removes children that are gone. */
export function merge(tree: ActorTree, page: ActorPage): ActorTree {
  const nodes = new Map(tree);
  const { actor, children, now_ms: now } = page;
  const paths = children.map((child) => child.path);
  const before = nodes.get(actor.path);
  const present = new Set(paths);
  for (const old of before?.children ?? []) if (!present.has(old)) forget(nodes, old);
  for (const child of children) nodes.set(child.path, look(nodes.get(child.path), child, now));
  nodes.set(actor.path, { ...look(before, actor, now), children: paths, more: page.more });
  return nodes;
}

/** Removes an actor that the server no longer has, with its descendants. */
export function remove(tree: ActorTree, path: string): ActorTree {
  const nodes = new Map(tree);
  forget(nodes, path);
  for (const [parent, node] of nodes) {
    if (node.children?.includes(path)) nodes.set(parent, { ...node, children: node.children.filter((child) => child !== path) });
  }
  return nodes;
}

/** One visible line of the tree. */
export interface TreeRow {
  path: string;
  name: string;
  level: number;
  node: TreeNode;
  expanded: boolean;
  /** Its position among its siblings, from 1, and their number, for screen readers. */
  place: number;
  siblings: number;
  /** Whether it matches the search itself, not only a descendant. */
  match: boolean;
}

export function nameOf(path: string): string {
  return path === "/" ? "/" : path.slice(path.lastIndexOf("/") + 1);
}

/**
 * The lines to show, top to bottom. During a search, the matching actors and the path to
 * them are shown whatever is collapsed; type and path are searched, case-insensitive.
 */
export function visibleRows(tree: ActorTree, expanded: ReadonlySet<string>, search: string): TreeRow[] {
  const wanted = search.trim().toLowerCase();
  const matches = (node: TreeNode): boolean =>
    node.info.path.toLowerCase().includes(wanted) || node.info.type.toLowerCase().includes(wanted);
  const walk = (path: string, level: number, place: number, siblings: number): TreeRow[] => {
    const node = tree.get(path);
    if (!node) return [];
    const paths = node.children ?? [];
    const open = wanted === "" ? expanded.has(path) : true;
    const below = open ? paths.flatMap((child, i) => walk(child, level + 1, i + 1, paths.length)) : [];
    const match = wanted === "" || matches(node);
    if (!match && below.length === 0) return [];
    const row: TreeRow = { path, name: nameOf(path), level, node, expanded: below.length > 0, place, siblings, match };
    return [row, ...below];
  };
  return walk("/", 1, 1, 1);
}

/** Branches whose children were never loaded, nearest to the root first. */
export function unloaded(tree: ActorTree): string[] {
  return [...tree.values()]
    .filter((node) => node.children === undefined && node.info.children > 0)
    .map((node) => node.info.path)
    .sort((a, b) => a.split("/").length - b.split("/").length || (a < b ? -1 : 1));
}
