"""The folder that file tools may touch, and nothing else: no path leads out of it.

Each step of a path is opened below the step before, never through a link that the system follows:
links are read and walked here, so that one swapped in meanwhile opens nothing. `..` goes back along
the opened folders. The shell knows no such bounds; it is confirmed instead.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from pointsman.kernel.document import escape
from pointsman.sessions.tools.failure import CallFailed, from_os, invalid_input, not_allowed

MOST_LINKS = 32
MOST_STEPS = 256
LONGEST_PATH = 4_096

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_KERNEL_FOLDERS: Final = ("/proc", "/sys", "/dev")
_KINDS: Final = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISLNK, "a link"),
)

Identity = tuple[int, int]
"""Device and inode: the identity of a folder, whatever path leads to it."""


class Location(NamedTuple):
    """A location in the workspace: the open folder, the name in it, the path from the root.

    The root itself has the name `.`; `found` is None where nothing is there yet.
    """

    folder: int
    name: str
    path: str
    found: os.stat_result | None


class WorkspaceFolder:
    """One folder and its content, except for `closed` folders."""

    def __init__(self, root: Path, closed: tuple[Path, ...] = ()) -> None:
        self.root = Path(os.path.realpath(root))
        self._closed = tuple(each for path in closed if (each := _identity(path)) is not None)
        # The same kernel file system may be mounted elsewhere, too: it keeps its device number.
        self._kernel = _kernel_devices()
        with self._walk() as steps:
            steps.walk("")

    @contextmanager
    def locate(self, path: str, *, make_folders: bool = False) -> Iterator[Location]:
        """Find the location of a path; it need not exist, its folder must."""
        with self._walk(make_folders=make_folders) as steps:
            yield steps.walk(path)

    @contextmanager
    def file(self, path: str) -> Iterator[int]:
        """Open a regular file to read."""
        with self.locate(path) as location:
            descriptor = self.open_file(location, path)
            try:
                yield descriptor
            finally:
                os.close(descriptor)

    @contextmanager
    def folder(self, path: str) -> Iterator[tuple[int, str]]:
        """Open a folder; yield it with its path from the root, empty for the root."""
        with self.locate(path) as location:
            descriptor = self.open_folder(location, path)
            try:
                yield descriptor, location.path
            finally:
                os.close(descriptor)

    def open_folder(self, location: Location, path: str) -> int:
        """Open the folder at a location; the caller must close it."""
        if location.found is None:
            raise CallFailed("not_found", f"`{escape(path, 200)}` does not exist")
        if not stat.S_ISDIR(location.found.st_mode):
            raise invalid_input(f"`{escape(path, 200)}` is {kind_of(location.found)}, not a folder")
        try:
            descriptor = os.open(location.name, _FOLDER, dir_fd=location.folder)
        except OSError as error:
            raise from_os(error, path) from None
        return self.check_open(descriptor, path)

    def open_file(self, location: Location, path: str) -> int:
        """Open the regular file at a location to read; the caller must close it."""
        if location.found is None:
            raise CallFailed("not_found", f"`{escape(path, 200)}` does not exist")
        _refuse_special(location.found, path)
        try:
            descriptor = os.open(location.name, _FILE, dir_fd=location.folder)
        except OSError as error:
            raise from_os(error, path) from None
        try:
            # The opened file need not be the one that was examined.
            _refuse_special(os.fstat(descriptor), path)
        except CallFailed:
            os.close(descriptor)
            raise
        return self.check_open(descriptor, path)

    def check_open(self, descriptor: int, path: str) -> int:
        """Return a descriptor that is open to tools; close it and refuse otherwise."""
        found = os.fstat(descriptor)
        if (found.st_dev, found.st_ino) in self._closed:
            os.close(descriptor)
            raise not_allowed(f"`{escape(path, 200)}` lies in a folder that is closed to tools")
        if found.st_dev in self._kernel:
            os.close(descriptor)
            raise not_allowed(f"`{escape(path, 200)}` is no file on a disk, but the system itself")
        return descriptor

    @contextmanager
    def _walk(self, *, make_folders: bool = False) -> Iterator[_Walk]:
        try:
            root = os.open(self.root, _FOLDER)
        except OSError as error:
            raise from_os(error, str(self.root)) from None
        walk = _Walk(self, self.check_open(root, str(self.root)), make_folders=make_folders)
        try:
            yield walk
        finally:
            walk.close()

    def steps_of(self, path: str) -> list[str]:
        """Split a path into its steps; an absolute one must begin with the root."""
        if "\0" in path:
            raise invalid_input("a path cannot hold a zero character")
        if len(path) > LONGEST_PATH:
            raise invalid_input(f"a path has at most {LONGEST_PATH} characters")
        if path.startswith("/"):
            return self._below_root(path)
        return [step for step in path.split("/") if step not in ("", ".")]

    def _below_root(self, path: str) -> list[str]:
        steps, above = ([*Path(each).parts[1:]] for each in (path, str(self.root)))
        if steps[: len(above)] != above:
            raise outside(path)
        return [step for step in steps[len(above) :] if step != "."]


class _Walk:
    """One way into the workspace: the folders opened so far, the root first."""

    def __init__(self, workspace: WorkspaceFolder, root: int, *, make_folders: bool) -> None:
        self._workspace = workspace
        self._open = [root]
        self._names: list[str] = []
        self._make_folders = make_folders

    def close(self) -> None:
        """Close every folder of the way."""
        for descriptor in self._open:
            os.close(descriptor)

    def walk(self, path: str) -> Location:
        """Walk a path to its end."""
        steps, links, taken = deque(self._workspace.steps_of(path)), 0, 0
        while steps:
            taken += 1
            step = steps.popleft()
            if taken > MOST_STEPS:
                raise invalid_input(f"`{escape(path, 200)}` has more than {MOST_STEPS} steps")
            if step == "..":
                self._back(path)
                continue
            found = self._stat(step, path)
            if found is not None and stat.S_ISLNK(found.st_mode):
                links += 1
                if links > MOST_LINKS:
                    raise not_allowed(f"`{escape(path, 200)}` leads through too many links")
                steps.extendleft(reversed(self._target(step, path)))
            elif steps:
                if found is None:
                    # With `..` ahead, a new folder would be left unused.
                    self._make(step, path, may_make=".." not in steps)
                self._enter(step, path)
            else:
                return Location(self._open[-1], step, "/".join([*self._names, step]), found)
        return Location(self._open[-1], ".", "/".join(self._names), os.fstat(self._open[-1]))

    def _back(self, path: str) -> None:
        if not self._names:
            raise outside(path)
        os.close(self._open.pop())
        self._names.pop()

    def _stat(self, step: str, path: str) -> os.stat_result | None:
        try:
            return os.stat(step, dir_fd=self._open[-1], follow_symlinks=False)
        except FileNotFoundError:
            return None
        except UnicodeEncodeError:
            raise invalid_input("a path cannot hold half of a surrogate pair") from None
        except OSError as error:
            raise from_os(error, path) from None

    def _target(self, step: str, path: str) -> list[str]:
        try:
            target = os.readlink(step, dir_fd=self._open[-1])
        except OSError as error:
            raise from_os(error, path) from None
        if target.startswith("/"):
            # Walked from the root again, so that it leads inside the workspace and nowhere else.
            try:
                inside = self._workspace.steps_of(target)
            except CallFailed:
                raise outside(path) from None
            return [".."] * len(self._names) + inside
        return [each for each in target.split("/") if each not in ("", ".")]

    def _enter(self, step: str, path: str) -> None:
        try:
            descriptor = os.open(step, _FOLDER, dir_fd=self._open[-1])
        except OSError as error:
            raise from_os(error, path) from None
        self._open.append(self._workspace.check_open(descriptor, path))
        self._names.append(step)

    def _make(self, step: str, path: str, *, may_make: bool) -> None:
        if not (self._make_folders and may_make):
            raise CallFailed("not_found", f"`{escape(path, 200)}` does not exist")
        try:
            with suppress(FileExistsError):
                os.mkdir(step, dir_fd=self._open[-1])
        except OSError as error:
            raise from_os(error, path) from None


def kind_of(found: os.stat_result) -> str:
    """Return the kind of a file that is not regular."""
    return next((name for test, name in _KINDS if test(found.st_mode)), "a file")


def outside(path: str) -> CallFailed:
    """Return the failure of a path that leads out of the workspace."""
    return not_allowed(
        f"`{escape(path, 200)}` lies outside the workspace: use a path relative to its root"
    )


def _refuse_special(found: os.stat_result, path: str) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise invalid_input(f"`{escape(path, 200)}` is a folder, not a file: use list_dir")
    if not stat.S_ISREG(found.st_mode):
        raise not_allowed(f"`{escape(path, 200)}` is {kind_of(found)}, not a regular file")


def _identity(path: Path) -> Identity | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _kernel_devices() -> frozenset[int]:
    """Return the devices of the kernel's own file systems, where they are mounted at all."""
    root = _identity(Path("/"))
    found = (_identity(Path(path)) for path in _KERNEL_FOLDERS)
    return frozenset(each[0] for each in found if each and root and each[0] != root[0])
