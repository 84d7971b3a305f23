"""One configuration file that people edit while it is in use, with its last good content kept.

It knows nothing of what the file says: a function that it is given reads the bytes.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Generic, Literal, TypeVar

import msgspec

from pointsman.errors import DocumentError, Place, Problem
from pointsman.kernel.canonical import content_id as id_of
from pointsman.kernel.codes import Code
from pointsman.kernel.document import DEFAULT_LIMITS
from pointsman.kernel.source_text import too_large
from pointsman.storage.files import make_folder, replace_file

T = TypeVar("T")

_TRIES = 3
SETTLED_NS = 2_500_000_000
"""How old a change must be before time and size vouch for a file. Within one tick of the file
system's clock, at most 2 s on any in use, a second change can leave both as they were."""

_READ_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
"""A pipe in the file's place must not make the reader wait."""


class Loaded(msgspec.Struct, Generic[T], frozen=True):
    """The value in force, the id of the bytes it came from, and the problems of the file.

    `content_id` is empty for the default value. With `last_known_good`, `problems` are those of
    the broken file; with `default`, they are empty when there is no file.
    """

    value: T
    content_id: str
    source: Literal["file", "last_known_good", "default"]
    problems: tuple[Problem, ...] = ()

    @property
    def using_last_known_good(self) -> bool:
        """Whether the file is invalid and an earlier content of it is in force."""
        return self.source == "last_known_good"


class _Good(msgspec.Struct, Generic[T], frozen=True):
    value: T
    content_id: str


class _Refused(Exception):
    """The file has no content to judge."""

    def __init__(self, code: Code, message: str, hint: str = "") -> None:
        self.code = code
        self.message = message
        self.hint = hint
        super().__init__(message)


_Key = tuple[int, ...]


class PolicyFile(Generic[T]):
    """A file read once per change: hash, parse, validate, then swap as a whole.

    `parse` gets the bytes and the name to show, and raises `DocumentError` for an invalid content.
    `keep` is the folder of the last good content; files that share it need different names. Without
    `is_kept` what stands there is used, but nothing is written.
    """

    def __init__(
        self,
        path: Path,
        parse: Callable[[bytes, str], T],
        keep: Path,
        *,
        default: T,
        limit: int = DEFAULT_LIMITS.bytes,
        is_kept: bool = True,
    ) -> None:
        self._path = path
        self._name = str(path)
        self._parse = parse
        kept = LastGood if is_kept else UntouchedLastGood
        self._kept = kept(keep / f"{path.name}.last-known-good")
        self._default = default
        self._limit = limit
        self._key: _Key | None = None
        self._is_seen = False
        self._seen = ""
        self._good: _Good[T] | None = None
        self._loaded: Loaded[T] | None = None
        self.content: bytes | None = None
        """What the file held when it was read last; None where it could not be read."""

    def current(self) -> Loaded[T]:
        """Return the value in force; read the file only when it looks changed."""
        if self._loaded is None or not self.is_current():
            return self.reload()
        return self._loaded

    def is_current(self) -> bool:
        """Tell whether the file is as it was when it was read last; asked for every turn."""
        return self._is_seen and _stat_key(self._name) == self._key

    def kept_content(self) -> bytes:
        """Return the last good bytes; none when there never was a file."""
        return self._kept.load()[0] or b""

    def reload(self) -> Loaded[T]:
        """Read the file whatever its time and size say; parse it only if its bytes are new."""
        self._key = self.content = None
        self._is_seen = False
        try:
            content, key = self._read()
        except FileNotFoundError:
            # That there is no file is seen as well: no key stands for it.
            self._is_seen = True
            return self._swap("", Loaded(self._default, "", "default"))
        except _Refused as refusal:
            problem = _problem(self._path, refusal.code, refusal.message, refusal.hint)
            return self._swap("", self._fallback((problem,)))
        content_id, self.content = id_of(content), content
        loaded = self._loaded
        if loaded is None or content_id != self._seen:
            loaded = self._swap(content_id, self._judge(content, content_id))
        self._key, self._is_seen = key, _is_settled(key)
        return loaded

    def _swap(self, content_id: str, loaded: Loaded[T]) -> Loaded[T]:
        self._seen, self._loaded = content_id, loaded
        return loaded

    def _judge(self, content: bytes, content_id: str) -> Loaded[T]:
        try:
            value = self._parse(content, str(self._path))
        except DocumentError as error:
            return self._fallback(error.problems)
        self._good = _Good(value, content_id)
        return Loaded(value, content_id, "file", self._kept.store(content))

    def _fallback(self, problems: tuple[Problem, ...]) -> Loaded[T]:
        """Return the last good content in force again, or the default when there is none."""
        if self._good is None:
            problems += self._restore()
        if self._good is None:
            return Loaded(self._default, "", "default", problems)
        return Loaded(self._good.value, self._good.content_id, "last_known_good", problems)

    def _restore(self) -> tuple[Problem, ...]:
        """Take up what an earlier process kept, or say why not."""
        content, problems = self._kept.load()
        if content is None:
            return problems
        try:
            value = self._parse(content, str(self._kept.path))
        except DocumentError as error:
            reason = "the last good file is no longer valid"
            return (_problem(self._kept.path, Code.LAST_GOOD_BROKEN, reason), *error.problems)
        self._good = _Good(value, id_of(content))
        return ()

    def _read(self) -> tuple[bytes, _Key]:
        """Return the bytes of one moment: a file that changes while it is read is read again."""
        for _ in range(_TRIES):
            try:
                content, before, after = _read_once(self._path, self._limit)
            except FileNotFoundError:
                raise
            except OSError as error:
                raise _Refused(Code.UNREADABLE, f"cannot be read: {_reason(error)}") from error
            if before == after == _stat_key(self._name):
                return content, after
        message = f"the file changed {_TRIES} times while it was read"
        raise _Refused(Code.CHANGING, message, "write to another file and rename it")


