import { type Convention, type Device, type Place, login, ownFilter, publish } from "./connect";
import type { Json } from "./json";
import type { ReadyTemplate, Template, TemplateBody } from "./types";

const placeholder = /\{(\w+)\}/g;

/** The values of the placeholders of a template for an entity; null if the template cannot be for this entity. */
function filledBy(body: TemplateBody, entity: string): Record<string, string> | null {
  const escaped = (body.entity ?? "{id}").replace(/[.*+?^$()|[\]\\]/g, "\\$&");
  const match = new RegExp(`^${escaped.replace(placeholder, "(?<$1>[^/+#]+?)")}$`).exec(entity);
  return match && { ...match.groups };
}

/** A topic that the template accepts for an entity. Placeholders unrelated to the entity are as in the example, or 1. */
export function templateTopic(body: TemplateBody, entity: string, example = ""): string | null {
  const filled = filledBy(body, entity);
  if (!filled) return null;
  const levels = example.split("/");
  return body.topic
    .split("/")
    .map((level, at) => {
      const name = /^\{(\w+)\}$/.exec(level)?.[1];
      if (name === undefined && level !== "+") return level;
      return (name !== undefined ? filled[name] : undefined) ?? levels[at] ?? "1";
    })
    .join("/");
}

/** Sets a nested member of an object. The path has at least one name. */
function setMember(object: Record<string, Json>, path: readonly string[]): void {
  let at = object;
  for (const name of path.slice(0, -1)) {
    const inner = at[name];
    at = at[name] = typeof inner === "object" && inner !== null && !Array.isArray(inner) ? (inner as Record<string, Json>) : {};
  }
  at[path.at(-1) ?? ""] = 21.5;
}

/** A message that a template is likely to accept, as a starting point. */
export function templateMessage(body: TemplateBody): string {
  if (body.payload === "text") return "21.5";
  const message: Record<string, Json> = {};
  for (const expression of Object.values(body.values ?? {})) {
    const path = /[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*/.exec(expression)?.[0];
    if (path !== undefined) setMember(message, path.split("."));
  }
  if (body.members !== undefined) setMember(message, [...body.members.split(".").slice(0, -1), "temperature"]);
  return JSON.stringify(message);
}

/** A template as a convention for devices, with a message that can be edited. */
export interface TemplateConvention extends Convention {
  template: Template;
  /** The topic for an entity that the template can be for. */
  topic: (entity: string) => string;
  message: string;
}

/** The templates that can write to an entity. */
export function templateConventions(templates: readonly Template[], ready: readonly ReadyTemplate[]): TemplateConvention[] {
  return templates
    .filter(({ template, problem }) => template.into !== "nothing" && problem === undefined)
    .map((each) => {
      const known = ready.find(({ template }) => template.topic === each.template.topic);
      const topic = (entity: string): string | null => templateTopic(each.template, entity, known?.topic);
      return {
        id: `template ${each.name}`,
        name: each.name,
        about: each.template.topic,
        template: each,
        topic: (entity) => topic(entity) ?? "",
        message: known?.payload ?? templateMessage(each.template),
        problem: (entity) => (topic(entity) === null ? `The id must match ${each.template.entity ?? "{id}"}, without / + or #.` : ""),
        filter: ownFilter,
        commands: () => [],
      };
    });
}

/** The command that sends a message for a template. */
export function publishTemplate(convention: TemplateConvention, device: Device, place: Place, message: string): string {
  return publish(place, login(device), convention.topic(device.entity), message);
}
