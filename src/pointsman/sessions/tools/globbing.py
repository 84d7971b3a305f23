"""Globs over paths: `*` and `?` within one step, `**` over any number of them, `[a-z]`, `{a,b}`.

A glob without `/` is asked of the last step alone, as people expect of `*.py`. Compiled to RE2, so
that matching takes linear time whatever the glob is.
"""

from __future__ import annotations

import re2

from pointsman.kernel.document import escape
from pointsman.sessions.tools.failure import invalid_input

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
