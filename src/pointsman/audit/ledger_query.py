"""Counting entries of the ledger by kind, period and the values in their payloads.

A report's number is one of these queries and its result, so that a reader can ask for it again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from pointsman.errors import InputError
from pointsman.kernel.entry import Entry
from pointsman.kernel.instant import EPOCH, LATEST, Instant
from pointsman.kernel.record import DECISION
from pointsman.storage.home import Home
from pointsman.storage.stores.entries import LedgerReader

MOST_GROUPS: Final = 1000
_SEGMENT: Final = re.compile(r"([\w@-]+)(?:\[([\w-]+)=([^\]]*)\])?", re.ASCII)
_CONDITION: Final = re.compile(r"((?:[^=!\[]|\[[^\]]*\])*)(=|!=)(.*)", re.DOTALL)

Segment = tuple[str, str, str]
"""A name of a path, and the field and the value that an element of a list there must have."""


class LedgerQuery(Struct, frozen=True):
    """A count of entries: `kind` is one kind, or the beginning of several with `*` behind it.

    `where` are conditions like `status=failed` or `trace.chain[verdict=chose].policy=rule`; a path
    that passes a list means any of its elements. `by` is a path to group by, `total` one to
    add up in place of counting. `@kind` and `@ref` are the entry's own.
    """

    kind: str
    where: tuple[str, ...] = ()
    by: str = ""
    total: str = ""


class ReportPeriod(Struct, frozen=True):
    """From an instant up to and without another, for one tenant or for all."""

    start: Instant = EPOCH
    end: Instant = LATEST
    tenant: str | None = None


class QueryResult(Struct, frozen=True):
    """The number a query gives, and the numbers of its groups, the largest first."""

    value: int
    groups: dict[str, int] = {}


def run_queries(
    home: Home, reader: LedgerReader, queries: Sequence[LedgerQuery], period: ReportPeriod
) -> list[QueryResult]:
    """Run queries over a period; each kind is read once for all of them."""
    own = _own_names(home, period)
    runs = [_Run(query) for query in queries]
    for kind in dict.fromkeys(query.kind for query in queries):
        asked = [run for run in runs if run.query.kind == kind]
        for entry in _entries(reader, kind, period):
            if own is not None and entry.id not in own and entry.ref not in own:
                continue
            value = _value(entry)
            for run in asked:
                run.take(entry, value)
    return [run.result() for run in runs]


def _entries(reader: LedgerReader, kind: str, period: ReportPeriod) -> Iterator[Entry]:
    prefix = kind.removesuffix("*")
    for stored in reader.of_kind(prefix, period.start):
        if stored.entry.at >= period.end:
            return
        if stored.entry.kind == kind or kind.endswith("*"):
            yield stored.entry


def _own_names(home: Home, period: ReportPeriod) -> frozenset[str] | None:
    """Return the ids and subjects of a tenant's decisions: by them the rest is known as theirs."""
    if period.tenant is None:
        return None
    reader = home.seen_by(period.tenant).reader()
    try:
        found = [
            name
            for stored in reader.of_kind(DECISION)
            if stored.entry.at < period.end
            for name in (stored.entry.id, stored.entry.ref)
        ]
    finally:
        reader.close()
    return frozenset(found) - {""}


class _Run:
    """One query on its way through the entries."""

    def __init__(self, query: LedgerQuery) -> None:
        self.query = query
        self._conditions = [read_condition(text) for text in query.where]
        self._by = read_path(query.by) if query.by else None
        self._total = read_path(query.total) if query.total else None
        self._count = 0
        self._groups: Counter[str] = Counter()

    def take(self, entry: Entry, value: object) -> None:
        """Count an entry where it is one of those asked for."""
        if not all(condition(entry, value) for condition in self._conditions):
            return
        count = 1
        if self._total is not None:
            numbers = [each for each in found_at(entry, value, self._total) if type(each) is int]
            count = sum(numbers)
        self._count += count
        if self._by is not None:
            for group in dict.fromkeys(map(_text, found_at(entry, value, self._by))) or [""]:
                self._groups[group] += count

    def result(self) -> QueryResult:
        """Return the number and its groups."""
        groups = sorted(self._groups.items(), key=lambda each: (-each[1], each[0]))
        return QueryResult(self._count, dict(groups[:MOST_GROUPS]))


def read_condition(text: str) -> Callable[[Entry, object], bool]:
    """Read a condition, or raise saying how one is written."""
    found = _CONDITION.fullmatch(text)
    if found is None:
        hint = "write PATH=VALUE or PATH!=VALUE"
        raise InputError(f"`{text[:100]}` is not a condition", hint=hint)
    path, wanted, is_equal = read_path(found[1]), found[3], found[2] == "="

    def holds(entry: Entry, value: object) -> bool:
        return (wanted in map(_text, found_at(entry, value, path))) is is_equal

    return holds


def read_path(text: str) -> tuple[Segment, ...]:
    """Read a path into a payload, or raise saying how one is written."""
    found = [_SEGMENT.fullmatch(part) for part in re.split(r"\.(?![^\[]*\])", text)]
    segments = tuple((each[1], each[2] or "", each[3] or "") for each in found if each is not None)
    if len(segments) != len(found) or len(segments) > 20:
        hint = "write names with dots, like decision.outcome.chosen_model"
        raise InputError(f"`{text[:100]}` is not a path", hint=hint)
    return segments


def found_at(entry: Entry, value: object, path: Iterable[Segment]) -> list[object]:
    """Return the values at a path; none where it leads nowhere."""
    found = [value]
    for name, field, wanted in path:
        if name in {"@kind", "@ref"}:
            return [entry.kind if name == "@kind" else entry.ref]
        below = [each[name] for each in found if isinstance(each, dict) and name in each]
        found = [one for each in below for one in (each if isinstance(each, list) else [each])]
        if field:
            found = [
                each
                for each in found
                if isinstance(each, dict) and _text(each.get(field)) == wanted
            ]
    return found


def _value(entry: Entry) -> object:
    try:
        return msgspec.json.decode(entry.payload)
    except msgspec.MsgspecError:
        return None


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()
