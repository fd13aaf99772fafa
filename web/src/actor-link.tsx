import { actorRoute, pathOfPID } from "./route";

/** The path of an actor as a link to its page, with the whole PID as the title. */
export function ActorLink({ pid }: { pid: string }) {
  return (
    <a class="actor-link" href={actorRoute(pid)} title={pid}>
      <code>{pathOfPID(pid)}</code>
    </a>
  );
}
