"""Write src/pointsman/turns/price_table/prices.json from the package `genai-prices`.

A maintainer runs it before a release, with that package importable; neither the product nor its
tests need it. Its licence stands beside the table. What a name means is asked of the package's own
matching, so the table claims no name that the package would give to another model.

    python scripts/freeze_prices.py --date 2026-11-15
"""

import argparse
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from pointsman.kernel.number import MicroUsd, microusd
from pointsman.turns.registry.prices import (
    PER_TOKENS,
    SHEET_FORM,
    LeftOut,
    Price,
    PricedModel,
    PriceSheet,
    read_price_table,
)

TARGET = Path(__file__).resolve().parents[1] / "src/pointsman/turns/price_table/prices.json"

PARTS = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cached_input": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
}
ALWAYS_CHARGED = {
    "requests_kcount": "a fee for each request comes on top",
    "output_reasoning_mtok": "reasoning tokens have a price of their own",
    "output_citation_mtok": "citation tokens have a price of their own",
}
NO_TOKENS = "the source has no price per token"
BY_THE_HOUR = "the price depends on the time of day"
NAMELESS = "no name in the source leads to it alone"

NOTES = (
    "prices are micro-dollars per million tokens, in force on the date of the table",
    "null is unknown; 0 stands only where the source says 0",
    "where the price depends on the size of the prompt, the base tier up to base_tier_tokens",
    "cache_write is the shortest kept cache; longer kept ones cost more",
    "not in the table: audio, image and video tokens, searches, batch and priority prices",
    "what is finer than a micro-dollar is rounded half to even",
)
# Spellings people use, offered to the source's matching, which decides.
SPELLINGS = (
    "xai", "gemini", "vertex", "vertexai", "vertex-ai", "vertex_ai", "google-vertex",
    "google_genai", "bedrock", "aws-bedrock", "amazon", "amazon-bedrock", "together-ai",
    "together_ai", "mistralai", "moonshot", "voyage", "copilot", "github_copilot",
    "cloudflare-workers-ai",
)  # fmt: skip
WELL_KNOWN = ("claude-sonnet-4-20250514", "claude-opus-4-20250514")
REGIONS = ("", "us.", "eu.", "apac.")
SOME_DATE = "20991231"
SUFFIXES = (f"-{SOME_DATE}", f"@{SOME_DATE}", "-v1:0")


def main() -> None:
    parser = argparse.ArgumentParser(description="Freeze the prices of a date.")
    parser.add_argument("--date", required=True, type=date.fromisoformat)
    day = parser.parse_args().date
    providers = import_module("genai_prices.data").providers
    table = sheet(providers, day, f"genai-prices {metadata.version('genai-prices')}")
    text = write_sheet(table)
    priced = read_price_table(text)
    TARGET.write_bytes(text)
    left = sum(len(each.models) for each in table.left_out)
    print(f"{len(table.models)} models priced, {left} left out, {len(text)} bytes, {priced.id}")


def sheet(providers: list[Any], day: date, source: str) -> PriceSheet:
    lines: list[PricedModel] = []
    left: dict[str, list[str]] = {}
    for provider in sorted(providers, key=lambda each: str(each.id)):
        for model in sorted(provider.models, key=lambda each: str(each.id)):
            line, reason = frozen(provider, model, day)
            if line is None:
                left.setdefault(reason, []).append(f"{provider.id}:{model.id}")
            else:
                lines.append(line)
    return PriceSheet(
        schema_version=1,
        date=day.isoformat(),
        source=source,
        licence="MIT, see LICENSE.genai-prices",
        currency="USD",
        per_tokens=PER_TOKENS,
        notes=NOTES,
        provider_names=dict(other_spellings(providers)),
        borrows={
            str(each.id): tuple(each.fallback_model_providers)
            for each in providers
            if each.fallback_model_providers
        },
        left_out=tuple(LeftOut(reason, tuple(left[reason])) for reason in sorted(left)),
        models=tuple(lines),
    )


def write_sheet(table: PriceSheet) -> bytes:
    """Return the canonical bytes with each line of the table on a line of the file."""
    text = SHEET_FORM.encode(table)
    for start in (b'{"base_tier_tokens":', b'{"models":', b'"models":[', b'"notes":'):
        text = text.replace(start, b"\n" + start)
    return text.replace(b'{\n"models":[', b'{"models":[') + b"\n"


def frozen(provider: Any, model: Any, day: date) -> tuple[PricedModel | None, str]:
    """Return a model's line, or the reason why it has none."""
    if is_by_the_hour(model, day):
        return None, BY_THE_HOUR
    prices = in_force(model, day)
    for unit, reason in ALWAYS_CHARGED.items():
        if unit in prices:
            return None, reason
    if not any(unit in prices for unit in PARTS.values()):
        return None, NO_TOKENS
    names = tuple(names_of(provider, model))
    if not names:
        return None, NAMELESS
    dated = tuple(name for name in names if is_dated(provider, model, name))
    line = PricedModel(
        model=f"{provider.id}:{model.id}",
        names=tuple(name for name in names if name not in dated),
        dated_names=dated,
        base_tier_tokens=first_tier(prices.values()),
        price=Price(**{part: rate(prices.get(unit)) for part, unit in PARTS.items()}),
    )
    return line, ""


def in_force(model: Any, day: date) -> dict[str, Any]:
    noon = datetime.combine(day, time(12), tzinfo=UTC)
    return {
        unit: price for unit, price in vars(model.get_prices(noon)).items() if price is not None
    }


def is_by_the_hour(model: Any, day: date) -> bool:
    minutes = range(0, 24 * 60, 15)
    hours = [datetime.combine(day, time(each // 60, each % 60), tzinfo=UTC) for each in minutes]
    return any(model.get_prices(hour) != model.get_prices(hours[0]) for hour in hours)


def rate(price: Any) -> MicroUsd | None:
    if price is None:
        return None
    base = price if isinstance(price, Decimal) else price.base
    return microusd(f"{base:f}")


def first_tier(prices: Iterable[Any]) -> int | None:
    starts = [tier.start for price in prices for tier in getattr(price, "tiers", ())]
    return min(starts) if starts else None


def names_of(provider: Any, model: Any) -> Iterator[str]:
    candidates = [str(model.id), *literals(model.match), *WELL_KNOWN]
    if provider.id == "aws":
        claudes = [name for name in candidates if name.startswith("claude-")]
        candidates += [f"{region}anthropic.{name}" for region in REGIONS for name in claudes]
    for name in sorted(dict.fromkeys(each.lower() for each in candidates)):
        if name.isascii() and name[-1] not in "-@." and provider.find_model(name) is model:
            yield name


def literals(clause: Any) -> Iterator[str]:
    """Return every text a clause compares names with."""
    for kind in ("equals", "starts_with", "contains", "ends_with"):
        if hasattr(clause, kind):
            yield getattr(clause, kind)
    for kind in ("or_", "and_"):
        for inner in getattr(clause, kind, ()):
            yield from literals(inner)


def is_dated(provider: Any, model: Any, name: str) -> bool:
    return any(provider.find_model(name + suffix) is model for suffix in SUFFIXES)


def other_spellings(providers: list[Any]) -> Iterator[tuple[str, str]]:
    ids = {str(each.id) for each in providers}
    for spelling in SPELLINGS:
        matching = [
            str(each.id)
            for each in providers
            if each.provider_match and each.provider_match.is_match(spelling)
        ]
        if len(matching) == 1 and spelling not in ids:
            yield spelling, matching[0]


if __name__ == "__main__":
    main()
