import { useState } from "preact/hooks";
import { ask, Failure, keepLogin } from "../api";
import { Card, Time, Trouble } from "../parts/bits";
import { Logo } from "../parts/logo";
import { go } from "../router";
import type { Me } from "../types";

export function Login({ me, changed }: { me: Me; changed: () => void }) {
  const [token, setToken] = useState("");
  const [failure, setFailure] = useState<Failure | null>(null);
  const enter = (event: Event): void => {
    event.preventDefault();
    ask<{ page: string }>("POST", "/api/login", { token }).then(
      (told) => {
        keepLogin(told.page);
        setToken("");
        changed();
        if (location.hash.startsWith("#/login")) go([]);
      },
      (error: Failure) => setFailure(error),
    );
  };
  const leave = (): void => {
    const gone = (): void => {
      keepLogin(null);
      changed();
    };
    ask("POST", "/api/logout").then(gone, gone);
  };
  return (
    <div class="login">
      <Card>
        <div class="pad stack">
          <p class="login-mark"><Logo size={44} /></p>
          {me.is_logged_in ? (
            <>
              <p>You are <strong>{me.name}</strong>, until <Time at={me.expires_at} />.</p>
              <p class="dim">You may: {me.scopes.join(", ")}.</p>
              <button type="button" onClick={leave}>Log out</button>
            </>
          ) : (
            <form class="stack" onSubmit={enter}>
              <label class="field">
                <span>admin token or key</span>
                <input
                  type="password"
                  name="token"
                  autocomplete="current-password"
                  required
                  value={token}
                  onInput={(event) => setToken(event.currentTarget.value)}
                />
              </label>
              <button type="submit" class="primary">Log in</button>
              {failure && <Trouble failure={failure} />}
              <p class="dim">
                The first start of <code>pointsman serve</code> showed the admin token once;{" "}
                <code>POINTSMAN_ADMIN_TOKEN</code> sets another.{" "}
                {!me.is_login_needed && "Without a login this machine may look, and try things out."}
              </p>
            </form>
          )}
        </div>
      </Card>
    </div>
  );
}
