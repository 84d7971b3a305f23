"""Statements as PostgreSQL says them.

Stores write SQLite's dialect. A block that PostgreSQL cannot take has its own text in a file of
the same name beside this module; of the others only the marks for values differ.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

from pointsman.storage.sqlite.database import named_blocks, sql_text

_MARK = re.compile(r"'(?:[^']|'')*'|%|\?|(?<![:\w]):([a-z_]\w*)")
_BLOB = re.compile(r"\bx'([0-9a-fA-F]*)'")


@cache
def spoken(sql: str) -> str:
    """Return a statement of SQLite in PostgreSQL's words."""
    own = _own_texts().get(sql)
    return to_driver_marks(own if own is not None else _BLOB.sub(r"'\\x\1'::bytea", sql))


def to_driver_marks(sql: str) -> str:
    """Write `?` and `:name` as the driver wants them."""
    return _MARK.sub(_driver_mark, sql)


def _driver_mark(found: re.Match[str]) -> str:
    text = found[0]
    if text == "?":
        return "%s"
    if text.startswith(":"):
        return f"%({found[1]})s"
    return text.replace("%", "%%")


@cache
def _own_texts() -> Mapping[str, str]:
    """Return what is said differently, by the text that SQLite takes."""
    texts: dict[str, str] = {}
    for path in sorted(Path(__file__).parent.glob("*.sql")):
        meant = named_blocks(sql_text(path.name))
        own = named_blocks(path.read_text(encoding="utf-8"))
        texts.update({meant[name]: text for name, text in own.items()})
    return MappingProxyType(texts)
