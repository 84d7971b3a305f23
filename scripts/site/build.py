"""Write the documentation as a site: static pages that search without a server or a network.

The pages are those of docs/ and the few beside it that docs/README.md links; the dashboard's Help
shows the same files. Order and grouping come from docs/README.md.
"""

from __future__ import annotations

import argparse
import html
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parents[2]
ASSETS = Path(__file__).parent
INDEX = Path("docs/README.md")
HOME = Path("README.md")
_COPIED = {".png", ".svg", ".json"}
_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:")
_LONGEST_LEAD = 320


@dataclass(frozen=True)
class Page:
    """A page of the site: its source, its address, and what search and menus show of it."""

    source: Path
    address: str
    title: str
    section: str
    lead: str
    headings: tuple[tuple[int, str, str], ...]
    body: str


class BrokenPage(Exception):
    """A page does not open with a title and with what it is for."""


def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


def listed_sources(index: str) -> Iterator[tuple[str, Path]]:
    """List the sections of the index with the pages that each names, in their order."""
    section = ""
    for line in index.splitlines():
        if line.startswith("## "):
            section = line[3:].strip()
        elif found := re.match(r"- \[[^\]]+\]\(([^)#]+\.md)\)", line):
            yield section, Path(os.path.normpath(INDEX.parent / found[1]))


def sources() -> list[tuple[str, Path]]:
    """List every page: the front page, those of the index, and the rest of docs below them."""
    listed = list(listed_sources((ROOT / INDEX).read_text(encoding="utf-8")))
    named = {page for _, page in listed}
    rest = sorted(page.relative_to(ROOT) for page in (ROOT / "docs").rglob("*.md"))
    others = [("", page) for page in rest if page not in named and page != INDEX]
    return [("", HOME), *listed, *others]


def address_of(source: Path) -> str:
    """Name the file of a page: docs/guide/rules.md is guide/rules.html."""
    if source == HOME:
        return "index.html"
    path = source.relative_to("docs") if source.parts[0] == "docs" else source
    name = "index" if path.stem == "README" else path.stem.lower()
    return path.with_name(f"{name}.html").as_posix()


def anchor_of(text: str, taken: set[str]) -> str:
    """Name a heading as GitHub does, so that links between the files hold here too."""
    slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
    name, count = slug, 0
    while name in taken:
        count += 1
        name = f"{slug}-{count}"
    taken.add(name)
    return name


def _plain(token: Token) -> str:
    """Read the words of a heading or paragraph, without its marks."""
    parts = []
    for each in token.children or ():
        if each.type in {"text", "code_inline"}:
            parts.append(each.content)
        elif each.type in {"softbreak", "hardbreak"}:
            parts.append(" ")
    return "".join(parts)


class Linker:
    """Turns links among the repository's files into links of the site."""

    def __init__(self, pages: dict[Path, str]) -> None:
        """Take the address of each source."""
        self.pages = pages
        self.copied: set[Path] = set()

    def lead(self, source: Path, link: str) -> str | None:
        """Tell where a link of a page leads; None where the site has nothing there."""
        if _ELSEWHERE.match(link) or link.startswith("#"):
            return link
        path, _, anchor = unquote(link).partition("#")
        target = Path(os.path.normpath(source.parent / path))
        start = Path(self.pages[source]).parent
        if target == INDEX.parent:
            target = INDEX
        if target in self.pages:
            to = os.path.relpath(self.pages[target], start)
        elif target.suffix in _COPIED and target.is_relative_to("docs"):
            self.copied.add(target)
            to = os.path.relpath(target.relative_to("docs"), start)
        else:
            return None
        return f"{to}#{anchor}" if anchor else to


def read_page(section: str, source: Path, linker: Linker) -> Page:
    """Render a page."""
    text = (ROOT / source).read_text(encoding="utf-8")
    parser = _parser()
    tokens = parser.parse(re.sub(r"<!--.*?-->\n*", "", text, flags=re.DOTALL))
    title, lead = _opening(source, tokens)
    headings, taken = [], set[str]()
    for token, inline in pairwise(tokens):
        if token.type == "heading_open":
            words = _plain(inline)
            name = anchor_of(words, taken)
            token.attrSet("id", name)
            headings.append((int(token.tag[1]), words, name))
    for token in tokens:
        _follow_links(token, source, linker)
    body = parser.renderer.render(tokens, parser.options, {})
    table = re.compile("<table>.*?</table>", re.DOTALL)
    body = table.sub(r'<div class="wide" tabindex="0">\g<0></div>', body)
    body = body.replace("<pre>", '<pre tabindex="0">')
    return Page(source, linker.pages[source], title, section, lead, tuple(headings), body)


