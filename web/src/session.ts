import { signal } from "@preact/signals";
import type { Caller } from "./types";

/** Whether the server asks who comes, and does not know us. */
export const loggedOut = signal(false);

/** Who we are; null until the server has said it. */
export const caller = signal<Caller | null>(null);

/** Whether we may manage who may do what, and so devices' credentials. */
export function mayManage(): boolean {
  return caller.value?.all.includes("manage") ?? false;
}
