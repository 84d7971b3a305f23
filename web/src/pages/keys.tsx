import { useState } from "preact/hooks";
import { ask, type Failure, useLoad } from "../api";
import { count, counted, usd } from "../format";
import { Badge, Card, Command, Empty, Time, Trouble } from "../parts/bits";
import { amountsOf } from "../parts/amounts";
import { RangePicker, rangeOf } from "../parts/range";
import { href, type Route } from "../router";
import type { Budget, Cost, KeyRow, Me, Total } from "../types";

const ROLES = ["", "viewer", "operator", "auditor", "council", "admin"] as const;

function limits(key: KeyRow): string {
  const { rpm, tpm, concurrent } = key.limits;
  return [rpm && `${count(rpm)} rpm`, tpm && `${count(tpm)} tpm`, concurrent && `${concurrent} at once`].filter(Boolean).join(" · ");
}

function stateOf(key: KeyRow): [tone: "clear" | "danger" | "caution", text: string] {
  if (key.revoked_at) return ["danger", "revoked"];
  if (key.expires_at && Date.parse(key.expires_at) < Date.now()) return ["caution", "expired"];
  return ["clear", "in use"];
}

function spentBy(totals: Total[] | undefined): Map<string, number> {
  return new Map((totals ?? []).map((each) => [each.what, amountsOf(each).microusd]));
}

/** Ends a key; asks once more, in its place. */
function Revoke({ id, revoked }: { id: string; revoked: () => void }) {
  const [isAsked, setAsked] = useState(false);
  const [failure, setFailure] = useState<Failure | null>(null);
  if (failure) return <Trouble failure={failure} />;
  if (!isAsked) return <button type="button" class="small" onClick={() => setAsked(true)} aria-label={`revoke ${id}`}>revoke</button>;
  return (
    <span class="actions">
      <button type="button" class="small danger" onClick={() => void ask("DELETE", `/api/keys/${encodeURIComponent(id)}`).then(revoked, setFailure)}>
        revoke for good
      </button>
      <button type="button" class="small" onClick={() => setAsked(false)}>keep</button>
    </span>
  );
}

function text(form: FormData, name: string): string {
  return String(form.get(name) ?? "").trim();
}

function given(form: FormData): object {
  const number = (name: string): number | undefined => (text(form, name) ? Number(text(form, name)) : undefined);
  const models = text(form, "models").split(/[\s,]+/).filter(Boolean);
  const expires = text(form, "expires");
  return {
    name: text(form, "name"),
    ...(text(form, "role") ? { role: text(form, "role") } : {}),
    ...(models.length > 0 ? { allowed_models: models } : {}),
    ...(text(form, "budget") ? { budgets: [{ limit_usd: Number(text(form, "budget")), per: text(form, "per") }] } : {}),
    ...(text(form, "tenant") ? { tenant: text(form, "tenant") } : {}),
    ...(expires ? { expires_at: `${expires}T23:59:59Z` } : {}),
    limits: { rpm: number("rpm") ?? null, tpm: number("tpm") ?? null, concurrent: number("concurrent") ?? null },
  };
}

function Make({ made }: { made: () => void }) {
  const [key, setKey] = useState<{ id: string; key: string; name: string } | null>(null);
  const [failure, setFailure] = useState<Failure | null>(null);
  const send = (event: SubmitEvent): void => {
    event.preventDefault();
    const form = event.currentTarget as HTMLFormElement;
    ask<{ id: string; key: string; name: string }>("POST", "/api/keys", given(new FormData(form))).then((told) => {
      setKey(told);
      setFailure(null);
      form.reset();
      made();
    }, setFailure);
  };
  return (
    <Card title="Make a key">
      {key && (
        <div class="pad stack" role="status">
          <p><strong>{key.name}</strong>: its secret is shown here once and kept nowhere.</p>
          <Command text={key.key} />
        </div>
      )}
      {failure && <Trouble failure={failure} />}
      <form class="pad filters" onSubmit={send}>
        <label class="field"><span>name</span><input name="name" required maxLength={100} /></label>
        <label class="field">
          <span>role</span>
          <select name="role">{ROLES.map((role) => <option key={role} value={role}>{role || "calls models"}</option>)}</select>
        </label>
        <label class="field"><span>tenant</span><input name="tenant" placeholder="its own" /></label>
        <label class="field"><span>models</span><input name="models" placeholder="all" /></label>
        <label class="field"><span>budget in dollars</span><input name="budget" type="number" min="0" step="0.01" placeholder="none" /></label>
        <label class="field"><span>per</span><select name="per"><option>day</option><option>month</option></select></label>
        <label class="field"><span>requests a minute</span><input name="rpm" type="number" min="1" placeholder="any" /></label>
        <label class="field"><span>tokens a minute</span><input name="tpm" type="number" min="1" placeholder="any" /></label>
        <label class="field"><span>calls at once</span><input name="concurrent" type="number" min="1" placeholder="any" /></label>
        <label class="field"><span>last day</span><input name="expires" type="date" /></label>
        <button type="submit" class="primary">Make the key</button>
      </form>
    </Card>
  );
}

