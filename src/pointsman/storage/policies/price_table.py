"""The price table that came with this release, read from the package."""

from __future__ import annotations

from importlib import resources

from pointsman.turns.registry.prices import PriceTable, read_price_table


def load_price_table() -> PriceTable:
    """Read the table of this release."""
    place = resources.files("pointsman.turns") / "price_table" / "prices.json"
    return read_price_table(place.read_bytes())
