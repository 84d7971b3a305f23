import { useEffect, useRef, useState } from "preact/hooks";
import { useLoad } from "./api";
import { OTHERS, PAGES, useKeys, usePageKeys } from "./keys";
import { Agents } from "./pages/agents";
import { Help } from "./pages/help";
import { Ledger } from "./pages/ledger";
import { Login } from "./pages/login";
import { Now } from "./pages/now";
import { Policies } from "./pages/policies";
import { SessionPage, Sessions } from "./pages/sessions";
import { Turns } from "./pages/turns";
import { Why } from "./pages/why";
import { WorkflowPage, Workflows } from "./pages/workflows";
import { Trouble } from "./parts/bits";
import { Logo } from "./parts/logo";
import { href, useRoute, type Route } from "./router";
import { toggleTheme } from "./theme";
import type { Me } from "./types";

const TITLES: Record<string, string> = {
  "": "Now",
  turns: "Turns",
  sessions: "Sessions",
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
      return <Now />;
    case "turns":
      return second ? <Why key={second} id={second} /> : <Turns route={route} />;
    case "sessions":
      return second ? <SessionPage key={second} id={second} /> : <Sessions />;
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
  policies: "M8 4v16M8 14C8 8 17 10 17 4",
  workflows: "M5 12h5M10 12C14 12 13 6 19 6M10 12C14 12 13 18 19 18",
  agents: "M12 4v5M12 9L5 17M12 9l7 8M3 17h4v4H3zM17 17h4v4h-4z",
  ledger: "M5 7a3 3 0 0 1 3-3h4a3 3 0 0 1 0 6h-1M19 17a3 3 0 0 1-3 3h-4a3 3 0 0 1 0-6h1",
  help: "M9 9a3 3 0 1 1 4 3c-1 .6-1 1.200-1 2.500M12 18v.1",
};

function Nav({ here, me }: { here: string; me: Me | null }) {
  return (
    <nav class="side" aria-label="pages">
      <a class="brand" href={href([])}>
        <Logo />
        <span>Pointsman</span>
      </a>
      <ul>
        {PAGES.map(([key, path, name]) => (
          <li key={path}>
            <a href={href(path === "" ? [] : [path])} class={here === path ? "here" : ""} aria-current={here === path ? "page" : undefined}>
              <svg width="18" height="18" viewBox="0 0 24 24" aria-hidden="true"><path d={ICONS[path]} /></svg>
              <span class="nav-name">{name}</span>
              <kbd aria-hidden="true">g {key}</kbd>
            </a>
          </li>
        ))}
      </ul>
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
