"""The documentation as a site: whole, linked, and searched in a browser without a network."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.docs.scripts import script

PHONE = {"width": 390, "height": 844}
WIDE = {"width": 1440, "height": 900}


@pytest.fixture(scope="module")
def builder() -> ModuleType:
    return script("site/build")


@pytest.fixture(scope="module")
def site(builder: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    builder.build(folder)
    return folder


def test_every_page_of_the_documentation_is_on_the_site(builder: ModuleType, site: Path) -> None:
    pages = sorted((builder.ROOT / "docs").rglob("*.md"))
    missing = [
        page
        for page in pages
        if page.relative_to(builder.ROOT) != builder.INDEX
        and not (site / builder.address_of(page.relative_to(builder.ROOT))).exists()
    ]
    assert missing == []
    assert len(pages) > 50


def test_every_link_of_the_site_leads_to_a_place_that_is_there(site: Path) -> None:
    found = {page: page.read_text(encoding="utf-8") for page in site.rglob("*.html")}
    places = {page: set(re.findall(r' id="([^"]+)"', text)) for page, text in found.items()}
    broken = []
    for page, text in found.items():
        for link in re.findall(r'(?:href|src)="([^"]+)"', text):
            if re.match(r"[a-z]+:", link):
                continue
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            is_there = target.exists() and (not anchor or anchor in places[target])
            if not is_there:
                broken.append((page.relative_to(site).as_posix(), link))
    assert broken == []


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    loads = re.compile(r'<(?:script|img|link)[^>]*(?:src|href)="([a-z]+:[^"]*)"')
    assert [hit for page in site.rglob("*.html") for hit in loads.findall(page.read_text())] == []


def test_a_page_that_does_not_say_what_it_is_for_is_refused(builder: ModuleType) -> None:
    parser = builder._parser()
    for text in ("## Not a title\n\nwords", "# Title\n\n## At once a part"):
        with pytest.raises(builder.BrokenPage):
            builder._opening(Path("page.md"), parser.parse(text))
    assert builder._opening(Path("page.md"), parser.parse("# A `b`\n\nSays\nit.")) == (
        "A b",
        "Says it.",
    )


def test_what_search_looks_through_holds_every_part(site: Path) -> None:
    text = (site / "words.js").read_text(encoding="utf-8")
    rows = json.loads(text.removeprefix("WORDS=").removesuffix(";\n"))
    parts = {(address, title) for address, _, _, title, _ in rows}
    assert ("guide/rules.html", "Prove") in parts
    assert ("reference/wb1.html", "The method") in parts


@pytest.fixture
def opened(chromium: Any, site: Path) -> Iterator[Callable[..., Any]]:
    """Open pages from files, offline; whatever they complain of fails the test."""
    contexts, faults = [], list[str]()

    def opening(path: str, **settings: Any) -> Any:
        context = chromium.new_context(**{"viewport": WIDE, "offline": True, **settings})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(15_000)
        page.on("console", lambda told: faults.append(told.text))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto((site / path).as_uri())
        return page

    yield opening
    for context in contexts:
        context.close()
    assert faults == []


def test_search_finds_a_page_without_a_server(opened: Callable[..., Any]) -> None:
    page = opened("guide/privacy.html")
    page.keyboard.press("/")
    page.keyboard.type("weighted choice")
    page.locator("#found li").first.wait_for()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"reference/wb1\.html"))
    assert "wb1" in page.locator("h1").inner_text()


def test_search_says_when_nothing_is_there(opened: Callable[..., Any]) -> None:
    page = opened("index.html")
    page.get_by_label("Search the documentation").fill("zzqx")
    page.get_by_text("Nothing about “zzqx”.").wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_has_the_colours_of_the_system_and_changes_them(
    opened: Callable[..., Any], scheme: str
) -> None:
    page = opened("guide/rules.html", color_scheme=scheme)
    colour = "getComputedStyle(document.body).backgroundColor"
    before = page.evaluate(colour)
    page.get_by_role("button", name="Change between dark and light").click()
    after = page.evaluate(colour)
    page.reload()
    assert before != after
    assert page.evaluate(colour) == after


def test_a_phone_shows_all_of_a_page_and_the_list_on_demand(opened: Callable[..., Any]) -> None:
    page = opened("reference/http.html", viewport=PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    assert not page.locator("#pages").is_visible()
    page.get_by_role("button", name="Pages").click()
    assert page.get_by_role("navigation", name="documentation").is_visible()


def test_the_site_has_no_finding_of_accessibility(opened: Callable[..., Any]) -> None:
    from axe_playwright_python.sync_playwright import Axe

    for path in ("index.html", "guide/rules.html", "reference/cli.html"):
        page = opened(path)
        found = Axe().run(page, options={"preload": False}).response["violations"]
        assert [(path, each["id"], each["nodes"][0]["target"]) for each in found] == []
