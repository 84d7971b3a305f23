"use strict";
const root = document.body.dataset.root;
const wanted = document.getElementById("wanted");
const found = document.getElementById("found");
const MOST = 12;
let chosen = -1;

/** Load the words when they are first asked for: pages that nobody searches stay light. */
function loadWords() {
  loadWords.done ??= new Promise((resolve) => {
    const script = document.createElement("script");
    script.src = `${root}/words.js`;
    script.onload = () => resolve(WORDS);
    document.head.append(script);
  });
  return loadWords.done;
}

/** Rank a part of a page: titles first, then headings, then text; every word must occur. */
function rank([, page, , heading, text], words) {
  let points = 0;
  for (const word of words) {
    if (heading.toLowerCase().includes(word)) points += 8;
    else if (page.toLowerCase().includes(word)) points += 5;
    else if (text.toLowerCase().includes(word)) points += 1;
    else return 0;
  }
  return points + (heading === page ? 2 : 0);
}

/** Cut the words around the first hit, with each hit marked. */
function excerpt(text, words) {
  const at = Math.max(0, text.toLowerCase().indexOf(words[0]) - 50);
  const part = document.createElement("small");
  const piece = (at ? "… " : "") + text.slice(at, at + 150);
  const pattern = new RegExp(`(${words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|")})`, "gi");
  for (const [number, each] of piece.split(pattern).entries()) {
    if (number % 2) {
      const mark = document.createElement("mark");
      mark.textContent = each;
      part.append(mark);
    } else part.append(each);
  }
  return part;
}

async function search() {
  const words = wanted.value.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return close();
  const rows = (await loadWords())
    .map((row) => [rank(row, words), row])
    .filter(([points]) => points > 0)
    .sort(([one], [other]) => other - one)
    .slice(0, MOST);
  chosen = -1;
  found.replaceChildren(...rows.map(([, row]) => result(row, words)));
  if (!rows.length) {
    const none = document.createElement("p");
    none.textContent = `Nothing about “${wanted.value}”.`;
    found.append(none);
  }
  found.hidden = false;
  wanted.setAttribute("aria-expanded", "true");
}

function result([address, page, name, heading, text], words) {
  const row = document.createElement("li");
  row.setAttribute("role", "option");
  const link = document.createElement("a");
  link.href = `${root}/${address}#${name}`;
  link.append(heading === page ? page : `${page} › ${heading}`, excerpt(text, words));
  row.append(link);
  return row;
}

function close() {
  found.hidden = true;
  wanted.setAttribute("aria-expanded", "false");
}

function choose(step) {
  const rows = [...found.querySelectorAll("li")];
  if (!rows.length) return;
  chosen = (chosen + step + rows.length) % rows.length;
  rows.forEach((row, number) => row.setAttribute("aria-selected", String(number === chosen)));
  rows[chosen].scrollIntoView({ block: "nearest" });
}

wanted.addEventListener("input", search);
wanted.addEventListener("keydown", (event) => {
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    event.preventDefault();
    choose(event.key === "ArrowDown" ? 1 : -1);
  } else if (event.key === "Enter") {
    found.querySelectorAll("li a")[Math.max(chosen, 0)]?.click();
  } else if (event.key === "Escape") {
    wanted.value = "";
    close();
  }
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !/^(input|textarea)$/i.test(event.target.tagName)) {
    event.preventDefault();
    wanted.focus();
  }
});
document.addEventListener("click", (event) => {
  if (!event.target.closest(".search")) close();
});
document.getElementById("theme").addEventListener("click", () => {
  const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = document.documentElement.dataset.theme || (isDark ? "dark" : "light");
  const next = now === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  try {
    localStorage.setItem("theme", next);
  } catch {
    // A browser that keeps nothing: the choice holds for this page.
  }
});
const menu = document.getElementById("menu");
menu.addEventListener("click", () => {
  const isOpen = document.getElementById("pages").classList.toggle("open");
  menu.setAttribute("aria-expanded", String(isOpen));
});
document.querySelector("#pages [aria-current]")?.scrollIntoView({ block: "center" });
window.scrollTo(0, location.hash ? window.scrollY : 0);