function Tenants({ keys, spent }: { keys: KeyRow[]; spent: Map<string, number> }) {
  const names = [...new Set([...keys.map((key) => key.tenant), ...spent.keys()])].filter((name) => name !== "").sort();
  if (names.length === 0) return null;
  return (
    <Card class="flush" title="Tenants">
      <table class="plain">
        <thead><tr><th scope="col">tenant</th><th scope="col" class="number">keys in use</th><th scope="col" class="number">spent</th></tr></thead>
        <tbody>
          {names.map((name) => (
            <tr key={name}>
              <td class="mono break">{name}</td>
              <td class="number">{keys.filter((key) => key.tenant === name && stateOf(key)[1] === "in use").length}</td>
              <td class="number"><a href={href(["cost"], { tenant: name })}>{usd(spent.get(name) ?? 0)}</a></td>
            </tr>
          ))}
        </tbody>
      </table>
    </Card>
  );
}

export function Keys({ me, route }: { me: Me; route: Route }) {
  const range = rangeOf(route, "30d");
  const found = useLoad<{ keys: KeyRow[] }>(me.is_admin ? "/api/keys" : null);
  const cost = useLoad<Cost>(me.is_admin ? `/api/cost?${range.query}` : null);
  const budgets = useLoad<{ budgets: Budget[] }>(me.is_admin ? "/api/budgets" : null, 15_000);
  const [isAll, setAll] = useState(false);
  if (!me.is_admin) {
    return (
      <Card>
        <Empty title="Admins make and revoke keys" command="pointsman keys list">
          <a href={href(["login"])}>Log in</a> with the admin token.
        </Empty>
      </Card>
    );
  }
  if (found.failure) return <Trouble failure={found.failure} />;
  const keys = found.value?.keys ?? [];
  const shown = isAll ? keys : keys.filter((key) => stateOf(key)[1] === "in use");
  const spent = spentBy(cost.value?.by_key);
  return (
    <>
      <div class="row">
        <label class="check"><input type="checkbox" checked={isAll} onChange={(event) => setAll(event.currentTarget.checked)} /> revoked and expired ones, too</label>
        <RangePicker route={route} range={range} />
      </div>
      <Card class="flush" title="Keys" side={<span class="dim">{counted(shown.length, "key")} · spent {range.label}</span>}>
        {found.value && shown.length === 0 && (
          <p class="dim pad">There is no key: who reaches this gateway may call models. The first key made here closes it.</p>
        )}
        {shown.length > 0 && (
          <div class="scroll">
            <table class="plain keys">
              <thead>
                <tr>
                  <th scope="col">key</th>
                  <th scope="col">may</th>
                  <th scope="col">limits</th>
                  <th scope="col" class="number">spent</th>
                  <th scope="col">state</th>
                  <th scope="col"><span class="unseen">revoke</span></th>
                </tr>
              </thead>
              <tbody>
                {shown.map((key) => {
                  const [tone, state] = stateOf(key);
                  const left = (budgets.value?.budgets ?? []).filter((each) => each.key_id === key.id);
                  return (
                    <tr key={key.id}>
                      <td><strong>{key.name}</strong><br /><span class="mono dim break">{key.id}</span>{key.tenant !== key.id && <span class="dim"> · {key.tenant}</span>}</td>
                      <td data-label="may">{key.role ?? key.scopes.join(", ")}<br /><span class="dim">{key.allowed_models === null ? "all models" : key.allowed_models.join(", ") || "no model"}</span></td>
                      <td data-label="limits">
                        {limits(key) || <span class="dim">none</span>}
                        {left.map((each) => <span key={each.name} class="dim budget-left">${each.left_usd} of ${each.limit_usd} left, per {each.per}</span>)}
                      </td>
                      <td class="number" data-label="spent"><a href={href(["cost"], { key: key.id })}>{usd(spent.get(key.id) ?? 0)}</a></td>
                      <td><Badge tone={tone}>{state}</Badge>{key.expires_at && !key.revoked_at && <span class="dim"> until <Time at={key.expires_at} /></span>}</td>
                      <td>{!key.revoked_at && <Revoke id={key.id} revoked={found.again} />}</td>
                    </tr>
                  );
                })}
              </tbody>
            </table>
          </div>
        )}
      </Card>
      {cost.failure && <Trouble failure={cost.failure} />}
      <Tenants keys={keys} spent={spentBy(cost.value?.by_tenant)} />
      <Make made={() => { found.again(); budgets.again(); }} />
    </>
  );
}
