"""`write_file`: a text file of the workspace, replaced in one step or not at all."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, Literal, NamedTuple

from msgspec import Struct

from pointsman.kernel.document import escape
from pointsman.sessions.tool import ToolDefinition
from pointsman.sessions.tools.failure import CallFailed, from_os, invalid_input, not_allowed
from pointsman.sessions.tools.schema import Field, object_schema
from pointsman.sessions.tools.workspace import Location, WorkspaceFolder, kind_of

MOST_BYTES = 4 * 1024 * 1024
MOST_APPENDED_TO = 64 * 1024 * 1024

Mode = Literal["replace", "create", "append"]

WRITE_FILE = ToolDefinition(
    "write_file",
    "Write a text file of the workspace as UTF-8, making folders on the way. `replace` is the "
    "whole new content of a new or existing file, `create` refuses an existing one, `append` adds "
    "to its end.",
    object_schema(
        Field("path", "string", "path relative to the workspace", required=True),
        Field("content", "string", "the text to write", required=True),
        Field("mode", "string", "`replace` unless given", enum=("replace", "create", "append")),
    ),
    "write",
)

_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_WRITABLE: Final = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH


class WriteInput(Struct, frozen=True):
    """What `write_file` is asked."""

    path: str
    content: str
    mode: Mode = "replace"


class WriteResult(NamedTuple):
    """What was written: the path from the root, and the sizes before (None: new) and after."""

    path: str
    before: int | None
    after: int

    def to_text(self) -> str:
        """Say it to the model."""
        if self.before is None:
            return f"created `{escape(self.path, 200)}` with {self.after} bytes"
        return f"wrote `{escape(self.path, 200)}`: {self.before} bytes before, {self.after} now"


def write_file(
    workspace: WorkspaceFolder, asked: WriteInput, protected: tuple[str, ...] = ()
) -> WriteResult:
    """Write a file; `protected` are names at the root that may not be written."""
    data = _encode(asked.content)
    with workspace.spot(asked.path, make_folders=True) as spot:
        _refuse_name(spot, asked.path, protected)
        _refuse_target(spot, asked)
        try:
            if asked.mode == "append":
                data = _content(workspace, spot, asked.path) + data
            _replace(spot, data, new_only=asked.mode == "create")
        except OSError as error:
            raise from_os(error, asked.path) from None
        return WriteResult(spot.path, None if spot.found is None else spot.found.st_size, len(data))


def projected_change(workspace: WorkspaceFolder, asked: WriteInput) -> str:
    """Say in one line what a call would do to which file, without doing it."""
    size = len(asked.content.encode("utf-8", "replace"))
    try:
        with workspace.spot(asked.path) as spot:
            path, found = spot.path, spot.found
    except CallFailed:
        path, found = asked.path, None
    path = escape(path, 200)
    if found is None:
        return f"create `{path}` ({size} bytes)"
    if asked.mode == "append":
        return f"append {size} bytes to `{path}` ({found.st_size} bytes)"
    return f"replace `{path}` ({found.st_size} bytes before, {size} after)"


def replace_at(spot: Location, data: bytes, *, new_mode: int = 0o666) -> None:
    """Replace the file at a spot by new content in one step, keeping its mode."""
    _replace(spot, data, new_only=False, new_mode=new_mode)


def _encode(content: str) -> bytes:
    try:
        data = content.encode()
    except UnicodeEncodeError:
        raise invalid_input("`content` holds half of a surrogate pair") from None
    if len(data) > MOST_BYTES:
        raise invalid_input(f"`content` is larger than {MOST_BYTES} bytes: write it in parts")
    return data


def _refuse_name(spot: Location, path: str, protected: tuple[str, ...]) -> None:
    steps = [each.lower() for each in spot.path.split("/")]
    if spot.name == ".":
        raise invalid_input(f"`{escape(path, 200)}` is a folder, not a file")
    if ".git" in steps:
        # A hook written there would run without anybody having allowed a command.
        raise not_allowed(f"`{escape(path, 200)}` belongs to git: change it with git commands")
    if steps[0] in {each.lower() for each in protected}:
        raise not_allowed(f"`{escape(path, 200)}` may not be written in this session")


def _refuse_target(spot: Location, asked: WriteInput) -> None:
    if spot.found is None:
        return
    path = escape(asked.path, 200)
    if not stat.S_ISREG(spot.found.st_mode):
        raise not_allowed(f"`{path}` is {kind_of(spot.found)}, not a regular file")
    if asked.mode == "create":
        raise invalid_input(f"`{path}` exists already: use the mode `replace` or another path")
    if not spot.found.st_mode & _WRITABLE:
        raise not_allowed(f"`{path}` is read-only")


def _content(workspace: WorkspaceFolder, spot: Location, path: str) -> bytes:
    if spot.found is None:
        return b""
    if spot.found.st_size > MOST_APPENDED_TO:
        raise invalid_input(f"`{escape(path, 200)}` is too large to append to")
    with os.fdopen(workspace.open_file(spot, path), "rb") as file:
        return file.read(MOST_APPENDED_TO + 1)


def _replace(spot: Location, data: bytes, *, new_only: bool, new_mode: int = 0o666) -> None:
    with _temporary_file(spot, data, new_mode) as temporary:
        here = {"src_dir_fd": spot.folder, "dst_dir_fd": spot.folder}
        if new_only:
            # Unlike a rename, a link never takes the place of a file made meanwhile.
            os.link(temporary, spot.name, **here, follow_symlinks=False)
        else:
            os.rename(temporary, spot.name, **here)  # noqa: PTH104 - in an open folder
    os.fsync(spot.folder)


@contextmanager
def _temporary_file(spot: Location, data: bytes, new_mode: int) -> Iterator[str]:
    """Give the name of a new file beside the spot that holds the data; take it away at the end."""
    name = f".pointsman-{secrets.token_hex(8)}"
    mode = new_mode if spot.found is None else 0o600
    descriptor = os.open(name, _NEW, mode, dir_fd=spot.folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if spot.found is not None:
                _same_rights(descriptor, spot.found)
            os.fsync(descriptor)
        yield name
    finally:
        # After a rename there is nothing left to take away.
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=spot.folder)


def _same_rights(descriptor: int, found: os.stat_result) -> None:
    # Only root may give a file away; without that right it belongs to whoever wrote it.
    with suppress(PermissionError):
        os.fchown(descriptor, found.st_uid, found.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(found.st_mode))
