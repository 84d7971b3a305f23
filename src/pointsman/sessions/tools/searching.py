"""`search`: lines of the workspace's text files that a pattern matches, with bounded work.

RE2 takes linear time whatever the pattern is. Skipped files are always reported.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from typing import NamedTuple

import re2
from msgspec import Struct

from pointsman.kernel.document import escape, printable
from pointsman.sessions.tool import ToolDefinition
from pointsman.sessions.tools.excerpt import Excerpt
from pointsman.sessions.tools.failure import CallFailed, invalid_input
from pointsman.sessions.tools.listing import CLOSED_NAMES, FolderEntry, entries
from pointsman.sessions.tools.schema import Field, object_schema
from pointsman.sessions.tools.stop import Stop
from pointsman.sessions.tools.workspace import Location, WorkspaceFolder

LONGEST_GLOB = 1_000


class Glob:
    """A parsed glob that tests paths."""

    def __init__(self, text: str) -> None:
        if len(text) > LONGEST_GLOB:
            raise invalid_input(f"a glob has at most {LONGEST_GLOB} characters")
        self._is_anchored = "/" in text
        text = text.removeprefix("./").removeprefix("/")
        self._start = _plain_start(text) if self._is_anchored else ""
        self._fits = compile_pattern(_pattern(text), text).fullmatch

    def fits(self, path: str) -> bool:
        """Return whether a path from the root fits."""
        seen = path if self._is_anchored else path.rpartition("/")[2]
        return self._fits(seen.encode("utf-8", "replace")) is not None

    def may_be_below(self, folder: str) -> bool:
        """Return whether a path below a folder could fit: other folders need not be entered."""
        below = f"{folder}/"
        return below.startswith(self._start) or self._start.startswith(below)


def compile_pattern(pattern: str, shown: str) -> re2._Regexp:
    """Compile a pattern over bytes, in which no line end is ever matched."""
    try:
        return re2.compile(pattern.encode(), _options())
    except UnicodeEncodeError:
        raise invalid_input("a pattern cannot hold half of a surrogate pair") from None
    except re2.error as error:
        raise invalid_input(f"`{escape(shown)}` cannot be used: {_reason(error)}") from None


def _options() -> re2.Options:
    options = re2.Options()
    options.log_errors = False
    options.never_nl = True
    options.max_mem = 8 << 20
    return options


def _reason(error: re2.error) -> str:
    reason = error.args[0] if error.args else "it cannot be read"
    return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)


def _plain_start(glob: str) -> str:
    """Return the steps of a glob before its first special letter."""
    first = min((at for each in "*?[{" if (at := glob.find(each)) >= 0), default=len(glob))
    return glob[: glob.rfind("/", 0, first) + 1]


def _pattern(glob: str) -> str:
    parts, at, depth = [], 0, 0
    while at < len(glob):
        part, at = _part(glob, at, depth)
        depth += (part == "(?:") - (part == ")")
        parts.append(part)
    if depth:
        raise invalid_input(f"`{escape(glob)}` opens a brace that it does not close")
    return "".join(parts)


def _part(glob: str, at: int, depth: int) -> tuple[str, int]:
    """Return the pattern of the part at a position, and where the next part begins."""
    if glob.startswith("**/", at) and (at == 0 or glob[at - 1] == "/"):
        return "(?:[^/]+/)*", at + 3
    if glob.startswith("**", at):
        return ".*", at + 2
    letter = glob[at]
    if letter == "[" and (end := glob.find("]", at + 2)) > 0:
        return _letters(glob[at + 1 : end]), end + 1
    if depth and letter in ",}":
        return "|" if letter == "," else ")", at + 1
    simple = {"*": "[^/]*", "?": "[^/]", "{": "(?:"}
    return simple.get(letter) or str(re2.escape(letter)), at + 1


def _letters(inner: str) -> str:
    negated = inner.startswith(("!", "^"))
    body = inner[negated:].replace("\\", r"\\").replace("[", r"\[").replace("^", r"\^")
    return f"[^/{body}]" if negated else f"[{body}]"


LONGEST_PATTERN = 1_000
LARGEST_FILE = 4 * 1024 * 1024
MOST_BYTES = 256 * 1024 * 1024
MOST_FILES = 50_000
MOST_SECONDS = 20
MOST_LINES = 1_000
LINES = 100
LONGEST_LINE = 300
DEEPEST = 64

SEARCH = ToolDefinition(
    "search",
    "Find lines that an RE2 pattern matches in the text files of the workspace; each is given as "
    f"`path:line: text`. {', '.join(CLOSED_NAMES)} are not entered unless `path` names them.",
    object_schema(
        Field("pattern", "string", "RE2 pattern; (?i) at its start ignores case", required=True),
        Field("path", "string", "file or folder to look in; the workspace unless given"),
        Field("glob", "string", "only files that fit, such as `*.py` or `src/**/*.ts`"),
        Field("most", "integer", f"lines to give, {LINES} unless given, at most {MOST_LINES}"),
    ),
    "read",
)


class SearchInput(Struct, frozen=True):
    """The input of `search`."""

    pattern: str
    path: str = "."
    glob: str = ""
    most: int = LINES


class MatchedLine(NamedTuple):
    """A line that matches."""

    path: str
    line: int
    text: str


def search(workspace: WorkspaceFolder, asked: SearchInput, stop: Stop) -> str:
    """Return the matching lines, files in order of their paths, and notes on skipped files."""
    if len(asked.pattern) > LONGEST_PATTERN:
        raise invalid_input(f"`pattern` has at most {LONGEST_PATTERN} characters")
    if not 1 <= asked.most <= MOST_LINES:
        raise invalid_input(f"`most` lies between 1 and {MOST_LINES}")
    searching = _Search(workspace, asked, stop)
    excerpt = Excerpt()
    for count, hit in enumerate(searching.hits()):
        if count == asked.most:
            searching.missed.append(f"more lines match; these are the first {count}")
            break
        excerpt.write(f"{printable(hit.path)}:{hit.line}: {printable(hit.text)}\n")
    notes = "".join(f"[{note}]\n" for note in searching.notes())
    return (excerpt.text() or "no line matches\n") + notes


class _Search:
    """One search: its pattern, and the work done so far."""

    def __init__(self, workspace: WorkspaceFolder, asked: SearchInput, stop: Stop) -> None:
        self._workspace = workspace
        self._asked = asked
        self._stop = stop
        self._pattern = compile_pattern(f"(?m:{asked.pattern})", asked.pattern)
        self._glob = Glob(asked.glob) if asked.glob else None
        self._until = time.monotonic() + MOST_SECONDS
        self._bytes = self._files = self._large = self._binary = self._closed = 0
        self.missed: list[str] = []

    def notes(self) -> Iterator[str]:
        """Yield notes on skipped files, with the reason."""
        yield from self.missed
        if self._large:
            yield f"{self._large} files above {LARGEST_FILE} bytes not searched"
        if self._binary:
            yield f"{self._binary} binary files not searched"
        if self._closed:
            yield f"{self._closed} files or folders could not be opened"

    def hits(self) -> Iterator[MatchedLine]:
        """Yield the matching lines."""
        path = self._asked.path
        with self._workspace.locate(path) as location:
            if location.found is not None and stat.S_ISREG(location.found.st_mode):
                yield from self._in_file(location)
                return
        with self._workspace.folder(path) as (folder, inside):
            yield from self._in_folder(folder, inside, DEEPEST)

    def _in_folder(self, folder: int, path: str, depth: int) -> Iterator[MatchedLine]:
        found, more = entries(folder, path)
        if more:
            self.missed.append(f"`{escape(path)}` has too many names; only some were looked at")
        for entry in self._stop.iterate(found):
            if self._is_used_up():
                return
            location = Location(folder, entry.name, f"{path}/{entry.name}".lstrip("/"), entry.found)
            if self._is_entered(entry, location.path):
                yield from self._in_inner(location, depth - 1)
            elif self._is_wanted(entry, location.path):
                yield from self._in_file(location)

    def _in_inner(self, location: Location, depth: int) -> Iterator[MatchedLine]:
        if depth == 0:
            self.missed.append(f"`{escape(location.path)}` lies too deep")
            return
        try:
            folder = self._workspace.open_folder(location, location.path)
        except CallFailed:
            self._closed += 1
            return
        try:
            yield from self._in_folder(folder, location.path, depth)
        finally:
            os.close(folder)

    def _is_entered(self, entry: FolderEntry, path: str) -> bool:
        if not entry.is_folder or entry.name in CLOSED_NAMES:
            return False
        return self._glob is None or self._glob.may_be_below(path)

    def _is_wanted(self, entry: FolderEntry, path: str) -> bool:
        if not stat.S_ISREG(entry.found.st_mode):
            return False
        return self._glob is None or self._glob.fits(path)

    def _is_used_up(self) -> bool:
        reason = ""
        if self._files >= MOST_FILES:
            reason = f"{MOST_FILES} files"
        elif self._bytes >= MOST_BYTES:
            reason = f"{MOST_BYTES} bytes"
        elif time.monotonic() > self._until:
            reason = f"{MOST_SECONDS} seconds"
        if reason and not any(each.startswith("stopped after") for each in self.missed):
            self.missed.append(f"stopped after {reason}: name a `path` or a `glob`")
        return bool(reason)

    def _in_file(self, location: Location) -> Iterator[MatchedLine]:
        content = self._content(location)
        if content is None:
            return
        line, counted_to, at = 1, 0, 0
        while at <= len(content) and (match := self._pattern.search(content, at)):
            begin = content.rfind(b"\n", 0, match.start()) + 1
            end = content.find(b"\n", match.start())
            end = len(content) if end < 0 else end
            if begin == len(content) and begin > 0:
                return
            line += content.count(b"\n", counted_to, begin)
            yield MatchedLine(location.path, line, _clip_line(content[begin:end]))
            counted_to, at = begin, end + 1

    def _content(self, location: Location) -> bytes | None:
        """Read a file; None, and counted, where it is not searched."""
        self._files += 1
        try:
            descriptor = self._workspace.open_file(location, location.path)
        except CallFailed:
            self._closed += 1
            return None
        with os.fdopen(descriptor, "rb") as file:
            content = file.read(LARGEST_FILE + 1)
        self._bytes += len(content)
        if len(content) > LARGEST_FILE:
            self._large += 1
            return None
        if b"\0" in content[:8192]:
            self._binary += 1
            return None
        return content


def _clip_line(line: bytes) -> str:
    text = line[: LONGEST_LINE * 4].decode("utf-8", "replace").rstrip("\r")
    return text if len(text) <= LONGEST_LINE else text[:LONGEST_LINE] + "…"
