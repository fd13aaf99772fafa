import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { api, describe, isAbort } from "./api";
import { formatValue } from "./format";
import { NamedList } from "./named-list";
import { poll } from "./poll";
import { formatRoute, type Route } from "./route";
import type { Property, ResolvedType, Type } from "./types";

type TypesRoute = Extract<Route, { page: "types" }>;

function typeRoute(id: string): string {
  return formatRoute({ page: "types", id });
}

function TypeLink({ id }: { id: string }) {
  return <a href={typeRoute(id)}>{id}</a>;
}

/** Describes the constraints of a schema apart from its type. */
function limits(schema: Property): string {
  const words: string[] = [];
  if (schema.min !== undefined) words.push(`from ${schema.min}`);
  if (schema.max !== undefined) words.push(`to ${schema.max}`);
  if (schema.maxLength) words.push(`up to ${schema.maxLength} bytes`);
  if (schema.values) words.push(`one of ${schema.values.map(formatValue).join(", ")}`);
  return words.join(" ");
}

function Schemas({ name, schemas, writable }: { name: string; schemas: Record<string, Property>; writable: boolean }) {
  const rows = Object.entries(schemas).sort(([a], [b]) => (a < b ? -1 : 1));
  if (rows.length === 0) return null;
  return (
    <table class="schemas">
      <thead>
        <tr>
          <th scope="col">{name}</th>
          <th scope="col">Type</th>
          <th scope="col">Unit</th>
          <th scope="col">Allowed</th>
          {writable && <th scope="col">Desired</th>}
        </tr>
      </thead>
      <tbody>
        {rows.map(([key, schema]) => (
          <tr key={key}>
            <th scope="row" title={schema.description ?? schema.name ?? key}>
              {key}
            </th>
            <td>{schema.type}</td>
            <td>{schema.unit ?? ""}</td>
            <td>{limits(schema)}</td>
            {writable && <td>{schema.writable ? "writable" : ""}</td>}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Relations({ type }: { type: ResolvedType }) {
  const rows = Object.entries(type.relations ?? {});
  if (rows.length === 0) return null;
  return (
    <table class="schemas">
      <thead>
        <tr>
          <th scope="col">Relation</th>
          <th scope="col">To</th>
          <th scope="col">At most</th>
        </tr>
      </thead>
      <tbody>
        {rows.map(([name, relation]) => (
          <tr key={name}>
            <th scope="row" title={relation.description ?? name}>
              {name}
            </th>
            <td>{relation.target && relation.target.length > 0 ? relation.target.map((id) => <TypeLink key={id} id={id} />) : "anything"}</td>
            <td>{relation.max ? relation.max : ""}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Commands({ type }: { type: ResolvedType }) {
  const rows = Object.entries(type.commands ?? {});
  if (rows.length === 0) return null;
  return (
    <table class="schemas">
      <thead>
        <tr>
          <th scope="col">Command</th>
          <th scope="col">Request</th>
          <th scope="col">Response</th>
        </tr>
      </thead>
      <tbody>
        {rows.map(([name, command]) => (
          <tr key={name}>
            <th scope="row" title={command.description ?? name}>
              {name}
            </th>
            <td>{command.request?.type ?? "none"}</td>
            <td>{command.response?.type ?? "none"}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Detail({ type }: { type: ResolvedType }) {
  const inherited = type.isA.filter((id) => id !== type.id);
  return (
    <section class="panel type" aria-label={type.id}>
      <header>
        <h2>{type.id}</h2>
        <span class="panel-range">{type.strict ? "strict: undeclared keys are refused" : "open: undeclared keys are accepted"}</span>
      </header>
      {inherited.length > 0 && (
        <p class="hint">
          Is also{" "}
          {inherited.map((id, i) => (
            <span key={id}>
              {i > 0 && ", "}
              <TypeLink id={id} />
            </span>
          ))}
          ; the tables include what it inherits.
        </p>
      )}
      <Schemas name="Property" schemas={type.properties ?? {}} writable />
      <Schemas name="Telemetry" schemas={type.telemetry ?? {}} writable={false} />
      <Relations type={type} />
      <Commands type={type} />
      <a class="panel-more" href={formatRoute({ page: "entities", search: "", filter: `type is ${JSON.stringify(type.id)}`, selected: "" })}>
        Entities of this type
      </a>
    </section>
  );
}

function Empty() {
  return (
    <section class="empty">
      <h2>No types yet</h2>
      <p>
        A type declares what its entities may contain, and data that does not match is refused. Entities need no type. Add types in Greenroom’s own format with{" "}
        <code>PUT /v1/types/&#123;id&#125;</code>, or as DTDL with <code>POST /v1/types</code>.
      </p>
    </section>
  );
}

export function TypesPage({ route }: { route: TypesRoute }) {
  const types = useSignal<readonly Type[] | null>(null);
  const detail = useSignal<ResolvedType | null>(null);
  const error = useSignal("");
  useEffect(
    () =>
      poll(async (abort) => {
        try {
          types.value = (await api.types(abort)).types;
          const id = route.id || types.value[0]?.id;
          detail.value = id === undefined ? null : await api.type(id, abort);
          error.value = "";
        } catch (thrown) {
          if (isAbort(thrown)) return;
          detail.value = null;
          error.value = describe(thrown);
        }
      }, 3000),
    [route.id],
  );
  const list = types.value;
  return (
    <main id="main" tabIndex={-1}>
      <h1 class="page-name">Types</h1>
      {error.value !== "" && <p class="problem">{error.value}</p>}
      {list?.length === 0 ? (
        <Empty />
      ) : (
        <div class="split master">
          {list && (
            <NamedList
              label="Types"
              noun="type"
              about="Extends"
              selected={detail.value?.id ?? ""}
              items={list.map(({ id, name, description, extends: parents }) => ({
                name: id,
                title: description ?? name ?? id,
                href: typeRoute(id),
                about: parents?.join(", "),
              }))}
            />
          )}
          {detail.value && <Detail type={detail.value} />}
        </div>
      )}
    </main>
  );
}
