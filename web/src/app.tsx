import { useEffect, useRef, useState } from "preact/hooks";
import { useLoad } from "./api";
import { OTHERS, PAGES, useKeys, usePageKeys } from "./keys";
import { Agents } from "./pages/agents";
import { Cost } from "./pages/cost";
import { Help } from "./pages/help";
import { Keys } from "./pages/keys";
import { Learning } from "./pages/learning";
import { Ledger } from "./pages/ledger";
import { Login } from "./pages/login";
import { Now } from "./pages/now";
import { Policies } from "./pages/policies";
import { Providers } from "./pages/providers";
import { Receipts } from "./pages/receipts";
import { SessionPage, Sessions } from "./pages/sessions";
import { Turns } from "./pages/turns";
import { Why } from "./pages/why";
import { WorkflowPage, Workflows } from "./pages/workflows";
import { Trouble } from "./parts/bits";
import { Find } from "./parts/find";
import { Logo } from "./parts/logo";
import { href, useRoute, type Route } from "./router";
import { toggleTheme } from "./theme";
import type { Me } from "./types";

const TITLES: Record<string, string> = {
  "": "Now",
  turns: "Turns",
  providers: "Providers",
  cost: "Cost",
  sessions: "Sessions",
  keys: "Keys and tenants",
  learning: "Learning",
  receipts: "Receipts",
  policies: "Policies",
  workflows: "Workflow decisions",
  agents: "Agents",
  ledger: "Ledger",
  help: "Help",
  login: "Log in",
};

function Page({ route, me, changed }: { route: Route; me: Me; changed: () => void }) {
  const [first = "", second] = route.path;
  if (me.is_login_needed && first !== "help") return <Login me={me} changed={changed} />;
  switch (first) {
    case "":
      return <Now route={route} />;
    case "turns":
      return second ? <Why key={second} id={second} /> : <Turns route={route} />;
    case "sessions":
      return second ? <SessionPage key={second} id={second} /> : <Sessions />;
    case "providers":
      return <Providers route={route} />;
    case "cost":
      return <Cost route={route} />;
    case "keys":
      return <Keys me={me} route={route} />;
    case "learning":
      return <Learning route={route} />;
    case "receipts":
      return <Receipts route={route} />;
    case "policies":
      return <Policies name={second ?? "routing.yaml"} me={me} />;
    case "workflows":
      return second ? <WorkflowPage key={second} id={second} /> : <Workflows />;
    case "agents":
      return <Agents me={me} route={route} />;
    case "ledger":
      return <Ledger me={me} />;
    case "help":
      return <Help name={second ?? "README.md"} anchor={route.query.get("at")} />;
    case "login":
      return <Login me={me} changed={changed} />;
    default:
      return <p>There is no such page.</p>;
  }
}

function Shortcuts({ open, close }: { open: boolean; close: () => void }) {
  const box = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (open && !box.current?.open) box.current?.showModal();
    if (!open) box.current?.close();
  }, [open]);
  return (
    <dialog ref={box} class="shortcuts" aria-label="keyboard shortcuts" onClose={close}>
      <h2>Keyboard</h2>
      <div class="columns even">
        <dl>
          {PAGES.map(([key, , name]) => [
            <dt key={`k${key}`}><kbd>g</kbd> <kbd>{key}</kbd></dt>,
            <dd key={key}>{name}</dd>,
          ])}
        </dl>
        <dl>
          {OTHERS.map(([key, told]) => [<dt key={`k${key}`}><kbd>{key}</kbd></dt>, <dd key={key}>{told}</dd>])}
        </dl>
      </div>
      <button type="button" onClick={close}>Close</button>
    </dialog>
  );
}

