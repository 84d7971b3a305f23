"""The highest and the real cost of a call: whole micro-dollars, cached tokens at their prices.

The provider's numbers are believed as long as they can be true; the estimate replaces an
impossible one, visibly.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

from msgspec import Struct

from pointsman.kernel.number import MicroUsd
from pointsman.turns.registry.prices import Price, highest_cost
from pointsman.turns.registry.prices import cost as cost_of

MOST_TOKENS = 100_000_000
"""No call uses more than this of any kind of token."""

ABSURD_TIMES = 10
ABSURD_FROM_MICROUSD = 100_000
"""A cost past ten times its estimate, and past ten cents, raises an alarm. It is charged all the
same: the provider will ask for it, and a cap that leaves it out would be passed unseen."""


class Used(Protocol):
    """What a provider says a call used; `providers.messages.Usage` is one."""

    @property
    def input_tokens(self) -> int | None:
        """Input that was neither read from a cache nor written to one."""
        ...

    @property
    def output_tokens(self) -> int | None:
        """Output, with what the model thought."""
        ...

    @property
    def cached_input_tokens(self) -> int:
        """Input read from a cache."""
        ...

    @property
    def cache_creation_input_tokens(self) -> int:
        """Input written to a cache."""
        ...


class Tokens(Struct, frozen=True):
    """Counts of tokens; the three kinds of input are disjoint."""

    input_tokens: int
    output_tokens: int
    cached_input_tokens: int = 0
    cache_creation_input_tokens: int = 0


class Quote(Struct, frozen=True):
    """The highest cost of a call; None where no price is known.

    The price and its version are those of the moment it was asked for: a table that changes while
    the call runs does not change what it costs.
    """

    model: str
    price: Price
    price_version: str
    tokens: Tokens
    amount_microusd: MicroUsd | None


class Charge(Struct, frozen=True):
    """What a call is charged; `is_estimated` where its usage or one of its prices was guessed."""

    tokens: Tokens
    cost_microusd: MicroUsd | None
    is_estimated: bool


@lru_cache(maxsize=1024)
def quote_call(
    model: str,
    price: Price | None,
    price_version: str,
    input_tokens: int,
    output_tokens: int,
) -> Quote:
    """Return what a call may cost; `output_tokens` bounds its answer (`output_bound`)."""
    known = price or Price()
    tokens = Tokens(input_tokens, output_tokens)
    highest = highest_cost(known, input_tokens, output_tokens)
    return Quote(model, known, price_version, tokens, highest)


def charge_call(quote: Quote, used: Used | None) -> Charge:
    """Return the charge of a call: for its usage where that is known, else its quote."""
    tokens = believable(used)
    if tokens is not None:
        filled, is_exact = quote.price, True
        if tokens.cached_input_tokens or tokens.cache_creation_input_tokens:
            filled, is_exact = _fill_price(quote.price, tokens)
        return Charge(tokens, _cost(filled, tokens), is_estimated=not is_exact)
    return Charge(quote.tokens, quote.amount_microusd, is_estimated=True)


def believable(used: Used | None) -> Tokens | None:
    """Return the usage; None when it was not told, or cannot be true."""
    if used is None or used.input_tokens is None or used.output_tokens is None:
        return None
    plain, output = used.input_tokens, used.output_tokens
    cached, written = used.cached_input_tokens, used.cache_creation_input_tokens
    # These came off the wire: whatever the types say, they may be anything.
    if not type(plain) is type(output) is type(cached) is type(written) is int:
        return None
    # Of whole numbers all have the sign of their bits together; the largest bounds all.
    if plain | output | cached | written < 0 or max(plain, output, cached, written) > MOST_TOKENS:
        return None
    return Tokens(plain, output, cached, written)


def _fill_price(price: Price, tokens: Tokens) -> tuple[Price, bool]:
    """Put the price of plain input where a cache price is unknown: unknown is never free."""
    lacks_cached = price.cached_input is None and tokens.cached_input_tokens > 0
    lacks_write = price.cache_write is None and tokens.cache_creation_input_tokens > 0
    if not (lacks_cached or lacks_write):
        return price, True
    filled = Price(
        input=price.input,
        output=price.output,
        cached_input=price.input if price.cached_input is None else price.cached_input,
        cache_write=price.input if price.cache_write is None else price.cache_write,
    )
    return filled, False


def _cost(price: Price, tokens: Tokens) -> MicroUsd | None:
    return cost_of(
        price,
        tokens.input_tokens,
        tokens.output_tokens,
        tokens.cached_input_tokens,
        tokens.cache_creation_input_tokens,
    )


def is_absurd(quote: Quote, used: Used | None, cost: MicroUsd | None) -> bool:
    """Tell whether a provider's bill is out of all proportion, or cannot be true."""
    if used is None or used.input_tokens is None or used.output_tokens is None:
        return False
    if believable(used) is None:
        return True
    estimate = quote.amount_microusd
    if estimate is None or cost is None:
        return False
    return cost > max(ABSURD_TIMES * estimate, ABSURD_FROM_MICROUSD)
