"""What every kind of bulk work is: parameters in, ranges, a part for each, one conclusion.

A part is a function of the store, the range and the parameters alone, so a range that is done
twice gives the same part twice; whoever keeps parts keeps one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from typing import Generic, Literal, Protocol, TypeVar

import msgspec
from msgspec import Raw, Struct

from pointsman.audit.ranges import Range
from pointsman.storage.home import Home

KindName = Literal["replay", "backtest", "verify", "export", "rescore"]

G = TypeVar("G")
P = TypeVar("P")
P_co = TypeVar("P_co", covariant=True)


class Conclusion(Struct, frozen=True):
    """What all parts come to: whether nothing is wrong, one line, and everything as JSON."""

    is_clean: bool
    told: str
    value: Raw


class Doing(Protocol[P_co]):
    """Work that was opened on a store, for one range after the other."""

    def part(self, each: Range, /) -> P_co:
        """Do one range."""
        ...

    def close(self) -> None:
        """Let go of the store."""
        ...


class Work(Generic[G, P]):
    """One kind of work. `G` are its parameters and `P` its parts, both written as JSON."""

    def __init__(
        self,
        name: KindName,
        types: tuple[type[G], type[P]],
        plan: Callable[[Home, G], list[Range]],
        open_: Callable[[Home, G], Doing[P]],
        conclude: Callable[[Home, G, Sequence[P]], Conclusion],
    ) -> None:
        self.name: KindName = name
        self._given = msgspec.json.Decoder(types[0])
        self._part = msgspec.json.Decoder(types[1])
        self._plan, self._open, self._conclude = plan, open_, conclude

    def plan_ranges(self, home: Home, given: bytes) -> list[Range]:
        """Give the ranges to be done."""
        return self._plan(home, self._given.decode(given))

    def opened(self, home: Home, given: bytes) -> Doing[P]:
        """Open the store for some ranges."""
        return self._open(home, self._given.decode(given))

    def part(self, home: Home, given: bytes, each: Range) -> bytes:
        """Do one range, and give its part."""
        with closing(self.opened(home, given)) as doing:
            return msgspec.json.encode(doing.part(each))

    def concluded(self, home: Home, given: bytes, parts: Iterable[bytes]) -> Conclusion:
        """Fold the parts of all ranges, in their order."""
        return self._conclude(home, self._given.decode(given), [*map(self._part.decode, parts)])


def value_of(found: object) -> Raw:
    """Write a conclusion's value."""
    return Raw(msgspec.json.encode(found))
