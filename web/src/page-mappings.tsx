import { Age } from "./age";
import { api } from "./api";
import { now } from "./clock";
import { formatCount, formatLatency, formatTime } from "./format";
import { NamedList } from "./named-list";
import { usePolled } from "./polled";
import { entityRoute, formatRoute, type Route } from "./route";
import { Tile } from "./tile";
import type { MappedField, MappedSource, Mapping, MappingList } from "./types";
import { ValueView } from "./value-view";

type MappingsRoute = Extract<Route, { page: "mappings" }>;

function Numbers({ stats }: { stats: MappingList["stats"] }) {
  return (
    <dl class="tiles" aria-label="Overview">
      <Tile label="Mappings" value={formatCount(stats.mappings)} />
      <Tile label="Evaluations" value={formatCount(stats.evaluations)} />
      <Tile label="Values computed" value={formatCount(stats.values)} />
      <Tile label="Failures" value={formatCount(stats.failures)} alarm={stats.failures > 0} />
      <Tile label="Waiting" value={formatCount(stats.waiting)} />
      <Tile label="Lag" value={stats.lag_ms > 0 ? formatLatency(stats.lag_ms) : "none"} alarm={stats.lag_ms >= 5000} />
    </dl>
  );
}

function StateWord({ state }: { state: string }) {
  return <span class={state === "active" ? "mapping-state" : `mapping-state ${state}`}>{state}</span>;
}

/** Describes the members of a source and the mappings that compute it. */
function sourceNotes(source: MappedSource): string {
  const notes: string[] = [];
  if (source.members > 0) notes.push(`${formatCount(source.members)} members${source.some ? `: ${source.some.join(", ")}` : ""}`);
  if (source.readings > 0) notes.push(`${formatCount(source.readings)} readings`);
  if (source.mappings?.length) notes.push(`computed by ${source.mappings.join(", ")}`);
  return notes.join("; ");
}

function Sources({ sources }: { sources: readonly MappedSource[] }) {
  return (
    <table class="sources">
      <thead>
        <tr>
          <th scope="col">Source</th>
          <th scope="col">Value</th>
          <th scope="col" class="cell-age">
            Age
          </th>
        </tr>
      </thead>
      <tbody>
        {sources.map((source) => (
          <tr key={source.source}>
            <th scope="row">
              <code>{source.source}</code>
              {sourceNotes(source) !== "" && <p class="hint">{sourceNotes(source)}</p>}
            </th>
            <td>{source.value === undefined ? <span class="value-more">none</span> : <ValueView value={source.value} />}</td>
            <td class="cell-age">{source.ts !== undefined && <Age ts={source.ts} />}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Field({ field }: { field: MappedField }) {
  return (
    <section class="field" aria-label={field.as}>
      <header>
        <h3>{field.as}</h3>
        <StateWord state={field.state} />
        {field.value !== undefined && <ValueView value={field.value} />}
        {field.ts !== undefined && <Age ts={field.ts} />}
        <span class="panel-range">
          {formatCount(field.evaluations)} evaluations, {formatCount(field.failures)} failed
        </span>
      </header>
      <pre class="expression">{field.expression}</pre>
      {field.failure && (
        <p class="failure-text">
          {field.failure}
          {field.failure_ts !== undefined && ` (${formatTime(field.failure_ts, now.value)})`}
        </p>
      )}
      {field.sources.length > 0 && <Sources sources={field.sources} />}
    </section>
  );
}

function Detail({ mapping }: { mapping: Mapping }) {
  return (
    <section class="panel mapping" aria-label={mapping.name}>
      <header>
        <h2>{mapping.name}</h2>
        <StateWord state={mapping.state} />
        <span class="panel-range">changed {formatTime(mapping.updated_ms, now.value)}</span>
      </header>
      <pre class="expression">{mapping.text}</pre>
      {mapping.problem && <p class="problem">{mapping.problem}</p>}
      {mapping.refusal && (
        <p class="problem">
          {formatCount(mapping.refusals)} refused: {mapping.refusal}
        </p>
      )}
      {mapping.fields?.map((field) => <Field key={field.as} field={field} />)}
    </section>
  );
}

function Empty() {
  return (
    <section class="empty">
      <h2>No mappings yet</h2>
      <p>
        A mapping continuously computes values of one entity from values of others. Send one as text to <code>PUT /v1/mappings/NAME</code>, for
        example:
      </p>
      <pre class="expression">insert into floor select avg(r.temperature) as temperature from like 'room-%' as r</pre>
    </section>
  );
}

export function MappingsPage({ route }: { route: MappingsRoute }) {
  const { value: list, error } = usePolled((abort) => api.mappings(abort), 1000, []);
  const { mappings, stats } = list ?? {};
  const name = route.id || mappings?.[0]?.name;
  const one = usePolled(async (abort) => (name === undefined ? null : api.mapping(name, abort)), 1000, [name]);
  const detail = one.value?.name === name && one.error === "" ? one.value : null; // not what another address showed
  const problem = error || one.error;
  return (
    <main id="main" tabIndex={-1}>
      <h1 class="page-name">Mappings</h1>
      {problem !== "" && <p class="problem">{problem}</p>}
      {mappings?.length === 0 && problem === "" ? (
        <Empty />
      ) : (
        <>
          {stats && <Numbers stats={stats} />}
          <div class="split master">
            {mappings && (
              <NamedList
                label="Mappings"
                noun="mapping"
                about="Into"
                states
                selected={detail?.name ?? ""}
                items={mappings.map(({ name, into, state }) => ({
                  name,
                  href: formatRoute({ page: "mappings", id: name }),
                  about: <a href={entityRoute(into)}>{into}</a>,
                  state: <StateWord state={state} />,
                }))}
              />
            )}
            {detail && <Detail mapping={detail} />}
          </div>
        </>
      )}
    </main>
  );
}
