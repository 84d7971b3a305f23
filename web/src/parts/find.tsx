/** One field that finds a turn by any of its ids, a session by its name, or turns by their exact message. */
import { useRef } from "preact/hooks";
import { ask } from "../api";
import { useKeys } from "../keys";
import { go } from "../router";
import type { Turn, Turns } from "../types";

async function find(wanted: string): Promise<void> {
  const turn = await ask<Turn>("GET", `/api/turns/${encodeURIComponent(wanted)}`).catch(() => null);
  if (turn) return go(["turns", turn.turn_id]);
  const query = new URLSearchParams({ session: wanted, limit: "1" });
  const session = await ask<Turns>("GET", `/api/turns?${query}`).catch(() => null);
  if (session && session.turns.length > 0) return go(["sessions", wanted]);
  return go(["turns"], { text: wanted });
}

export function Find() {
  const field = useRef<HTMLInputElement>(null);
  useKeys({ f: () => field.current?.focus() });
  return (
    <form
      class="find"
      role="search"
      aria-label="find a turn or session"
      onSubmit={(event) => {
        event.preventDefault();
        const wanted = field.current?.value.trim() ?? "";
        if (wanted) void find(wanted);
      }}
    >
      <input ref={field} type="search" name="find" placeholder="turn, session or message" aria-label="find" />
    </form>
  );
}
