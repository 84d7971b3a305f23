import { useState } from "preact/hooks";
import { Failure, send, useLoad } from "../api";
import { Badge, Card, Command, Model, Time, Trouble } from "../parts/bits";
import { download } from "../parts/download";
import { go, href, type Route } from "../router";
import type { Turns } from "../types";

const WAYS = [
  ["full", "everything", "facts, policy and text"],
  ["redacted", "what decided", "the rest as salted commitments"],
  ["minimal", "the outcome alone", "which model, when, under which policy"],
] as const;

export function Receipts({ route }: { route: Route }) {
  const asked = route.query.get("turn") ?? "";
  const recent = useLoad<Turns>("/api/turns?limit=15");
  const [way, setWay] = useState<string>("full");
  const [state, setState] = useState<Failure | string | null>(null);
  const save = (id: string): void => {
    send("GET", `/api/turns/${encodeURIComponent(id)}/receipt?disclose=${way}`)
      .then((answer) => answer.text())
      .then((text) => {
        download(`receipt-${id}.json`, text, "application/json");
        setState(`saved receipt-${id}.json`);
      })
      .catch((error: unknown) => setState(error instanceof Failure ? error : new Failure(0, "", String(error), "")));
  };
  return (
    <>
      <p class="dim">
        A receipt proves one decision to a person who has no access here: with its verifier they derive the
        decision again. <a href={href(["help", "receipt-format.md"])}>What is in it</a>.
      </p>
      <Card title="Of one turn">
        <form class="pad filters" onSubmit={(event) => { event.preventDefault(); if (asked) save(asked); }}>
          <label class="field">
            <span>turn, decision or call</span>
            <input name="turn" required placeholder="its id, or last" defaultValue={asked} onChange={(event) => go(["receipts"], { turn: event.currentTarget.value.trim() })} />
          </label>
          <label class="field">
            <span>it tells</span>
            <select name="disclose" value={way} onChange={(event) => setWay(event.currentTarget.value)}>
              {WAYS.map(([name, told, rest]) => <option key={name} value={name}>{`${told}: ${rest}`}</option>)}
            </select>
          </label>
          <button type="submit" class="primary">Save the receipt</button>
        </form>
        {typeof state === "string" && <p class="note" role="status">{state}</p>}
        {state instanceof Failure && <Trouble failure={state} />}
      </Card>
      <Card title="Lately">
        <table class="plain">
          <thead>
            <tr><th scope="col">time</th><th scope="col">model</th><th scope="col"><span class="unseen">receipt</span></th></tr>
          </thead>
          <tbody>
            {(recent.value?.turns ?? []).map((turn) => (
              <tr key={turn.decision_id}>
                <td><a href={href(["turns", turn.turn_id])}><Time at={turn.at} /></a></td>
                <td><Model name={turn.chosen_model} /> {turn.is_preview && <Badge tone="quiet">preview</Badge>}</td>
                <td class="number">
                  <button type="button" class="small" onClick={() => save(turn.turn_id)} aria-label={`save the receipt of ${turn.turn_id}`}>save</button>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </Card>
      <Card title="Who holds one verifies it">
        <div class="pad stack">
          <p class="dim">With a program of one file, or a page; both open no connection and share no code with the gateway.</p>
          <Command text="pointsman receipt --verifier pointsman_verify.py && python pointsman_verify.py receipt.json" />
          <Command text="pointsman receipt --page verify.html" />
        </div>
      </Card>
    </>
  );
}
