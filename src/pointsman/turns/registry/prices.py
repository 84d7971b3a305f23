"""What tokens cost: a dated table of prices, and exact arithmetic on them.

What the table does not say is unknown, never free. It is frozen at release time and never fetched.
What a call may cost at most is estimated here alone: a veto that estimated less than the
reservation would choose a model that is then refused.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from msgspec import Meta, Struct

from pointsman.errors import IntegrityFailure, NumberError
from pointsman.kernel.canonical import ContentId, Form
from pointsman.kernel.number import MicroUsd, divide

PER_TOKENS = 1_000_000
DEFAULT_OUTPUT_TOKENS = 4_096
"""How long an answer is taken to be where neither the request nor the model bounds it."""

Rate = Annotated[MicroUsd, Meta(ge=0)]
"""Micro-dollars for a million tokens."""

# A snapshot of a model is named by a date or as the latest, by a version, or by both.
_DATE = re.compile(r"[-@](?:[0-9]{8}|[0-9]{4}-[0-9]{2}-[0-9]{2}|latest)\Z", re.ASCII)
_VERSION = re.compile(r"-v[0-9]+(?::[0-9]+)?\Z", re.ASCII)


class Price(Struct, frozen=True, forbid_unknown_fields=True):
    """Micro-dollars for a million tokens of each kind; None is unknown."""

    input: Rate | None = None
    output: Rate | None = None
    cached_input: Rate | None = None
    cache_write: Rate | None = None


class PricedModel(Struct, frozen=True, forbid_unknown_fields=True):
    """One line of the table.

    A `dated_names` entry also stands for its snapshots. Past `base_tier_tokens` of input the
    provider charges more than is written here.
    """

    model: str
    names: tuple[str, ...]
    dated_names: tuple[str, ...]
    base_tier_tokens: int | None
    price: Price


class LeftOut(Struct, frozen=True, forbid_unknown_fields=True):
    """Models of the source that this table does not price, and why."""

    reason: str
    models: tuple[str, ...]


class PriceSheet(Struct, frozen=True, forbid_unknown_fields=True):
    """The table as it is written.

    `provider_names` are other spellings of a provider; a provider that `borrows` sells the models
    of others at their prices where it has no line of its own.
    """

    schema_version: Literal[1]
    date: Annotated[str, Meta(pattern="^[0-9]{4}-[0-9]{2}-[0-9]{2}$")]
    source: str
    licence: str
    currency: Literal["USD"]
    per_tokens: Literal[1_000_000]
    notes: tuple[str, ...]
    provider_names: dict[str, str]
    borrows: dict[str, tuple[str, ...]]
    left_out: tuple[LeftOut, ...]
    models: tuple[PricedModel, ...]


SHEET_FORM = Form(PriceSheet)


class PriceTable(Struct, frozen=True):
    """A sheet that can be asked; `id` names its content."""

    sheet: PriceSheet
    id: ContentId
    names: dict[str, PricedModel]
    dated_names: dict[str, PricedModel]

    def price(self, model_id: str) -> Price | None:
        """Return the price of a model, written `provider:name`; None when it is unknown."""
        line = self.line(model_id)
        return None if line is None else line.price

    def line(self, model_id: str) -> PricedModel | None:
        """Return the line a model is priced by."""
        given, _, name = model_id.partition(":")
        # Lower case beyond ASCII is not the same in every Python version.
        name = name.lower() if name.isascii() else ""
        provider = self.sheet.provider_names.get(given, given)
        for seller in (provider, *self.sheet.borrows.get(provider, ())):
            line = self._line_of(seller, name)
            if line is not None:
                return line
        return None

    def _line_of(self, provider: str, name: str) -> PricedModel | None:
        exact = self.names.get(f"{provider}:{name}")
        if exact is not None:
            return exact
        dated = self.dated_names.get(f"{provider}:{without_version(name)}")
        return dated or self.dated_names.get(f"{provider}:{without_date(name)}")


def without_version(name: str) -> str:
    """Return the name of a model without the version of its snapshot."""
    return _VERSION.sub("", name)


def without_date(name: str) -> str:
    """Return the name of a model without the version and date of its snapshot."""
    return _DATE.sub("", without_version(name))


def read_price_table(text: bytes) -> PriceTable:
    """Read a table; whatever but line ends differs from the canonical bytes is refused."""
    canonical = text.replace(b"\n", b"")
    sheet = SHEET_FORM.decode(canonical)
    dated = _by_name(sheet, [(line, line.dated_names) for line in sheet.models])
    exact = _by_name(sheet, [(line, line.names + line.dated_names) for line in sheet.models])
    return PriceTable(sheet, SHEET_FORM.id(sheet), exact, dated)


def cost(
    price: Price,
    input_tokens: int,
    output_tokens: int,
    cached_input_tokens: int = 0,
    cache_write_tokens: int = 0,
) -> MicroUsd | None:
    """Return the cost of tokens, rounded once, half to even; None when a price it needs is unknown.

    The three kinds of input are disjoint: a token read from the cache is not in `input_tokens`.
    """
    if input_tokens >= 0 <= output_tokens and not (cached_input_tokens or cache_write_tokens):
        # As most calls are: nothing came from a cache.
        into, out = price.input, price.output
        if into is not None and out is not None:
            total = input_tokens * into + output_tokens * out
            return MicroUsd(divide(total, PER_TOKENS))
    total = 0
    for tokens, rate in (
        (input_tokens, price.input),
        (output_tokens, price.output),
        (cached_input_tokens, price.cached_input),
        (cache_write_tokens, price.cache_write),
    ):
        if tokens < 0:
            raise NumberError(f"`{tokens}` is not a number of tokens")
        if tokens and rate is None:
            return None
        total += tokens * (rate or 0)
    return MicroUsd(divide(total, PER_TOKENS))


def _by_name(
    sheet: PriceSheet, named: list[tuple[PricedModel, tuple[str, ...]]]
) -> dict[str, PricedModel]:
    found: dict[str, PricedModel] = {}
    for line, names in named:
        provider = line.model.partition(":")[0]
        for name in names:
            if found.setdefault(f"{provider}:{name}", line) is not line:
                raise IntegrityFailure(
                    f"prices of {sheet.date}: `{provider}:{name}` has two prices"
                )
    return found


def output_bound(asked: int | None, most: int | None) -> int:
    """Return how long an answer can be: as asked for, as the model can, else a default."""
    if asked is None or asked <= 0:
        asked = DEFAULT_OUTPUT_TOKENS
    return asked if most is None or most <= 0 else min(asked, most)


def highest_cost(price: Price, input_tokens: int, output_tokens: int) -> MicroUsd | None:
    """Return what a call costs at most; None where a price it needs is unknown.

    Input that is written to a cache costs more than plain input, and only the provider knows
    beforehand how much of it will be.
    """
    rate = price.input
    if rate is not None and price.cache_write is not None:
        rate = max(rate, price.cache_write)
    return cost(Price(input=rate, output=price.output), input_tokens, output_tokens)
