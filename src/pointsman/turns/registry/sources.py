"""Where each value of a model comes from: the user's file, a dated table, or nowhere."""

from __future__ import annotations

from pointsman.turns.registry.catalogue import CAPABILITY_NAMES, Catalogue, known_values
from pointsman.turns.registry.models import EMBEDDED_MODEL, ModelsFile, model_id, names_in_tables
from pointsman.turns.registry.prices import PriceTable

UNKNOWN = "unknown"
FILE = "models.yaml"
BUILT_IN = "built in"
FREE = "what runs here costs nothing"


def value_sources(
    name: str, models: ModelsFile, prices: PriceTable, catalogue: Catalogue
) -> dict[str, str]:
    """Return the source of a model's price and of each of its capabilities, by name."""
    written = {model_id(each): model for each, model in models.models.items()}.get(name)
    if written is None:
        origin = BUILT_IN if name == EMBEDDED_MODEL else UNKNOWN
        return dict.fromkeys(("price", *CAPABILITY_NAMES), origin)
    names = names_in_tables(name, models)
    sources = dict.fromkeys(CAPABILITY_NAMES, UNKNOWN)
    if written.location != "local":
        listed = f"catalogue of {catalogue.sheet.date}"
        found = (known_values(catalogue.capabilities(each)) for each in names)
        sources |= {key: listed for values in found for key, _ in values}
    sources |= {key: FILE for key, _ in known_values(written.capabilities)}
    if written.price is not None:
        price = FILE
    elif any(prices.line(each) is not None for each in names):
        price = f"price table of {prices.sheet.date}"
    else:
        price = FREE if written.location == "local" else UNKNOWN
    return {"price": price, **sources}
