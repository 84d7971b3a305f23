"""What a call may cost and did cost."""

import pytest
from msgspec import Struct

from pointsman.access.charges import (
    MOST_TOKENS,
    Charge,
    Quote,
    Tokens,
    charge_call,
    is_absurd,
    quote_call,
)
from pointsman.kernel.number import MicroUsd
from pointsman.providers.messages import Usage
from pointsman.turns.registry.prices import DEFAULT_OUTPUT_TOKENS, Price, output_bound

PRICE = Price(
    input=MicroUsd(3_000_000),
    output=MicroUsd(15_000_000),
    cached_input=MicroUsd(300_000),
    cache_write=MicroUsd(3_750_000),
)
NO_CACHE = Price(input=MicroUsd(3_000_000), output=MicroUsd(15_000_000))
FREE = Price(*(MicroUsd(0),) * 4)


def quote(price: Price | None = PRICE, inputs: int = 1_000, outputs: int = 1_000) -> Quote:
    return quote_call("p:m", price, "v1", inputs, outputs)


class Wrong(Struct, frozen=True):
    """Usage as a careless or hostile provider sends it."""

    input_tokens: object = 1
    output_tokens: object = 1
    cached_input_tokens: object = 0
    cache_creation_input_tokens: object = 0


def test_a_quote_is_input_at_its_dearest_and_the_longest_answer() -> None:
    assert quote().amount_microusd == 3_750 + 15_000
    assert quote(NO_CACHE).amount_microusd == 3_000 + 15_000


@pytest.mark.parametrize("price", [None, Price(input=MicroUsd(1)), Price(output=MicroUsd(1))])
def test_an_unknown_price_is_unknown_not_free(price: Price | None) -> None:
    assert quote(price).amount_microusd is None
    assert charge_call(quote(price), Usage(10, 10)).cost_microusd is None


@pytest.mark.parametrize(
    ("asked", "most", "bound"),
    [
        (100, None, 100),
        (100, 50, 50),
        (None, None, DEFAULT_OUTPUT_TOKENS),
        (None, 50, 50),
        (None, 1_000_000, DEFAULT_OUTPUT_TOKENS),
        (1_000_000, None, 1_000_000),
        (0, None, DEFAULT_OUTPUT_TOKENS),
        (-5, 7, 7),
    ],
)
def test_an_answer_is_bounded_by_request_model_or_default(
    asked: int | None, most: int | None, bound: int
) -> None:
    assert output_bound(asked, most) == bound


@pytest.mark.parametrize(
    ("usage", "cost"),
    [
        (Usage(1_000, 200), 3_000 + 3_000),
        (Usage(100, 200, cached_input_tokens=900), 300 + 3_000 + 270),
        (Usage(100, 200, 500, 400), 300 + 3_000 + 150 + 1_500),
        (Usage(0, 0), 0),
        (Usage(1, 0, 1), 3),  # 3 + 0.3, rounded once
        (Usage(0, 0, 5), 2),  # 1.5, half to even
        (Usage(0, 0, 15), 4),  # 4.5, half to even
    ],
)
def test_cached_tokens_are_counted_at_their_prices(usage: Usage, cost: int) -> None:
    charge = charge_call(quote(), usage)
    assert (charge.cost_microusd, charge.is_estimated) == (cost, False)


def test_an_unknown_cache_price_counts_as_plain_input_and_is_flagged() -> None:
    charge = charge_call(quote(NO_CACHE), Usage(100, 0, 500, 400))
    assert (charge.cost_microusd, charge.is_estimated) == (3_000, True)
    assert not charge_call(quote(NO_CACHE), Usage(100, 0)).is_estimated


@pytest.mark.parametrize(
    "usage",
    [
        None,
        Usage(),
        Usage(10, None),
        Usage(None, 10),
        Usage(-1, 10),
        Usage(10, -1),
        Usage(10, 10, -1),
        Usage(10, 10, 0, -1),
        Usage(10, MOST_TOKENS + 1),
        Usage(10, 2**70),
        Wrong(input_tokens=1.5),
        Wrong(output_tokens="7"),
        Wrong(output_tokens=True),
        Wrong(cached_input_tokens=None),
    ],
)
def test_usage_that_is_missing_or_cannot_be_true_is_charged_by_the_estimate(
    usage: Usage | None,
) -> None:
    assert charge_call(quote(), usage) == Charge(
        Tokens(1_000, 1_000), MicroUsd(18_750), is_estimated=True
    )


def test_a_dear_but_believable_answer_is_charged_as_told() -> None:
    charge = charge_call(quote(inputs=10, outputs=10), Usage(2_000, 1_000))
    assert (charge.cost_microusd, charge.is_estimated) == (21_000, False)


def test_what_is_free_costs_nothing_however_much_is_used() -> None:
    assert charge_call(quote(FREE), Usage(10_000_000, 10_000_000)).cost_microusd == 0
    assert charge_call(quote(FREE), None).cost_microusd == 0


def test_a_bill_out_of_all_proportion_is_charged_and_raises_an_alarm() -> None:
    used = Usage(10, 1_000_000)
    charge = charge_call(quote(), used)
    assert charge == Charge(Tokens(10, 1_000_000), MicroUsd(15_000_030), is_estimated=False)
    assert is_absurd(quote(), used, charge.cost_microusd)


@pytest.mark.parametrize(
    ("used", "cost", "is_told"),
    [
        (Usage(10, 10), 187_500, False),
        (Usage(10, 10), 187_501, True),
        (Usage(10, 10), None, False),
        (Usage(10, None), 9_999_999, False),
        (None, 9_999_999, False),
        (Usage(10, -1), 18_750, True),
    ],
)
def test_an_alarm_needs_ten_times_the_estimate(
    used: Usage | None, cost: int | None, is_told: bool
) -> None:
    spent = None if cost is None else MicroUsd(cost)
    assert is_absurd(quote(), used, spent) is is_told


def test_below_ten_cents_no_bill_is_absurd() -> None:
    small = quote(inputs=1, outputs=1)
    assert not is_absurd(small, Usage(1, 1), MicroUsd(100_000))
    assert is_absurd(small, Usage(1, 1), MicroUsd(100_001))
