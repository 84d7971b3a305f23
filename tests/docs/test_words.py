"""The documentation names no machine, no package registry and no unfinished business."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOT_OURS = {"build", "dist", "node_modules"}

FORBIDDEN = {
    "a path of some machine": re.compile(
        r"(?<![\w.~/-])/(?:home|Users|root|tmp|work|mnt|var|opt|usr|private)/[\w.]"
        r"|\b[A-Z]:\\"
    ),
    "a package registry": re.compile(
        r"\b(?:pypi\.org|pythonhosted\.org|npmjs\.(?:com|org)|yarnpkg\.com|docker\.io|ghcr\.io"
        r"|quay\.io|gcr\.io|crates\.io|rubygems\.org)\b|artifactory|index-url",
        re.IGNORECASE,
    ),
    "unfinished business": re.compile(r"\b(?:TODO|FIXME|XXX|TBD)\b"),
    "an e-mail address": re.compile(r"[\w.+-]+@[\w-]+\.[a-z]{2,}"),
    "a picture of a face or a thing": re.compile("[\U0001f300-\U0001faff\u2600-\u27bf]"),
}


def is_ours(path: Path) -> bool:
    folders = path.relative_to(ROOT).parts[:-1]
    return not any(name.startswith(".") or name in NOT_OURS for name in folders)


FILES = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "docs/**/*.json", "src/**/*.yaml")
    for path in ROOT.glob(pattern)
    if is_ours(path)
)


def found_in(text: str) -> list[str]:
    return [
        f"{number}: {what}: {line.strip()[:80]}"
        for number, line in enumerate(text.splitlines(), 1)
        for what, pattern in FORBIDDEN.items()
        if pattern.search(line)
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_page_names_no_machine_registry_or_unfinished_business(path: Path) -> None:
    assert found_in(path.read_text(encoding="utf-8")) == []


def test_forbidden_words_are_found() -> None:
    assert len(found_in("see /tmp/x\nfrom https://pypi.org\nTODO: all of it\nme@example.org")) == 4


def test_relative_and_home_paths_are_no_machine_paths() -> None:
    assert found_in("~/.pointsman, ./build/demo-home, src/pointsman, /v1/models, a/tmp/b") == []
