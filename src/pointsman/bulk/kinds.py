"""Every kind of bulk work by its name. Imported when asked for: a worker does one at a time."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Final, Protocol

from pointsman.audit.ranges import Range
from pointsman.bulk.work import Conclusion, KindName
from pointsman.errors import NotFound
from pointsman.storage.home import Home


class Kind(Protocol):
    """A kind of work whose parameters and parts are JSON."""

    name: KindName

    def plan_ranges(self, home: Home, given: bytes) -> list[Range]:
        """Give the ranges to be done."""
        ...

    def part(self, home: Home, given: bytes, each: Range) -> bytes:
        """Do one range, and give its part."""
        ...

    def concluded(self, home: Home, given: bytes, parts: list[bytes]) -> Conclusion:
        """Fold the parts of all ranges, in their order."""
        ...


KINDS: Final[Mapping[KindName, str]] = MappingProxyType(
    {
        "replay": "replaying",
        "backtest": "backtesting",
        "verify": "verifying",
        "export": "exporting",
        "rescore": "rescoring",
    }
)
"""Every kind and the module of this package that holds it."""


def kind_named(name: str) -> Kind:
    """Give a kind of work."""
    for known, module in KINDS.items():
        if known == name:
            found: Kind = getattr(import_module(f"pointsman.bulk.{module}"), known.upper())
            return found
    raise NotFound(f"there is no bulk work called `{name[:100]}`")
