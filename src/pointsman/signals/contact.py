"""E-mail addresses and telephone numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from pointsman.signals.calling_codes import calling_code
from pointsman.signals.hit import Found
from pointsman.signals.scanned import Scanned

# Letters above ASCII are those of two bytes: Latin, Greek, Cyrillic. Chinese or Japanese text often
# stands right beside an address, without a blank.
_ABOVE = r"[\xc3-\xd4][\x80-\xbf]"
_EMAIL = (
    rf"(?:[A-Za-z0-9._%+'\-]|{_ABOVE})*(?:[A-Za-z0-9_%+\-]|{_ABOVE})@"
    rf"(?:[A-Za-z0-9]|{_ABOVE})(?:[A-Za-z0-9\-]|{_ABOVE})*"
    rf"(?:\.(?:[A-Za-z0-9]|{_ABOVE})(?:[A-Za-z0-9\-]|{_ABOVE})*)+"
)
_TOP_LEVEL = re.compile(r"[A-Za-z\x80-\xff]{2,24}|xn--[A-Za-z0-9-]+")
# Endings of files and units that are no top-level domains.
_NO_DOMAIN = frozenset(
    (
        *(
            "png",
            "jpg",
            "jpeg",
            "gif",
            "svg",
            "webp",
            "ico",
            "css",
            "scss",
            "js",
            "mjs",
            "jsx",
            "ts",
        ),
        *("tsx", "json", "html", "htm", "xml", "yaml", "yml", "toml", "txt", "pdf", "csv", "log"),
        *("conf", "cfg", "ini", "lock", "bak", "exe", "dll", "jar", "war", "class", "cpp", "hpp"),
        *("service", "socket", "timer", "mount", "automount", "target", "slice", "scope", "path"),
        *("device", "swap"),
    )
)
_INSIDE_URL = re.compile(r"://[^\s/@?#]*\Z")
_PATH_OR_CALL = re.compile(r"\(\)|:(?:[~/]|[A-Za-z0-9_.\-]+/)")
_LONGEST_LOCAL = 64

_INTERNATIONAL = r"(?:\+|\b00)\(?[1-9](?:[ .\-/()]{0,3}\d){6,14}"
_AMERICAN = (
    r"(?:\b1[ \-])?\([2-9]\d{2}\) ?[2-9]\d{2}[ .\-]\d{4}\b"
    r"|\b(?:1-)?[2-9]\d{2}-[2-9]\d{2}-\d{4}\b|\b(?:1\.)?[2-9]\d{2}\.[2-9]\d{2}\.\d{4}\b"
)
_EUROPEAN = (
    r"\b0[1-9](?:(?: \d{2}){4}|(?:\.\d{2}){4}|(?:-\d{2}){4})\b"  # France
    r"|\(?\b0[1-9]\d{1,4}\)?(?: ?/ ?)\d{3,4}[ \-]?\d{2,5}(?:[ \-]\d{2,4})?\b"  # Germany, Austria
    r"|\b07\d{3} \d{3} ?\d{3}\b|\b0[12]\d{1,3} \d{3,4} \d{4}\b"  # United Kingdom
    r"|\b0[2-9]\d{2,3} \d{6,8}\b"  # Germany, with a blank
    r"|\b06[ \-]\d{8}\b|\b06(?: \d{2}){4}\b|\b0[1-9]\d[ \-]\d{7}\b"  # Netherlands
)
_UNMARKED = rf"{_AMERICAN}|{_EUROPEAN}"
_NAMED = (
    r"(?i:\b(?:tel|t\xc3\xa9l|telefon|telephone|telefono|tel\xc3\xa9fono|t\xc3\xa9l\xc3\xa9phone"
    r"|telefoon|telefone|phone|mobile|mob|cell|fax|handy|mobil|m\xc3\xb3vil|movil|celular|cellulare"
    r"|portable|gsm|whatsapp|rufnummer|festnetz|phone[_ ]?(?:no|number)|sms)"
    r"[A-Za-z_ ]{0,14}"
    r"|\b(?:call|ring|text|dial|reach|bel)(?: (?:me|us|him|her|them))?(?: (?:at|on))?)"
    r"[.:#]{0,2}[\"']?[ \t=:]{0,3}[\"'(]{0,2}\d(?:[ .\-/()]{0,2}\d){6,13}"
)
PATTERNS = (_INTERNATIONAL, _UNMARKED, _NAMED)
_FEWEST_DIGITS = 7
_NUMBER = re.compile(r"\(?[0-9]")
_DATE = re.compile(
    r"(?:19|20)\d\d-(?:19|20)\d\d|(?:19|20)\d\d[-./]\d{1,2}[-./]\d{1,2}"
    r"|\d{1,2}[-./]\d{1,2}[-./](?:19|20)\d\d"
)
_PART_BEFORE = re.compile(r"(?:[0-9A-Za-z_+]|[0-9][.,:/-]|[A-Za-z]-|[$])\Z")
_ROW_BEFORE = re.compile(r"[0-9] \Z")
_ROW_AFTER = re.compile(r" [0-9A-Fa-f]{2}\b")
_COUNTED = ({1}, {-1}, {2}, {-2}, {10}, {11})
_GOES_ON = re.compile(r"[0-9A-Za-z_]|[.,:/-][0-9A-Za-z]")


def emails(text: Scanned) -> Iterator[Found]:
    """Find e-mail addresses; `git@host:path` and passwords in addresses of servers are none."""
    if b"@" not in text.data:
        return
    for start, end in text.spans(_EMAIL):
        local, _, domain = text.piece(start, end).rpartition("@")
        if _is_address(text, local, domain, start, end):
            shift = max(len(local) - len(local.lstrip(".'")), 0)
            yield Found("email", start + shift, end, "a name, an at sign and a domain")


def _is_address(text: Scanned, local: str, domain: str, start: int, end: int) -> bool:
    last = domain.rpartition(".")[2]
    if not _TOP_LEVEL.fullmatch(last) or last.lower() in _NO_DOMAIN:
        return False
    if local == "git" or len(local) > _LONGEST_LOCAL or ".." in local:
        return False
    if _PATH_OR_CALL.match(text.after(end, _LONGEST_LOCAL)):
        return False
    return not _INSIDE_URL.search(text.before(start, 2 * _LONGEST_LOCAL))


def phones(text: Scanned) -> Iterator[Found]:
    """Find telephone numbers: with a country code, as a country writes them, or after a word."""
    yield from _international(text)
    for start, end in text.spans(_UNMARKED):
        if not _is_row(text, start, end) and not _is_part(text, start, end):
            yield Found("phone", start, end, "digits grouped as telephone numbers are written")
    yield from _find_named(text)


def _international(text: Scanned) -> Iterator[Found]:
    for start, end in text.spans(_INTERNATIONAL):
        piece = text.piece(start, end)
        is_bare = piece.startswith("00") and piece.isdigit()
        if is_bare or piece[-2:-1] == "." or _PART_BEFORE.search(text.before(start, 2)):
            continue
        for length in _cuts(piece):
            digits = "".join(filter(str.isdigit, piece[:length]))
            code = calling_code(digits.removeprefix("00"))
            if code is not None and not _GOES_ON.match(text.after(start + length, 2)):
                reason = f"country calling code {code} and a fitting number of digits"
                yield Found("phone", start, start + length, reason)
                break


def _cuts(piece: str) -> Iterator[int]:
    """Return the piece's length, then its length without its last one or two groups."""
    yield len(piece)
    for _ in range(2):
        cut = piece.rstrip("0123456789").rstrip(" .-/()")
        if cut and cut != piece:
            yield len(cut)
        piece = cut


def _find_named(text: Scanned) -> Iterator[Found]:
    for start, end in text.spans(_NAMED):
        piece = text.piece(start, end)
        number = _NUMBER.search(piece)
        first = number.start() if number else 0
        digits = sum(char.isdigit() for char in piece[first:])
        if digits >= _FEWEST_DIGITS and not _is_part(text, start + first, end):
            yield Found("phone", start + first, end, "digits after a word for telephones")


def _is_row(text: Scanned, start: int, end: int) -> bool:
    """Say whether digits stand in a row of numbers, as in dumps and tables, or count up or down."""
    piece = text.piece(start, end)
    if " " not in piece:
        return False
    if _ROW_BEFORE.search(text.before(start, 2)) or _ROW_AFTER.match(text.after(end, 4)):
        return True
    groups = [int(group) for group in re.findall(r"[0-9]+", piece)]
    return len(groups) == 5 and {b - a for a, b in pairwise(groups)} in _COUNTED


def _is_part(text: Scanned, start: int, end: int) -> bool:
    """Say whether digits are the middle of something longer, or a date."""
    if _PART_BEFORE.search(text.before(start, 2)) or _GOES_ON.match(text.after(end, 2)):
        return True
    return _DATE.fullmatch(text.piece(start, end)) is not None
