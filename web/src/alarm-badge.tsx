import { api } from "./api";
import { usePolled } from "./polled";

/** The most alarms that are counted; more are "99+". */
const most = 99;

/** The number of open alarms that are neither acknowledged nor shelved, beside the name of their page. */
export function AlarmBadge() {
  const query = { state: "raised", acknowledged: "false", shelved: "false", limit: most + 1 };
  const { value } = usePolled((abort) => api.alarms(query, abort), 3000, []);
  const count = value?.alarms.length ?? 0;
  if (count === 0) return null;
  const text = count > most ? `${most}+` : String(count);
  return (
    <span class="badge" aria-label={`${text} not acknowledged`}>
      {text}
    </span>
  );
}
