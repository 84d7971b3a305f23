import { useEffect, useState } from "preact/hooks";
import { useLoad } from "../api";
import { useKeys } from "../keys";
import { Trouble } from "../parts/bits";
import { Markdown } from "../parts/markdown";
import { href } from "../router";
import type { HelpPages } from "../types";

const SECTIONS: Record<string, string> = {
  "": "Start",
  tutorial: "Tutorial",
  guide: "How to",
  explanation: "Explanation",
  reference: "Reference",
  adr: "Decisions on the design",
};

export function Help({ name, anchor }: { name: string; anchor: string | null }) {
  const pages = useLoad<HelpPages>("/api/help");
  const page = useLoad<{ name: string; text: string }>(`/api/help/pages/${encodeURIComponent(name)}`);
  const [wanted, setWanted] = useState("");
  useKeys({ "/": () => document.querySelector<HTMLElement>(".help-nav input")?.focus() });
  useEffect(() => {
    if (!page.value) return;
    const target = anchor ? document.getElementById(anchor) : null;
    if (target) target.scrollIntoView();
    else window.scrollTo(0, 0);
  }, [page.value, anchor]);
  const shown = (pages.value?.pages ?? []).filter((each) =>
    `${each.title} ${each.name}`.toLowerCase().includes(wanted.toLowerCase()),
  );
  const sections = [...new Set(shown.map((each) => each.section))];
  return (
    <div class="help">
      <nav class="help-nav" aria-label="documentation">
        <label class="field">
          <span class="unseen">find a page</span>
          <input placeholder="find a page" value={wanted} onInput={(event) => setWanted(event.currentTarget.value)} />
        </label>
        {sections.map((section) => (
          <section key={section}>
            <h2>{SECTIONS[section] ?? section}</h2>
            <ul>
              {shown.filter((each) => each.section === section).map((each) => (
                <li key={each.name}>
                  <a href={href(["help", each.name])} class={each.name === name ? "here" : ""} aria-current={each.name === name ? "page" : undefined}>
                    {each.title}
                  </a>
                </li>
              ))}
            </ul>
          </section>
        ))}
      </nav>
      {page.failure && <Trouble failure={page.failure} />}
      {page.value && <Markdown text={page.value.text} page={page.value.name} />}
    </div>
  );
}
