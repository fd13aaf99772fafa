import { formatRoute, type Route } from "./route";
import { caller, mayManage } from "./session";

type Part = Extract<Route["page"], "access" | "connect" | "provisioning" | "claims">;

const parts: readonly { name: string; page: Part; href: string }[] = [
  { name: "Tokens", page: "access", href: formatRoute({ page: "access" }) },
  { name: "Connect a device", page: "connect", href: formatRoute({ page: "connect", entity: "", convention: "" }) },
  { name: "Provision keys", page: "provisioning", href: formatRoute({ page: "provisioning", key: "" }) },
  { name: "Claims", page: "claims", href: formatRoute({ page: "claims" }) },
];

/** The pages about access and about how devices are added. Without the right to manage, only that of claims. */
export function AccessNav({ current }: { current: Part }) {
  if (caller.value !== null && !mayManage()) return null;
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
