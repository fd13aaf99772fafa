import { signal } from "@preact/signals";
import type { Caller } from "./types";

/** Whether the server requires a login and we are not logged in. */
export const loggedOut = signal(false);

/** The principal that is logged in; null until the server has answered. */
export const caller = signal<Caller | null>(null);

/** Whether we may manage access, including the credentials of devices. */
export function mayManage(): boolean {
  return caller.value?.all.includes("manage") ?? false;
}