def _opening(source: Path, tokens: list[Token]) -> tuple[str, str]:
    """Take a page's title and its first words, which say what it is for."""
    kinds = [token.type for token in tokens[:6]]
    if kinds[:3] != ["heading_open", "inline", "heading_close"] or tokens[0].tag != "h1":
        raise BrokenPage(f"{source}: a page begins with its title")
    if len(kinds) < 5 or kinds[3] != "paragraph_open":
        raise BrokenPage(f"{source}: below its title a page says what it is for")
    lead = _plain(tokens[4])
    if len(lead) > _LONGEST_LEAD:
        lead = lead[:_LONGEST_LEAD].rsplit(" ", 1)[0] + " …"
    return _plain(tokens[1]), lead


def _follow_links(token: Token, source: Path, linker: Linker) -> None:
    children = token.children or []
    for number, child in enumerate(children):
        if child.type == "link_open":
            to = linker.lead(source, str(child.attrs.get("href", "")))
            if to is None:
                child.type, child.tag, child.attrs = "span_open", "span", {"class": "file"}
                closing = next(each for each in children[number:] if each.type == "link_close")
                closing.type, closing.tag = "span_close", "span"
            else:
                child.attrSet("href", to)
        elif child.type == "image":
            to = linker.lead(source, str(child.attrs.get("src", "")))
            child.attrSet("src", to or "")
            child.attrSet("loading", "lazy")


def _menu(pages: list[Page], here: Page) -> str:
    start = Path(here.address).parent
    parts, section = [], ""
    for page in pages:
        if not page.section:
            continue
        if page.section != section:
            parts.append(f"{'</ul>' if section else ''}<h2>{html.escape(page.section)}</h2><ul>")
            section = page.section
        current = ' aria-current="page"' if page is here else ""
        to = os.path.relpath(page.address, start)
        parts.append(f'<li><a href="{to}"{current}>{html.escape(page.title)}</a></li>')
    return "".join(parts) + "</ul>"


def _contents(page: Page) -> str:
    rows = [
        f'<li class="level-{level}"><a href="#{name}">{html.escape(words)}</a></li>'
        for level, words, name in page.headings
        if 1 < level < 4
    ]
    if len(rows) < 3:
        return ""
    return f'<nav class="contents" aria-label="on this page"><ul>{"".join(rows)}</ul></nav>'


def write_page(page: Page, pages: list[Page], folder: Path, template: str) -> None:
    """Write one page into the folder of the site."""
    root = os.path.relpath(".", Path(page.address).parent)
    values = {
        "title": html.escape(page.title),
        "lead": html.escape(page.lead, quote=True),
        "root": root,
        "menu": _menu(pages, page),
        "contents": _contents(page),
        "body": page.body,
    }
    path = folder / page.address
    path.parent.mkdir(parents=True, exist_ok=True)
    text = re.sub(r"\{\{(\w+)\}\}", lambda found: values[found[1]], template)
    path.write_text(text, encoding="utf-8")


def search_rows(pages: list[Page]) -> list[list[str]]:
    """List what search looks through: each part of each page with its words."""
    rows = []
    for page in pages:
        parts = re.split(r'<h[1-6] id="([^"]+)">(.*?)</h[1-6]>', page.body)
        for name, heading, text in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
            words = html.unescape(re.sub(r"<[^>]+>", " ", text))
            title = html.unescape(re.sub(r"<[^>]+>", "", heading))
            rows.append([page.address, page.title, name, title, " ".join(words.split())])
    return rows


def build(folder: Path) -> list[Page]:
    """Write the whole site, and return its pages."""
    found = sources()
    linker = Linker({source: address_of(source) for _, source in found} | {INDEX: "contents.html"})
    pages = [read_page(section, source, linker) for section, source in found]
    pages.append(read_page("", INDEX, linker))
    template = (ASSETS / "page.html").read_text(encoding="utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    for page in pages:
        write_page(page, pages, folder, template)
    for source in sorted(linker.copied):
        target = folder / source.relative_to("docs")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / source, target)
    for name in ("site.css", "site.js"):
        shutil.copyfile(ASSETS / name, folder / name)
    rows = json.dumps(search_rows(pages), ensure_ascii=False, separators=(",", ":"))
    (folder / "words.js").write_text(f"WORDS={rows};\n", encoding="utf-8")
    return pages


def main() -> int:
    """Build the site into the folder that is named, or build/site."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "build" / "site")
    folder = parser.parse_args().folder
    try:
        pages = build(folder)
    except BrokenPage as problem:
        print(problem, file=sys.stderr)
        return 1
    print(f"{len(pages)} pages in {folder}: open {folder / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
