/** Providers and models as they stand; what is out has its cause, and a button that ends it. */
import { useState } from "preact/hooks";
import { ask, type Failure } from "../api";
import { span, words } from "../format";
import { href } from "../router";
import type { Providers } from "../types";
import { Model, Time, Trouble } from "./bits";

type Row = Providers["rows"][number];

function when(row: Row): string {
  if (row.state === "healthy") return "healthy";
  if (row.state === "half_open") return "one turn may try it";
  return row.clears_in_s === null ? "until it answers" : `clears in ${span(row.clears_in_s)}`;
}

export function Outages({ providers, changed, isWhole = false }: { providers: Providers; changed: () => void; isWhole?: boolean }) {
  const [failure, setFailure] = useState<Failure | null>(null);
  const clear = (name: string): void => {
    ask("POST", "/api/providers/clear", { name }).then(() => {
      setFailure(null);
      changed();
    }, setFailure);
  };
  const rows = providers.rows.filter((row) => isWhole || row.model === "*" || row.state !== "healthy");
  if (rows.length === 0) {
    return (
      <p class="dim pad">
        No provider is configured: the embedded model answers. <a href={href(["help", "guide/gateway.md"])}>Add one</a>.
      </p>
    );
  }
  return (
    <>
      {failure && <Trouble failure={failure} />}
      <ul class="providers">
        {rows.map((row) => {
          const limit = providers.limits.find((each) => each.provider === row.provider && row.model === "*");
          const name = row.model === "*" ? row.provider : row.model;
          return (
            <li key={row.provider + row.model} class={row.state}>
              <span class={`lamp ${row.state}`} aria-hidden="true" />
              <span>
                {row.model === "*" ? row.provider : <Model name={row.model} />}{" "}
                <span class="unseen">{words(row.state)}</span>
                {row.why && <span class="cause">{row.why}</span>}
                {isWhole && row.since && <span class="dim"> since <Time at={row.since} /></span>}
              </span>
              <span class="dim ends">
                {when(row)}
                {limit?.rpm != null && ` · ${limit.requests_left}/${limit.rpm} rpm`}
                {limit?.tpm != null && isWhole && ` · ${limit.tokens_left}/${limit.tpm} tpm`}
                {row.state !== "healthy" && (
                  <button type="button" class="small" onClick={() => clear(name)} aria-label={`clear the outage of ${name}`}>
                    clear
                  </button>
                )}
              </span>
            </li>
          );
        })}
      </ul>
    </>
  );
}
