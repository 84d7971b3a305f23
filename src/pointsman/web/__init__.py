"""The dashboard's built files and the documentation it shows. Knows nothing of the gateway."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

_HERE: Final = Path(__file__).parent
STATIC: Final = _HERE / "static"

_DOCS: Final = (_HERE / "docs", _HERE.parents[2] / "docs")
"""Where the documentation is: inside an installed wheel, else beside the sources."""

_MEDIA: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".webmanifest": "application/manifest+json",
}
_SECTIONS: Final = {"": 0, "tutorial": 1, "guide": 2, "explanation": 3, "reference": 4, "adr": 5}


class Asset(Struct, frozen=True):
    """One file of the dashboard, plain and packed."""

    body: bytes
    packed: bytes
    media: str
    etag: str


class HelpEntry(Struct, frozen=True):
    """One page of the documentation: its path, its section and its title."""

    name: str
    section: str
    title: str


def assets() -> dict[str, Asset]:
    """Read every built file, by its path."""
    found = sorted(path for path in STATIC.rglob("*") if path.suffix in _MEDIA)
    return {path.relative_to(STATIC).as_posix(): _asset(path) for path in found}


def _asset(path: Path) -> Asset:
    body = path.read_bytes()
    # The same bytes on every machine: no time of writing in them.
    packed = gzip.compress(body, 9, mtime=0)
    return Asset(body, packed, _MEDIA[path.suffix], f'"{hashlib.sha256(body).hexdigest()[:32]}"')


def docs_folder() -> Path | None:
    """Return the folder of the documentation, if it is there."""
    return next((each for each in _DOCS if (each / "README.md").is_file()), None)


def help_pages() -> list[HelpEntry]:
    """List the pages, section by section."""
    folder = docs_folder()
    if folder is None:
        return []
    found = [*_entries(folder)]
    return sorted(found, key=lambda each: (_SECTIONS.get(each.section, 9), each.section, each.name))


def _entries(folder: Path) -> Iterator[HelpEntry]:
    for path in sorted(folder.rglob("*.md")):
        name = path.relative_to(folder)
        with path.open(encoding="utf-8") as text:
            title = next((line[2:].strip() for line in text if line.startswith("# ")), name.stem)
        yield HelpEntry(name.as_posix(), name.parts[0] if len(name.parts) > 1 else "", title)


def help_text(name: str) -> str | None:
    """Return a page by its path; none where there is no such page."""
    folder = docs_folder()
    if folder is None or name not in {each.name for each in help_pages()}:
        return None
    return (folder / name).read_text("utf-8")


def help_picture(name: str) -> bytes | None:
    """Return a picture by its name; none where there is no such picture."""
    folder = docs_folder()
    known = {} if folder is None else {each.name: each for each in folder.glob("screenshots/*.png")}
    found = known.get(name)
    return None if found is None else found.read_bytes()
