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
    """The input of `write_file`."""

    path: str
    content: str
    mode: Mode = "replace"


class WriteResult(NamedTuple):
    """The result of a write: path from the root, sizes before (None: new) and after."""

    path: str
    before: int | None
    after: int

    def to_text(self) -> str:
        """Return the line for the model."""
        if self.before is None:
            return f"created `{escape(self.path, 200)}` with {self.after} bytes"
        return f"wrote `{escape(self.path, 200)}`: {self.before} bytes before, {self.after} now"


def write_file(
    workspace: WorkspaceFolder, asked: WriteInput, protected: tuple[str, ...] = ()
) -> WriteResult:
    """Write a file; `protected` are names at the root that may not be written."""
    data = _encode(asked.content)
    with workspace.locate(asked.path, make_folders=True) as location:
        _refuse_name(location, asked.path, protected)
        _refuse_target(location, asked)
        try:
            if asked.mode == "append":
                data = _content(workspace, location, asked.path) + data
            _replace(location, data, new_only=asked.mode == "create")
        except OSError as error:
            raise from_os(error, asked.path) from None
        return WriteResult(
            location.path, None if location.found is None else location.found.st_size, len(data)
        )


def projected_change(workspace: WorkspaceFolder, asked: WriteInput) -> str:
    """Return in one line the change a call would make, without making it."""
    size = len(asked.content.encode("utf-8", "replace"))
    try:
        with workspace.locate(asked.path) as location:
            path, found = location.path, location.found
    except CallFailed:
        path, found = asked.path, None
    path = escape(path, 200)
    if found is None:
        return f"create `{path}` ({size} bytes)"
    if asked.mode == "append":
        return f"append {size} bytes to `{path}` ({found.st_size} bytes)"
    return f"replace `{path}` ({found.st_size} bytes before, {size} after)"


def replace_at(location: Location, data: bytes, *, new_mode: int = 0o666) -> None:
    """Replace the file at a location by new content in one step, keeping its mode."""
    _replace(location, data, new_only=False, new_mode=new_mode)


def _encode(content: str) -> bytes:
    try:
        data = content.encode()
    except UnicodeEncodeError:
        raise invalid_input("`content` holds half of a surrogate pair") from None
    if len(data) > MOST_BYTES:
        raise invalid_input(f"`content` is larger than {MOST_BYTES} bytes: write it in parts")
    return data


def _refuse_name(location: Location, path: str, protected: tuple[str, ...]) -> None:
    steps = [each.lower() for each in location.path.split("/")]
    if location.name == ".":
        raise invalid_input(f"`{escape(path, 200)}` is a folder, not a file")
    if ".git" in steps:
        # A hook written there would run without a human having allowed a command.
        raise not_allowed(f"`{escape(path, 200)}` belongs to git: change it with git commands")
    if steps[0] in {each.lower() for each in protected}:
        raise not_allowed(f"`{escape(path, 200)}` may not be written in this session")


def _refuse_target(location: Location, asked: WriteInput) -> None:
    if location.found is None:
        return
    path = escape(asked.path, 200)
    if not stat.S_ISREG(location.found.st_mode):
        raise not_allowed(f"`{path}` is {kind_of(location.found)}, not a regular file")
    if asked.mode == "create":
        raise invalid_input(f"`{path}` exists already: use the mode `replace` or another path")
    if not location.found.st_mode & _WRITABLE:
        raise not_allowed(f"`{path}` is read-only")


def _content(workspace: WorkspaceFolder, location: Location, path: str) -> bytes:
    if location.found is None:
        return b""
    if location.found.st_size > MOST_APPENDED_TO:
        raise invalid_input(f"`{escape(path, 200)}` is too large to append to")
    with os.fdopen(workspace.open_file(location, path), "rb") as file:
        return file.read(MOST_APPENDED_TO + 1)


def _replace(location: Location, data: bytes, *, new_only: bool, new_mode: int = 0o666) -> None:
    with _temporary_file(location, data, new_mode) as temporary:
        here = {"src_dir_fd": location.folder, "dst_dir_fd": location.folder}
        if new_only:
            # Unlike a rename, a link never takes the place of a file made meanwhile.
            os.link(temporary, location.name, **here, follow_symlinks=False)
        else:
            os.rename(temporary, location.name, **here)  # noqa: PTH104 - in an open folder
    os.fsync(location.folder)


@contextmanager
def _temporary_file(location: Location, data: bytes, new_mode: int) -> Iterator[str]:
    """Yield the name of a temporary file with the data beside the location; remove it later."""
    name = f".pointsman-{secrets.token_hex(8)}"
    mode = new_mode if location.found is None else 0o600
    descriptor = os.open(name, _NEW, mode, dir_fd=location.folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if location.found is not None:
                _same_rights(descriptor, location.found)
            os.fsync(descriptor)
        yield name
    finally:
        # After a rename there is nothing left to take away.
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=location.folder)


def _same_rights(descriptor: int, found: os.stat_result) -> None:
    # Only root may give a file away; otherwise it belongs to the writer.
    with suppress(PermissionError):
        os.fchown(descriptor, found.st_uid, found.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(found.st_mode))
