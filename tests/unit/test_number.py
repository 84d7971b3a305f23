"""Exact numbers."""

from decimal import ROUND_HALF_EVEN, Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pointsman.errors import NumberError
from pointsman.kernel.number import (
    ONE,
    SCALE,
    Billionths,
    billionths,
    billionths_text,
    clamp,
    divide,
    floor_of,
    microusd,
    microusd_text,
    ratio,
    times,
)


@pytest.mark.req(66)
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("0.1", 100_000_000),
        ("-0.5", -500_000_000),
        ("+2", 2 * SCALE),
        ("1e-9", 1),
        ("1E2", 100 * SCALE),
        ("0.0000000005", 0),
        ("0.0000000015", 2),
        ("0.0000000025", 2),
        ("0.00000000051", 1),
        ("-0.0000000015", -2),
    ],
)
def test_decimal_text_is_read_exactly_and_rounded_half_to_even(text: str, value: int) -> None:
    assert billionths(text) == value


@pytest.mark.parametrize(
    "text",
    ["", " 1", "1 ", ".5", "1.", "0x1", "nan", "inf", "1_000", "1e999", "\u0661", "--1", "9" * 65],
)
def test_what_is_not_a_decimal_number_is_refused(text: str) -> None:
    with pytest.raises(NumberError) as caught:
        billionths(text)
    assert "`" in str(caught.value)


def test_an_exponent_past_the_limit_is_refused_before_it_costs_anything() -> None:
    with pytest.raises(NumberError, match="exponent"):
        billionths("1e65")


def test_division_by_zero_has_no_value() -> None:
    with pytest.raises(NumberError):
        divide(1, 0)


def test_tenths_add_up_exactly_on_every_python() -> None:
    assert sum([billionths("0.1")] * 10) == ONE
    assert billionths("0.1") + billionths("0.2") == billionths("0.3")


def test_floors_that_binary_floats_get_wrong_are_right() -> None:
    assert int(0.29 * 100) == 28
    assert floor_of(billionths("0.29"), 100) == 29
    half = billionths("0.5")
    attention = billionths("0.36")
    assert floor_of(Billionths(half + times(half, attention)), 1000) == 680


def test_clamp_keeps_a_fraction_between_its_bounds() -> None:
    assert clamp(Billionths(-1)) == 0
    assert clamp(Billionths(SCALE + 1)) == ONE
    assert clamp(Billionths(7)) == 7
    assert clamp(Billionths(7), Billionths(8), Billionths(9)) == 8


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (1, "0.000000001"), (-500_000_000, "-0.5"), (ONE, "1"), (1_250_000_000, "1.25")],
)
def test_a_fraction_is_written_with_its_shortest_exact_text(value: int, text: str) -> None:
    assert billionths_text(Billionths(value)) == text


def test_money_is_kept_in_millionths_of_a_dollar() -> None:
    assert microusd("5.42") == 5_420_000
    assert microusd_text(microusd("5.42")) == "5.42"
    assert microusd_text(microusd("0.0000005")) == "0"


def test_ratio_rounds_half_to_even() -> None:
    assert ratio(1, 3) == 333_333_333
    assert ratio(2, 3) == 666_666_667


@settings(max_examples=300, derandomize=True, deadline=None)
@given(st.integers(-(10**18), 10**18), st.integers(1, 10**12))
def test_division_agrees_with_exact_decimals(numerator: int, denominator: int) -> None:
    exact = Decimal(numerator) / Decimal(denominator)
    low, high = exact.to_integral_value(rounding=ROUND_HALF_EVEN), divide(numerator, denominator)
    # Decimal division itself rounds at 28 digits; the cross product does not.
    assert abs(2 * (high * denominator - numerator)) <= denominator
    if abs(2 * (numerator % denominator) - denominator) > 0:
        assert low == high


@settings(max_examples=300, derandomize=True, deadline=None)
@given(st.integers(-(10**20), 10**20))
def test_text_and_value_are_one_to_one(value: int) -> None:
    assert billionths(billionths_text(Billionths(value))) == value
