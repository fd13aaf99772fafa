import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { api, describe } from "./api";
import type { Ways } from "./types";

/** Asks for a token, or a name and a password, instead of any page. */
export function LoginPage() {
  const secret = useSignal("");
  const name = useSignal("");
  const error = useSignal("");
  const busy = useSignal(false);
  const ways = useSignal<Ways>({});
  useEffect(() => {
    // Without a response only the token form is offered, and it shows the error.
    api.ways().then(
      (found) => (ways.value = found),
      () => undefined,
    );
  }, []);
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    busy.value = true;
    error.value = "";
    try {
      await api.login(name.value === "" ? { token: secret.value } : { name: name.value, password: secret.value });
      location.reload(); // nothing of before stays
    } catch (thrown) {
      error.value = describe(thrown);
      busy.value = false;
    }
  };
  return (
    <main id="main" class="page login" tabIndex={-1}>
      <form class="card" aria-label="Log in" onSubmit={(event) => void submit(event)}>
        <h1>Log in</h1>
        {ways.value.oidc !== undefined && (
          <p>
            <a class="button" href={ways.value.oidc}>
              Log in with {ways.value.provider}
            </a>
          </p>
        )}
        <label>
          <span>Name (only with a password)</span>
          <input type="text" autocomplete="username" spellcheck={false} value={name.value} onInput={(e) => (name.value = e.currentTarget.value)} />
        </label>
        <label>
          <span>{name.value === "" ? "Token" : "Password"}</span>
          <input
            type="password"
            autocomplete="current-password"
            required
            value={secret.value}
            onInput={(e) => (secret.value = e.currentTarget.value)}
          />
        </label>
        <p role="alert">{error.value}</p>
        <button type="submit" disabled={busy.value || secret.value === ""}>
          Log in
        </button>
      </form>
    </main>
  );
}