class LastGood:
    """The last good content of a file, in one file that also holds its hash."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def load(self) -> tuple[bytes | None, tuple[Problem, ...]]:
        """Return the last good content, or None with a problem when its digest does not fit."""
        try:
            stored = self.path.read_bytes()
        except FileNotFoundError:
            return None, ()
        except OSError as error:
            message = f"the last good file cannot be read: {_reason(error)}"
            return None, (_problem(self.path, Code.LAST_GOOD_BROKEN, message),)
        content_id, _, content = stored.partition(b"\n")
        if content_id.decode("ascii", "replace") != id_of(content):
            message = "the last good file is not what was stored"
            hint = "it is ignored, and replaced by the next good one"
            return None, (_problem(self.path, Code.LAST_GOOD_BROKEN, message, hint),)
        return content, ()

    def store(self, content: bytes) -> tuple[Problem, ...]:
        """Keep a content, whole on disk or not at all; return the problems."""
        if self.load()[0] == content:
            return ()
        try:
            make_folder(self.path.parent)
            replace_file(self.path, id_of(content).encode() + b"\n" + content)
        except OSError as error:
            message = f"the file is good, but could not be kept: {_reason(error)}"
            return (_problem(self.path, Code.LAST_GOOD_NOT_KEPT, message),)
        return ()


class UntouchedLastGood(LastGood):
    """The last good content, for readers that must leave no trace."""

    def store(self, content: bytes) -> tuple[Problem, ...]:
        """Keep nothing."""
        del content
        return ()


def _read_once(path: Path, limit: int) -> tuple[bytes, _Key, _Key]:
    descriptor = os.open(path, _READ_FLAGS)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise _Refused(Code.UNREADABLE, "is not a regular file")
        if status.st_size > limit:
            raise _Refused(Code.TOO_LARGE, too_large(limit), "split the file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            content = file.read(limit)
        return content, _key(status), _key(os.fstat(descriptor))
    finally:
        os.close(descriptor)


def _stat_key(path: str) -> _Key | None:
    try:
        return _key(os.stat(path))  # noqa: PTH116 - asked for every turn, and a Path costs more
    except OSError:
        return None


def _is_settled(key: _Key) -> bool:
    _, _, changed_ns, _ = key
    return not 0 <= time.time_ns() - changed_ns < SETTLED_NS


def _key(status: os.stat_result) -> _Key:
    return (status.st_mtime_ns, status.st_size, status.st_ctime_ns, status.st_ino)


def _problem(path: Path, code: Code, message: str, hint: str = "") -> Problem:
    return Problem(Place(str(path), 1, 1), code, message, hint)


def _reason(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()
