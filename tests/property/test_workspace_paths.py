"""Whatever a tree and a path look like, file tools touch what lies in the workspace or nothing.

The oracle is the system's own resolution of the path: a read may succeed only where that leads
inside, and then gives the same file; where it leads inside, a read fails only for reasons told.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from pointsman.sessions.tools.failure import CallFailed
from pointsman.sessions.tools.listing import ListInput, list_dir
from pointsman.sessions.tools.reading import ReadInput, read_file
from pointsman.sessions.tools.searching import SearchInput, search
from pointsman.sessions.tools.stop import Stop
from pointsman.sessions.tools.workspace import MOST_LINKS, MOST_STEPS, WorkspaceFolder
from pointsman.sessions.tools.writing import WriteInput, write_file

NAMES = ("a", "b", "c", "work", "secret")
STEPS = st.sampled_from([*NAMES, "..", ".", "", "l1", "l2", "l3", "..."])
PATHS = st.lists(STEPS, min_size=1, max_size=9).map("/".join)
PLACES = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map("/".join)
TREES = st.lists(st.tuples(st.sampled_from(["file", "folder"]), PLACES), max_size=8)
LINKS = st.lists(
    st.tuples(
        st.lists(st.sampled_from(NAMES), max_size=2),
        st.sampled_from(["l1", "l2", "l3", "a", "b"]),
        st.one_of(PATHS, st.just("@outside"), st.just("@inside"), st.just("/")),
    ),
    max_size=5,
)


@contextmanager
def world(
    tree: list[tuple[str, str]], links: list[tuple[list[str], str, str]]
) -> Iterator[tuple[Path, Path]]:
    """Make a workspace beside a folder of secrets; give both."""
    with tempfile.TemporaryDirectory() as made:
        base = Path(made).resolve()
        root, outside = base / "work", base / "secret"
        for each in (root, outside):
            (each / "a").mkdir(parents=True)
        (outside / "a" / "b").write_text("SECRET")
        (outside / "c").write_text("SECRET")
        for kind, place in tree:
            _put(root / place, kind)
        for folder, name, target in links:
            _link(root.joinpath(*folder), name, _meant(target, root, outside))
        yield root, outside


def _put(path: Path, kind: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if kind == "file":
            path.write_text(f"inside {path.name}")
        else:
            path.mkdir()
    except OSError:
        return


def _link(folder: Path, name: str, target: str) -> None:
    try:
        (folder / name).symlink_to(target)
    except OSError:
        return


def _meant(target: str, root: Path, outside: Path) -> str:
    named = {"@outside": str(outside), "@inside": str(root / "a")}
    return named.get(target, target) or "."


def _real(root: Path, path: str) -> Path | None:
    """Give where the system leads, or None where it leads nowhere."""
    try:
        return Path(os.path.realpath(os.path.join(root, path), strict=True))  # noqa: PTH118 - `..` stays
    except OSError:
        return None


def _read(root: Path, path: str) -> str | CallFailed:
    try:
        return read_file(WorkspaceFolder(root), ReadInput(path), Stop())
    except CallFailed as error:
        return error


@settings(max_examples=120, deadline=None)
@given(TREES, LINKS, PATHS, st.booleans())
def test_read_gives_a_file_inside_or_nothing(
    tree: list[tuple[str, str]],
    links: list[tuple[list[str], str, str]],
    path: str,
    is_absolute: bool,
) -> None:
    with world(tree, links) as (root, _):
        asked = f"{root}/{path}" if is_absolute else path.lstrip("/")
        result, real = _read(root, asked), _real(root, asked)
        if isinstance(result, str):
            assert "SECRET" not in result
            # A path may pass through the outside by the system's way only if it ends inside.
            assert real is not None
            assert real.is_relative_to(root)
            assert result == real.read_text()
        else:
            assert "\n" not in result.message
            assert result.error_class in ("permission_denied", "not_found", "validation_error")
            plain = path.count("..") == 0 and not links
            if plain and real is not None and real.is_file() and path.count("/") < MOST_STEPS:
                raise AssertionError(f"a plain file is refused: {result.message}")


@settings(max_examples=80, deadline=None)
@given(TREES, LINKS, PATHS, st.sampled_from(["replace", "create", "append"]))
def test_write_changes_nothing_outside(
    tree: list[tuple[str, str]],
    links: list[tuple[list[str], str, str]],
    path: str,
    mode: str,
) -> None:
    with world(tree, links) as (root, outside):
        before = _snapshot(outside)
        above = sorted(each.name for each in root.parent.iterdir())
        asked = WriteInput(path.lstrip("/") or ".", "new", mode)  # type: ignore[arg-type] # drawn
        with suppress(CallFailed):
            written = write_file(WorkspaceFolder(root), asked)
            real = Path(os.path.realpath(root / written.path))
            assert real.is_relative_to(root)
            assert real.read_text().endswith("new")
        assert _snapshot(outside) == before
        assert sorted(each.name for each in root.parent.iterdir()) == above
        assert not [*root.rglob(".pointsman-*")]


@settings(max_examples=40, deadline=None)
@given(TREES, LINKS, PATHS)
def test_listing_and_search_never_show_what_is_outside(
    tree: list[tuple[str, str]], links: list[tuple[list[str], str, str]], path: str
) -> None:
    with world(tree, links) as (root, _):
        workspace, asked = WorkspaceFolder(root), path.lstrip("/") or "."
        for look in (
            lambda: search(workspace, SearchInput("SECRET|inside", asked), Stop()),
            lambda: list_dir(workspace, ListInput(asked, 8), Stop()),
        ):
            with suppress(CallFailed):
                assert "SECRET" not in look()


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 3 * MOST_LINKS))
def test_chain_of_links_ends(length: int) -> None:
    with world([("file", "a/b")], []) as (root, _):
        (root / "n0").symlink_to("a/b")
        for number in range(1, length):
            (root / f"n{number}").symlink_to(f"n{number - 1}")
        result = _read(root, f"n{length - 1}")
        assert (result == "inside b") == (length <= MOST_LINKS)


def _snapshot(folder: Path) -> list[tuple[str, str | None]]:
    return sorted(
        (str(each.relative_to(folder)), each.read_text() if each.is_file() else None)
        for each in folder.rglob("*")
    )
