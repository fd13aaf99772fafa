import type { TemplateBody } from "./types";

/** A template as a starting point for a message. The entity is the second level of the topic, or else the first. */
export function guessTemplate(topic: string, payload: string): TemplateBody {
  const levels = topic.split("/");
  const at = levels.length > 1 ? 1 : 0;
  levels[at] = "{id}";
  const body: TemplateBody = { topic: levels.join("/") };
  if (/^\s*\{/.test(payload)) return { ...body, members: "*" };
  if (/^\s*\[/.test(payload)) return { ...body, values: { first: "`0`" } };
  const key = (topic.split("/")[levels.length > 2 ? levels.length - 1 : 0] ?? "").replace(/[{}]/g, "_");
  return { ...body, payload: "text", values: { [key === "" ? "value" : key]: "value" } };
}
