import { api } from "./api";
import { now } from "./clock";
import { formatAge, formatCount, formatTime } from "./format";
import { usePolled } from "./polled";
import type { Refusal } from "./types";

/** Reports whether a message was about an entity, by its topic or path. */
export function isAbout(refusal: Refusal, id: string): boolean {
  return refusal.where.startsWith(`e/${id}/`) || refusal.where.startsWith(`/v1/entities/${encodeURIComponent(id)}/`);
}

function Rows({ list }: { list: readonly Refusal[] }) {
  return (
    <table class="letters refusals">
      <thead>
        <tr>
          <th scope="col">When</th>
          <th scope="col">Problem</th>
          <th scope="col">Cause</th>
        </tr>
      </thead>
      <tbody>
        {list.map((refusal) => (
          <tr key={`${refusal.source} ${refusal.cause} ${refusal.where} ${refusal.client ?? ""}`}>
            <td class="letter-time" title={formatTime(refusal.last_ms, now.value)}>
              {formatAge(now.value - refusal.last_ms)}
            </td>
            <td>
              <code title={refusal.where}>{refusal.where}</code>
              <p class="refusal-detail">{refusal.detail}</p>
              {refusal.client && <span class="refusal-client">client {refusal.client}</span>}
            </td>
            <td>
              {refusal.cause.replaceAll("_", " ")}
              {refusal.count > 1 && <span class="refusal-count"> × {formatCount(refusal.count)}</span>}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** Reports whether a message came from a principal: over MQTT, the client id begins with its name. */
export function isBy(refusal: Refusal, name: string): boolean {
  return name !== "" && (refusal.client === name || refusal.client?.startsWith(`${name}/`) === true);
}

/** The most recent refused messages of an entity and a principal, or of all; nothing if there are none. */
export function Refusals({ of, by = "" }: { of?: string; by?: string }) {
  const { value } = usePolled((abort) => api.refusals(abort), 2000, [of]);
  if (!value) return null;
  const list = of === undefined ? value.recent : value.recent.filter((refusal) => isAbout(refusal, of) || isBy(refusal, by));
  if (of !== undefined && list.length === 0) return null;
  return (
    <section class="panel refused" aria-label="Refused messages">
      <header>
        <h2>Refused messages</h2>
        <span class="panel-range">{of === undefined ? `${formatCount(value.total)} in all` : "newest first"}</span>
      </header>
      {list.length === 0 ? <p class="hint">{value.total === 0 ? "None since the server started." : "None recently."}</p> : <Rows list={list.slice(0, 20)} />}
    </section>
  );
}
