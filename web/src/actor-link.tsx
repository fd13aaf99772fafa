import { actorRoute, pathOfPID } from "./route";

/** The path of an actor, which leads to its page; the whole PID is its title. */
export function ActorLink({ pid }: { pid: string }) {
  return (
    <a class="actor-link" href={actorRoute(pid)} title={pid}>
      <code>{pathOfPID(pid)}</code>
    </a>
  );
}
