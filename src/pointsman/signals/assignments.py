"""Secrets told by the name beside them: assignments, headers, addresses with a password."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from pointsman.signals.hit import Found
from pointsman.signals.scanned import Scanned
from pointsman.signals.variety import is_placeholder, is_varied

_WORDS_FOR_PASSWORDS = (
    r"pass(?:word|wd|phrase|wort|code)|kennwort|pwd|\bpw\b|mot de passe|contrase\xc3\xb1a"
    r"|contrasena|senha|wachtwoord|has\xc5\x82o"
)
_WORDS_FOR_KEYS = (
    r"secret|token|api[_\-. ]?key|access[_\-]?key|auth[_\-]?key|private[_\-]?key|account[_\-]?key"
    r"|signing[_\-]?key|encryption[_\-]?key|storage[_\-]?key|credential|shared[_\-]?access[_\-]?key"
)
_NAME = (
    rf"(?i:(?:{_WORDS_FOR_PASSWORDS}|{_WORDS_FOR_KEYS})[A-Za-z0-9_\-]*[\"'`\])]{{0,2}}[ \t]{{0,8}}"
    r"(?::=|=>|=|:| is | lautet | est | es )[ \t]{0,8})"
    rf"|(?i:--(?:[a-z]+-)?(?:password|token|api-key|secret|secret-key|access-token)[ =])"
    r"|(?i:\b(?:bearer|basic|x-api-key:) +)"
)
_VALUE = re.compile(
    r"(?:[fbr]?\"([^\"\r\n]{1,512})\"|[fbr]?'([^'\r\n]{1,512})'|`([^`\r\n]{1,512})`"
    r"|([^\s\"'`,;|\\]{1,512}))"
)
_NEXT_IN_QUERY = re.compile(r"&(?=[A-Za-z0-9_.\-]+=)")
_LONGEST = 520
_PASSWORD = re.compile(_WORDS_FOR_PASSWORDS, re.IGNORECASE)
# What such a name may end in when its value is no secret.
_ABOUT = re.compile(
    r"(?:hash|digest|ids?|count|limit|name|type|ur[il]|path|file|expir\w*|ttl|length|len|size|max|min"
    r"|policy|field|label|hint|arn|version|index|usage|budget|ref|env|var|prefix|header|error|age"
    r"|rotation|reset|bucket|algorithm|issuer|audience|kind|row|ed|izer|s)"
    r"[\"'`\])]{0,2}[ \t]*(?::=|=>|=|:)[ \t]*\Z",
    re.IGNORECASE,
)
_IDENTIFIER = re.compile(r"[A-Za-z_]+(?:[._\-/:][A-Za-z_]+)*[!?.,]?")
_CODE = re.compile(
    r"[()\[\]{}<>]|^[/~.$%]|::|->|^(?:self|this|os|process|env|config|settings|request)\."
)
_TOKEN = re.compile(r"[A-Za-z0-9_\-./+=~:!@#%^*]+")
# Words that millions use as passwords and no page as an example.
_FAMOUS = frozenset(("letmein", "qwerty", "qwertz", "azerty", "iloveyou", "dragon", "superman"))

_AZURE_NAME = re.compile(
    r"account[_\-]?key|shared[_\-]?access[_\-]?key|azure|storage", re.IGNORECASE
)
_AZURE_VALUE = re.compile(r"[A-Za-z0-9+/]{86}==|[A-Za-z0-9+/]{43}=")
_AWS_NAME = re.compile(r"aws|secret[_\-]?access[_\-]?key", re.IGNORECASE)
_AWS_VALUE = re.compile(r"[A-Za-z0-9/+]{40}")

_URL = r"\b[A-Za-z][A-Za-z0-9+.\-]*://[^\s/?#:@\"'<>]*:[^\s/@\"'<>]+@[A-Za-z0-9.\-\[\]_]+"
PATTERNS = (_NAME, _URL)
"""Without a match of one of these, the finders below find nothing; so in the other modules."""
_NOTHING = ("", "")
_A_PASSWORD = ("password_assignment", "a value beside a word for passwords")
_A_KEY = ("generic_secret", "a varied value beside a word for keys")
_SHORTEST_PASSWORD = 6
_SHORTEST_TOKEN = 16


class _Assigned(NamedTuple):
    name: str
    value: str
    start: int
    is_quoted: bool


def assigned_secrets(text: Scanned) -> Iterator[Found]:
    """Find values that stand beside a word for passwords or keys."""
    done = 0
    for start, end in text.spans(_NAME):
        if start < done:
            continue
        held = _find_value(text, start, end)
        # What stands without quotes is one word: names inside it start no second value.
        done = held.start + len(held.value) if held and not held.is_quoted else done
        kind, reason = _classify(text, held, start) if held else ("", "")
        if held and kind:
            yield Found(kind, held.start, held.start + len(held.value), reason)


def _find_value(text: Scanned, start: int, end: int) -> _Assigned | None:
    found = _VALUE.match(text.after(end, _LONGEST))
    if found is None or found[0].startswith("="):
        return None
    group = found.lastindex or 0
    value, is_quoted = found[group], group < 4
    if not is_quoted:
        value = _NEXT_IN_QUERY.split(value, maxsplit=1)[0].rstrip(".:?)]}")
    return _Assigned(text.piece(start, end), value, end + found.start(group), is_quoted)


def _classify(text: Scanned, held: _Assigned, start: int) -> tuple[str, str]:
    """Return the kind of a value and the reason; two empty texts for none."""
    if is_placeholder(held.value):
        return _NOTHING
    around = text.before(start, 24) + held.name
    if _AZURE_NAME.search(around) and _AZURE_VALUE.fullmatch(held.value):
        return "azure_storage_key", "a base64 key of Azure's length beside its name"
    if _AWS_NAME.search(around) and _AWS_VALUE.fullmatch(held.value) and is_varied(held.value, 7):
        return "aws_secret_key", "40 base64 characters beside a name of AWS"
    if _ABOUT.search(held.name):
        return _NOTHING
    if _PASSWORD.search(held.name):
        return _A_PASSWORD if _is_password(held) else _NOTHING
    return _A_KEY if _is_key(held) else _NOTHING


def _is_password(held: _Assigned) -> bool:
    value = held.value
    if len(value) < _SHORTEST_PASSWORD or (" " in value and "phrase" not in held.name.lower()):
        return False
    if value.lower() in _FAMOUS:
        return True
    if _IDENTIFIER.fullmatch(value) and not _is_mixed(value):
        return "phrase" in held.name.lower() and held.is_quoted
    if not held.is_quoted and _CODE.search(value):
        return False
    return is_varied(value, 3)


def _is_mixed(value: str) -> bool:
    """Say whether capitals stand inside a word as they do in no spelling of a name."""
    turns = sum(a.islower() != b.islower() for a, b in pairwise(value))
    return turns * 2 > len(value) and value.isalpha()


def _is_key(held: _Assigned) -> bool:
    value = held.value
    if len(value) < _SHORTEST_TOKEN or not _TOKEN.fullmatch(value):
        return False
    if (_IDENTIFIER.fullmatch(value) and not _is_mixed(value)) or _CODE.search(value):
        return False
    has_digit = any(char.isdigit() for char in value)
    return (has_digit or _is_mixed(value)) and is_varied(value, 6)


def credential_urls(text: Scanned) -> Iterator[Found]:
    """Find addresses that carry a user's password."""
    if b"://" not in text.data:
        return
    for start, end in text.spans(_URL):
        piece = text.piece(start, min(end, start + 2048))
        password = piece.partition("://")[2].rpartition("@")[0].partition(":")[2]
        if password and not is_placeholder(password) and not _is_stand_in(password):
            reason = "an address with a user, a password and a server"
            yield Found("basic_auth_url", start, end, reason)


def _is_stand_in(password: str) -> bool:
    return password.lower() in {"pass", "pw", "pwd", "password1", "user", "x-oauth-basic"}
