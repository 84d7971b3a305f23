"""What a call may cost at most: the one estimate of vetoes, reservations and price ceilings. Pure.

A veto that estimated less than the reservation would choose a model that is then refused.
"""

from __future__ import annotations

from pointsman.kernel.number import MicroUsd
from pointsman.turns.registry.models import Model
from pointsman.turns.registry.prices import Price, cost

DEFAULT_OUTPUT_TOKENS = 4_096
"""How long an answer is taken to be where neither the request nor the model bounds it."""


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


def call_estimate(model: Model, input_tokens: int, asked_output: int | None) -> MicroUsd | None:
    """Return what a call of this model may cost at most; None where its price is unknown."""
    if model.price is None:
        return None
    bound = output_bound(asked_output, model.capabilities.max_output_tokens)
    return highest_cost(model.price, input_tokens, bound)
