import { formatRoute, type Route } from "./route";

type Part = Extract<Route["page"], "access" | "connect">;

const parts: readonly { name: string; page: Part; href: string }[] = [
  { name: "Tokens", page: "access", href: formatRoute({ page: "access" }) },
  { name: "Connect a device", page: "connect", href: formatRoute({ page: "connect", entity: "", convention: "" }) },
];

/** The pages of who may do what, and of how devices come to be known. */
export function AccessNav({ current }: { current: Part }) {
  return (
    <nav class="parts" aria-label="Access">
      {parts.map(({ name, page, href }) => (
        <a key={page} href={href} {...(page === current ? { "aria-current": "page" } : {})}>
          {name}
        </a>
      ))}
    </nav>
  );
}
