"""IP addresses: those of the internet, and those of private networks as a kind of their own.

Loopback, unspecified, link-local, multicast and broadcast addresses and netmasks name no
machine and are no hits. Our own parsing: the standard library's has changed between versions.
"""

from __future__ import annotations

from collections.abc import Iterator

from pointsman.signals.hit import Found
from pointsman.signals.scanned import Scanned

_VERSION_4 = r"\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}\b"
_VERSION_6 = r"\b[23FfDd][0-9A-Fa-f]{3}:[0-9A-Fa-f:]*[0-9A-Fa-f:]"
PATTERNS = (_VERSION_4, _VERSION_6)
_RELEASE_WORDS = frozenset(
    (
        *(
            "version",
            "versions",
            "versione",
            "versionen",
            "versi\xc3\xb3n",
            "ver",
            "v",
            "build",
            "patch",
        ),
        *(
            "release",
            "releases",
            "released",
            "firmware",
            "driver",
            "sdk",
            "rev",
            "revision",
            "grade",
        ),
        *("section", "sections", "chapter", "clause", "kapitel", "abschnitt", "\xc2\xa7", "oid"),
        *("chrome", "edge"),
    )
)
_STEP_WORDS = ("upgrade", "downgrade", "update")
_LINK_SIGNS = " :=./\"'(-"
_REQUIRED = ("==", "~=", ">=", "<=", "!=", "~", "^")
_LONGEST_LINK = 6
"""Characters between two versions of one list, as in `1.2.3.4 to 1.2.3.5`."""


def ip_addresses(text: Scanned) -> Iterator[Found]:
    """Find addresses of both versions."""
    yield from _fours(text)
    yield from _sixes(text)


def _fours(text: Scanned) -> Iterator[Found]:
    release_end = -2 * _LONGEST_LINK
    for start, end in text.spans(_VERSION_4):
        parts = text.piece(start, end).split(".")
        if any(int(part) > 255 or (part[0] == "0" and part != "0") for part in parts):
            continue
        is_next = start - release_end <= _LONGEST_LINK and "\n" not in text.piece(
            release_end, start
        )
        if is_next or _is_release(text, start):
            release_end = end
        elif not _goes_on(text, start, end):
            yield from _findings(_range_of_4([int(part) for part in parts]), start, end)


def _goes_on(text: Scanned, start: int, end: int) -> bool:
    after = text.after(end, 2)
    is_longer = after[:1] in {".", "-"} and after[1:].isalnum()
    return is_longer or text.before(start, 1) in {".", "-", "_", "$"}


def _is_release(text: Scanned, start: int) -> bool:
    """Say whether what stands before makes a number a version, a section or a product's release."""
    before = text.before(start, 32).lower()
    if before.rstrip(" ").endswith(_REQUIRED) or (before[-1:] == "/" and before[-2:-1].isalpha()):
        return True
    words = before.rstrip(_LINK_SIGNS).rsplit(None, 2)
    last = words[-1].strip(_LINK_SIGNS) if words else ""
    if last.rstrip("0123456789") in _RELEASE_WORDS:
        return True
    return last in {"to", "from"} and len(words) > 1 and words[-2].startswith(_STEP_WORDS)


def _range_of_4(parts: list[int]) -> str:
    """Name the range of an address; empty for one that names no machine."""
    first, second = parts[0], parts[1]
    if first in {0, 127, 255} or first >= 224 or (first, second) == (169, 254):
        return ""
    if first == 10:
        return "private range 10/8"
    if first == 172 and 16 <= second <= 31:
        return "private range 172.16/12"
    if (first, second) == (192, 168):
        return "private range 192.168/16"
    if first == 100 and 64 <= second <= 127:
        return "shared range 100.64/10"
    return "internet"


def _findings(where: str, start: int, end: int) -> Iterator[Found]:
    if where == "internet":
        yield Found("ip_address", start, end, "an address of the internet, no version number")
    elif where:
        yield Found("private_ip_address", start, end, f"an address of the {where}")


def _sixes(text: Scanned) -> Iterator[Found]:
    for start, end in text.spans(_VERSION_6):
        written = text.piece(start, end)
        if written.endswith(":") and not written.endswith("::"):
            written = written[:-1]
        if not _is_version_6(written) or text.before(start, 1) == ":":
            continue
        where = "private range fc00::/7" if written[0] in "fFdD" else "internet"
        yield from _findings(where, start, start + len(written))


def _is_version_6(written: str) -> bool:
    if written[0] in "fFdD" and written[:2].lower() not in {"fc", "fd"}:
        return False
    left, double, right = written.partition("::")
    groups = left.split(":") + (right.split(":") if right else [])
    if any(not 1 <= len(group) <= 4 for group in groups):
        return False
    return len(groups) <= 7 if double else len(groups) == 8
