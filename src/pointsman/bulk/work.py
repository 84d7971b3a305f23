"""The kinds of bulk work: parameters in, ranges, a part for each, one conclusion.

A part is a function of the store, the range and the parameters alone, so a range that is done
twice has the same part twice; the store keeps one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final, Generic, Literal, Protocol, TypeVar

import msgspec
from msgspec import Raw, Struct

from pointsman.audit.ranges import Range
from pointsman.errors import NotFound
from pointsman.storage.home import Home

KindName = Literal["replay", "backtest", "verify", "export", "rescore"]

G = TypeVar("G")
P = TypeVar("P")
P_co = TypeVar("P_co", covariant=True)


class BulkResult(Struct, frozen=True):
    """The sum of all parts: whether nothing is wrong, one line, and everything as JSON."""

    is_clean: bool
    told: str
    value: Raw


class RangeWorker(Protocol[P_co]):
    """Does one range after the other on an open store."""

    def part(self, each: Range, /) -> P_co:
        """Do one range."""
        ...

    def close(self) -> None:
        """Close the store."""
        ...


class BulkKind(Generic[G, P]):
    """One kind of work. `G` are its parameters and `P` its parts, both written as JSON."""

    def __init__(
        self,
        name: KindName,
        types: tuple[type[G], type[P]],
        plan: Callable[[Home, G], list[Range]],
        open_worker: Callable[[Home, G], RangeWorker[P]],
        conclude: Callable[[Home, G, Sequence[P]], BulkResult],
    ) -> None:
        self.name: KindName = name
        self._given = msgspec.json.Decoder(types[0])
        self._part = msgspec.json.Decoder(types[1])
        self._plan, self._open, self._conclude = plan, open_worker, conclude

    def plan_ranges(self, home: Home, given: bytes) -> list[Range]:
        """Return the ranges to be done."""
        return self._plan(home, self._given.decode(given))

    def open_worker(self, home: Home, given: bytes) -> RangeWorker[P]:
        """Open the store for some ranges."""
        return self._open(home, self._given.decode(given))

    def part(self, home: Home, given: bytes, each: Range) -> bytes:
        """Do one range, and return its part."""
        with closing(self.open_worker(home, given)) as worker:
            return msgspec.json.encode(worker.part(each))

    def conclude(self, home: Home, given: bytes, parts: Iterable[bytes]) -> BulkResult:
        """Fold the parts of all ranges, in their order."""
        return self._conclude(home, self._given.decode(given), [*map(self._part.decode, parts)])


KINDS: Final[Mapping[KindName, str]] = MappingProxyType(
    {
        "replay": "pointsman.bulk.reruns",
        "backtest": "pointsman.bulk.reruns",
        "verify": "pointsman.bulk.verifying",
        "export": "pointsman.bulk.parquet.export",
        "rescore": "pointsman.bulk.rescoring",
    }
)
"""Every kind and the module that holds it: a worker imports the kind it does."""


def kind_named(name: str) -> BulkKind[Any, Any]:
    """Return a kind of work by its name."""
    for known, module in KINDS.items():
        if known == name:
            kind: BulkKind[Any, Any] = getattr(import_module(module), known.upper())
            return kind
    raise NotFound(f"there is no bulk work called `{name[:100]}`")


def value_of(value: object) -> Raw:
    """Write a conclusion's value."""
    return Raw(msgspec.json.encode(value))