const ICONS: Record<string, string> = {
  "": "M3 12h4l3-7 4 14 3-7h4",
  turns: "M4 6h16M4 12h16M4 18h10",
  sessions: "M4 5h16v10H9l-5 4z",
  providers: "M5 5h14v5H5zM5 14h14v5H5zM8 7.500h.1M8 16.500h.1",
  cost: "M12 4v16M16 7.500C15 6 9 5.500 9 9c0 3.500 7 2.500 7 6 0 3.500-6.500 3-8 1",
  keys: "M14 10a4 4 0 1 0-3.500 4L13 16.500V19h2.500v-2.500H18V14z",
  learning: "M4 18L10 11l4 4L20 6M20 6h-4M20 6v4",
  receipts: "M6 4h12v16l-3-2-3 2-3-2-3 2zM9 9h6M9 13h6",
  policies: "M8 4v16M8 14C8 8 17 10 17 4",
  workflows: "M5 12h5M10 12C14 12 13 6 19 6M10 12C14 12 13 18 19 18",
  agents: "M12 4v5M12 9L5 17M12 9l7 8M3 17h4v4H3zM17 17h4v4h-4z",
  ledger: "M5 7a3 3 0 0 1 3-3h4a3 3 0 0 1 0 6h-1M19 17a3 3 0 0 1-3 3h-4a3 3 0 0 1 0-6h1",
  help: "M9 9a3 3 0 1 1 4 3c-1 .6-1 1.200-1 2.500M12 18v.1",
};

/** The pages that a phone shows without its menu: what an engineer on call looks at first. */
const FIRST = ["", "turns", "providers", "cost"];

function Nav({ here, me }: { here: string; me: Me | null }) {
  const [isOpen, setOpen] = useState(false);
  useEffect(() => setOpen(false), [here]);
  return (
    <nav class={isOpen ? "side open" : "side"} aria-label="pages">
      <a class="brand" href={href([])}>
        <Logo />
        <span>Pointsman</span>
      </a>
      <ul>
        {PAGES.map(([key, path, name]) => (
          <li key={path} class={FIRST.includes(path) ? "first" : "more"}>
            <a href={href(path === "" ? [] : [path])} class={here === path ? "here" : ""} aria-current={here === path ? "page" : undefined}>
              <svg width="18" height="18" viewBox="0 0 24 24" aria-hidden="true"><path d={ICONS[path]} /></svg>
              <span class="nav-name">{name}</span>
              <kbd aria-hidden="true">g {key}</kbd>
            </a>
          </li>
        ))}
      </ul>
      <button type="button" class="quiet menu" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        <svg width="18" height="18" viewBox="0 0 24 24" aria-hidden="true"><path d="M4 6h16M4 12h16M4 18h16" /></svg>
        {isOpen ? "Less" : "More"}
      </button>
      <div class="side-foot">
        <a href={href(["login"])} class={here === "login" ? "here" : ""}>
          {me?.is_logged_in ? me.name : "Log in"}
        </a>
        <span class="dim version">{me?.version}</span>
      </div>
    </nav>
  );
}

export function App() {
  const route = useRoute();
  const me = useLoad<Me>("/api/me", 60_000);
  const [isAsked, setAsked] = useState(false);
  const here = route.path[0] ?? "";
  const title = TITLES[here] ?? "Pointsman";
  usePageKeys();
  useKeys({ "?": () => setAsked(!isAsked), d: toggleTheme });
  useEffect(() => {
    document.title = here === "" ? "Pointsman" : `${title} · Pointsman`;
    if (here !== "help") window.scrollTo(0, 0);
  }, [here, route.path[1]]);
  return (
    <div class="shell">
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); document.getElementById("main")?.focus(); }}>
        Skip to the page
      </a>
      <Nav here={here} me={me.value} />
      <main id="main" tabIndex={-1}>
        <header class="page-head">
          <h1>{title}</h1>
          <div class="actions">
            <Find />
            <button type="button" class="quiet" onClick={toggleTheme} aria-label="dark or light" title="dark or light (d)">
              <svg width="18" height="18" viewBox="0 0 24 24" aria-hidden="true">
                <circle cx="12" cy="12" r="8" fill="none" stroke="currentColor" stroke-width="1.800" />
                <path d="M12 4a8 8 0 0 1 0 16z" fill="currentColor" />
              </svg>
            </button>
            <button type="button" class="quiet" onClick={() => setAsked(true)} aria-label="keyboard shortcuts" title="keyboard shortcuts (?)">
              <kbd>?</kbd>
            </button>
          </div>
        </header>
        <Shortcuts open={isAsked} close={() => setAsked(false)} />
        {me.failure && <Trouble failure={me.failure} />}
        {me.value && <Page route={route} me={me.value} changed={me.again} />}
      </main>
    </div>
  );
}
