import { now } from "./clock";
import { presenceText } from "./presence";
import type { Presence } from "./types";

/** A dot for lists: filled for online, hollow for offline, with the words as its title and accessible name. */
export function PresenceDot({ presence }: { presence: Presence }) {
  const text = presenceText(presence, now.value);
  return <i class={`presence-dot ${presence.state}`} role="img" aria-label={text} title={text} />;
}

/** The dot with the words, for the page of an entity. */
export function PresenceText({ presence }: { presence: Presence }) {
  return (
    <span class={`presence ${presence.state}`}>
      <i class={`presence-dot ${presence.state}`} aria-hidden="true" />
      {presenceText(presence, now.value)}
    </span>
  );
}
