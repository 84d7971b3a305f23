"""`list_dir`: what lies in a folder of the workspace, in one fixed order."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from msgspec import Struct

from pointsman.kernel.document import escape, printable
from pointsman.sessions.tool import ToolDefinition
from pointsman.sessions.tools.failure import CallFailed, from_os, invalid_input
from pointsman.sessions.tools.schema import Field, object_schema
from pointsman.sessions.tools.stop import Stop
from pointsman.sessions.tools.workspace import Location, WorkspaceFolder, kind_of

MOST_SHOWN = 1_000
MOST_READ = 20_000
DEEPEST = 8
CLOSED_NAMES = (".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv")
"""Folders that are shown but not entered unless a path names them."""

LIST_DIR = ToolDefinition(
    "list_dir",
    "List a folder of the workspace: folders end with `/`, links show where they lead, files show "
    f"their size in bytes. Below the first level, {', '.join(CLOSED_NAMES)} are not entered.",
    object_schema(
        Field("path", "string", "folder relative to the workspace; its root unless given"),
        Field("depth", "integer", f"levels to show, 1 unless given, at most {DEEPEST}"),
    ),
    "read",
)


class ListInput(Struct, frozen=True):
    """The input of `list_dir`."""

    path: str = "."
    depth: int = 1


class FolderEntry(Struct, frozen=True):
    """One name in a folder, with its stat at the time of reading."""

    name: str
    found: os.stat_result

    @property
    def is_folder(self) -> bool:
        """Whether it can be entered."""
        return stat.S_ISDIR(self.found.st_mode)


def list_dir(workspace: WorkspaceFolder, asked: ListInput, stop: Stop) -> str:
    """Return one line for each name, nested folders indented."""
    if not 1 <= asked.depth <= DEEPEST:
        raise invalid_input(f"`depth` lies between 1 and {DEEPEST}")
    with workspace.folder(asked.path) as (folder, path):
        lines = _Lines(workspace, stop)
        lines.add(folder, path, asked.depth, "")
    return lines.text() or "(empty)"


def entries(folder: int, path: str) -> tuple[list[FolderEntry], bool]:
    """Read a folder, sorted by name; return whether it holds more than was read."""
    found: list[FolderEntry] = []
    more = False
    try:
        with os.scandir(folder) as names:
            for each in names:
                if len(found) == MOST_READ:
                    more = True
                    break
                found += _entry(folder, each.name)
    except OSError as error:
        raise from_os(error, path) from None
    return sorted(found, key=lambda entry: os.fsencode(entry.name)), more


def _entry(folder: int, name: str) -> Iterator[FolderEntry]:
    try:
        yield FolderEntry(name, os.stat(name, dir_fd=folder, follow_symlinks=False))
    except OSError:
        # Gone between being listed and being looked at.
        return


class _Lines:
    """The lines of a listing while it grows."""

    def __init__(self, workspace: WorkspaceFolder, stop: Stop) -> None:
        self._workspace = workspace
        self._stop = stop
        self._lines: list[str] = []
        self._hidden = 0

    def text(self) -> str:
        """Return the lines, and how many are hidden."""
        more = f"[… {self._hidden} more not shown …]" if self._hidden else ""
        return "\n".join([*self._lines, more] if more else self._lines)

    def add(self, folder: int, path: str, depth: int, indent: str) -> None:
        """Add the content of a folder."""
        found, more = entries(folder, path)
        if more:
            self._lines.append(f"{indent}[more than {MOST_READ} names; only some are read]")
        for entry in self._stop.iterate(found):
            if len(self._lines) >= MOST_SHOWN:
                self._hidden += 1
                continue
            self._lines.append(f"{indent}{_line(folder, entry)}")
            if depth > 1 and entry.is_folder and entry.name not in CLOSED_NAMES:
                self._enter(folder, entry, f"{path}/{entry.name}", depth - 1, indent + "  ")

    def _enter(self, folder: int, entry: FolderEntry, path: str, depth: int, indent: str) -> None:
        try:
            inner = self._workspace.open_folder(
                Location(folder, entry.name, path, entry.found), path
            )
        except CallFailed as error:
            self._lines.append(f"{indent}[{error.message}]")
            return
        try:
            self.add(inner, path, depth, indent)
        finally:
            os.close(inner)


def _line(folder: int, entry: FolderEntry) -> str:
    name = printable(entry.name)
    if entry.is_folder:
        return f"{name}/"
    if stat.S_ISREG(entry.found.st_mode):
        return f"{name} ({entry.found.st_size})"
    if stat.S_ISLNK(entry.found.st_mode):
        return f"{name} -> {_target(folder, entry.name)}"
    return f"{name} ({kind_of(entry.found)})"


def _target(folder: int, name: str) -> str:
    try:
        return escape(os.readlink(name, dir_fd=folder), 200)
    except OSError:
        return "?"
