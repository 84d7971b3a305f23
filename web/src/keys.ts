/** The keyboard: two letters to a page, one for what a page can do. */
import { useEffect } from "preact/hooks";
import { go } from "./router";

export const PAGES: [key: string, path: string, name: string][] = [
  ["n", "", "Now"],
  ["t", "turns", "Turns"],
  ["o", "providers", "Providers"],
  ["c", "cost", "Cost"],
  ["s", "sessions", "Sessions"],
  ["k", "keys", "Keys"],
  ["e", "learning", "Learning"],
  ["r", "receipts", "Receipts"],
  ["p", "policies", "Policies"],
  ["w", "workflows", "Workflows"],
  ["a", "agents", "Agents"],
  ["l", "ledger", "Ledger"],
  ["h", "help", "Help"],
];

export const OTHERS: [key: string, told: string][] = [
  ["/", "search or filter"],
  ["f", "find a turn or session"],
  ["j", "next row"],
  ["k", "previous row"],
  ["Enter", "open the row"],
  ["[", "newer page"],
  ["]", "older page"],
  ["r", "replay the turn that is shown"],
  ["d", "dark or light"],
  ["?", "these shortcuts"],
];

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(?:INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

export type Actions = Record<string, (event: KeyboardEvent) => void>;

/** Listens for single keys while nobody types. */
export function useKeys(actions: Actions): void {
  useEffect(() => {
    const pressed = (event: KeyboardEvent): void => {
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      if (document.querySelector("dialog[open]") !== null && event.key !== "?") return;
      const action = actions[event.key];
      if (action) {
        action(event);
        event.preventDefault();
      }
    };
    window.addEventListener("keydown", pressed);
    return () => window.removeEventListener("keydown", pressed);
  });
}

/** Listens for `g` and a letter. */
export function usePageKeys(): void {
  useEffect(() => {
    let since = -Infinity;
    const pressed = (event: KeyboardEvent): void => {
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      const page = PAGES.find(([key]) => key === event.key);
      if (event.key === "g") since = event.timeStamp;
      else if (page && event.timeStamp - since < 1500) {
        event.stopImmediatePropagation();
        since = -Infinity;
        go(page[1] === "" ? [] : [page[1]]);
      } else since = -Infinity;
    };
    window.addEventListener("keydown", pressed, true);
    return () => window.removeEventListener("keydown", pressed, true);
  }, []);
}

/** Moves among the rows of a table with j and k. */
export function moveRow(step: number): void {
  const rows = [...document.querySelectorAll<HTMLElement>("[data-row]")];
  const here = rows.indexOf(document.activeElement as HTMLElement);
  const next = rows[here < 0 ? 0 : Math.max(0, Math.min(rows.length - 1, here + step))];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
}
