"""Numbers and times as people write them in configuration and facts, with their bounds.

Bounds are such that every accepted number fits its recorded form: an amount in micro-dollars
stays below 2^53, and reading it back never fails.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Final

from msgspec import Meta

from pointsman.kernel.canonical import MAX_INT

MAX_USD: Final = 1_000_000_000
MAX_NEIGHBOURS: Final = 10_000

Usd = Annotated[Decimal, Meta(extra_json_schema={"minimum": 0, "maximum": MAX_USD})]
"""An amount of dollars."""

SignedUsd = Annotated[Decimal, Meta(extra_json_schema={"minimum": -MAX_USD, "maximum": MAX_USD})]
"""An amount of dollars that may be owed."""

Fraction = Annotated[Decimal, Meta(extra_json_schema={"minimum": 0, "maximum": 1})]
"""A share of one."""

Count = Annotated[int, Meta(ge=0, le=MAX_INT)]
AtLeastOne = Annotated[int, Meta(ge=1, le=MAX_INT)]
Neighbours = Annotated[int, Meta(ge=1, le=MAX_NEIGHBOURS)]
ClockTime = Annotated[str, Meta(pattern="^([01][0-9]|2[0-3]):[0-5][0-9]$")]
