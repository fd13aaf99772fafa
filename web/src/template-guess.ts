import type { TemplateBody } from "./types";

/** A template to begin with for a message: its second level, or else its first, is the entity. */
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
