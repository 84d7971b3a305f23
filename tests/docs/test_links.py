"""Links inside the repository lead somewhere."""

import re
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).parents[2]
NOT_OURS = {"build", "dist", "node_modules"}

FENCE = re.compile(r"^(```|~~~).*?^\1[ ]*$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\[[^\]\n]*\]\(\s*<?([^)\s>]+)>?[^)]*\)")
DEFINITION = re.compile(r"^\[[^\]\n]+\]:\s*(\S+)", re.MULTILINE)
HEADING = re.compile(r"^#{1,6} (.+?)\s*#*$", re.MULTILINE)
ANCHOR = re.compile(r"<a (?:id|name)=\"([^\"]+)\"")


def is_ours(path: Path) -> bool:
    folders = path.relative_to(ROOT).parts[:-1]
    return not any(name.startswith(".") or name in NOT_OURS for name in folders)


PAGES = sorted(path for path in ROOT.rglob("*.md") if is_ours(path))


def anchors(text: str) -> set[str]:
    """Name a page's headings as GitHub names them."""
    found: list[str] = []
    for heading in HEADING.findall(FENCE.sub("", text)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        again = sum(1 for each in found if each == slug or re.fullmatch(rf"{slug}-\d+", each))
        found.append(f"{slug}-{again}" if again else slug)
    return {*found, *ANCHOR.findall(text)}


def links(text: str) -> list[str]:
    prose = CODE.sub("", FENCE.sub("", text))
    return [*LINK.findall(prose), *DEFINITION.findall(prose)]


def is_relative(link: str) -> bool:
    return not re.match(r"[a-z][a-z0-9+.-]*:", link)


def leads_somewhere(page: Path, link: str) -> bool:
    path, _, anchor = unquote(link).partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.exists() or not target.is_relative_to(ROOT):
        return False
    return not anchor or anchor in anchors(target.read_text(encoding="utf-8"))


def broken(page: Path) -> list[str]:
    found = filter(is_relative, links(page.read_text(encoding="utf-8")))
    return [link for link in found if not leads_somewhere(page, link)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_and_anchors_of_a_page_lead_somewhere(page: Path) -> None:
    assert broken(page) == []


def test_every_page_under_docs_can_be_reached_from_its_index() -> None:
    index = ROOT / "docs" / "README.md"
    seen, waiting = set[Path](), [index]
    while waiting:
        page = waiting.pop()
        if page in seen or page.suffix != ".md" or not page.exists():
            continue
        seen.add(page)
        found = filter(is_relative, links(page.read_text(encoding="utf-8")))
        waiting += [(page.parent / unquote(link).partition("#")[0]).resolve() for link in found]
    under_docs = {page for page in PAGES if page.is_relative_to(ROOT / "docs")}
    assert sorted(under_docs - seen) == []


def test_a_link_to_nowhere_is_found(tmp_path: Path) -> None:
    assert anchors("# One two\n## One two\n") == {"one-two", "one-two-1"}
    assert links("[a](b.md#c) and `[d](e)`\n```\n[f](g)\n```\n") == ["b.md#c"]
