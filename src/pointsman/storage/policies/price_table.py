"""The price table and the catalogue that came with this release, read from the package."""

from __future__ import annotations

from pathlib import Path

from pointsman import turns
from pointsman.turns.registry.catalogue import Catalogue
from pointsman.turns.registry.prices import PriceTable, read_price_table


def load_price_table() -> PriceTable:
    """Read the prices of this release."""
    return read_price_table(_read("prices.json"))


def load_catalogue() -> Catalogue:
    """Read what the models of this release's day can do."""
    return Catalogue(_read("catalogue.json"))


def _read(name: str) -> bytes:
    place = Path(turns.__file__).parent / "price_table" / name
    return place.read_bytes()
