import { formatAge, formatTime } from "./format";
import type { Presence, PresenceEvent } from "./types";

/** A presence in words: "online since …", "offline, last seen …". */
export function presenceText(presence: Presence, nowMs: number): string {
  switch (presence.state) {
    case "online":
      return `online since ${formatTime(presence.since_ms ?? 0, nowMs)}${presence.connected ? ", connected" : ""}`;
    case "offline":
      return presence.seen_ms ? `offline, last seen ${formatAge(nowMs - presence.seen_ms)} ago` : `offline since ${formatTime(presence.since_ms ?? 0, nowMs)}`;
    default:
      return "never seen";
  }
}

/** Applies an event to an entity. An event older than the fetched entity has no effect. */
export function applyPresence<T extends { presence: Presence }>(entity: T, event: PresenceEvent): T {
  if ((event.presence.since_ms ?? 0) < (entity.presence.since_ms ?? 0)) return entity;
  return { ...entity, presence: event.presence };
}
