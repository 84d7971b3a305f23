"""Prices: exact arithmetic, the table of this release, and what is unknown."""

from importlib import resources

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pointsman.errors import IntegrityFailure, NumberError
from pointsman.kernel.canonical import content_id
from pointsman.kernel.number import MicroUsd
from pointsman.storage.policies.price_table import load_price_table
from pointsman.turns.registry.prices import (
    SHEET_FORM,
    LeftOut,
    Price,
    PricedModel,
    PriceSheet,
    PriceTable,
    cost,
    read_price_table,
)

TABLE_ID = "sha256:53b98b2c5056a00b3b6fe8258834ea6a389a73fa48508c706770db9397b0ef9b"
FOLDER = resources.files("pointsman.turns") / "price_table"
OPUS = Price(MicroUsd(5_000_000), MicroUsd(25_000_000), MicroUsd(500_000), MicroUsd(6_250_000))
COUNTS = st.integers(0, 10**9)
RATES = st.none() | st.integers(0, 10**9).map(MicroUsd)


@pytest.fixture(scope="module")
def table() -> PriceTable:
    return load_price_table()


def a_sheet(*models: PricedModel, **changes: object) -> PriceSheet:
    sheet = PriceSheet(
        schema_version=1,
        date="2026-11-15",
        source="a test",
        licence="none",
        currency="USD",
        per_tokens=1_000_000,
        notes=(),
        provider_names={"other": "p"},
        borrows={"q": ("p",)},
        left_out=(LeftOut("no price", ("p:free",)),),
        models=models,
    )
    return msgspec.structs.replace(sheet, **changes)


def a_line(model: str, *names: str, dated: tuple[str, ...] = (), rate: int = 1) -> PricedModel:
    return PricedModel(model, names, dated, None, Price(MicroUsd(rate), MicroUsd(rate)))


def read(*models: PricedModel) -> PriceTable:
    return read_price_table(SHEET_FORM.encode(a_sheet(*models)))


def test_cost_is_exact_over_the_four_kinds_of_tokens() -> None:
    assert cost(OPUS, 1000, 200, 30_000, 400) == 5000 + 5000 + 15_000 + 2500


def test_a_million_tokens_cost_the_written_price() -> None:
    assert cost(OPUS, 1_000_000, 0) == 5_000_000
    assert cost(OPUS, 0, 1_000_000) == 25_000_000


@pytest.mark.parametrize(
    ("rate", "tokens", "expected"),
    [(1, 500_000, 0), (1, 500_001, 1), (1, 1_500_000, 2), (1, 2_500_000, 2), (3, 500_000, 2)],
)
def test_half_a_microdollar_rounds_to_even(rate: int, tokens: int, expected: int) -> None:
    assert cost(Price(MicroUsd(rate)), tokens, 0) == expected


def test_rounding_happens_once_at_the_end() -> None:
    quarter = MicroUsd(250_000)
    assert cost(Price(quarter, quarter, quarter, quarter), 1, 1, 1, 1) == 1


def test_a_price_that_is_needed_and_unknown_makes_the_cost_unknown() -> None:
    known = Price(MicroUsd(1), MicroUsd(1))
    assert cost(known, 10, 10, cached_input_tokens=1) is None
    assert cost(known, 10, 10, cache_write_tokens=1) is None
    assert cost(Price(), 1, 0) is None
    assert cost(Price(), 0, 1) is None


def test_a_price_that_is_not_needed_may_be_unknown() -> None:
    assert cost(Price(), 0, 0) == 0
    assert cost(Price(MicroUsd(0)), 7, 0) == 0


def test_a_negative_count_is_refused() -> None:
    with pytest.raises(NumberError, match="`-1` is not a number of tokens"):
        cost(OPUS, 0, -1)


@settings(max_examples=200, derandomize=True, deadline=None)
@given(st.builds(Price, RATES, RATES, RATES, RATES), COUNTS, COUNTS, COUNTS, COUNTS)
def test_cost_is_within_half_a_microdollar_of_the_exact_sum(
    price: Price, fresh: int, output: int, cached: int, written: int
) -> None:
    pairs = [
        (fresh, price.input),
        (output, price.output),
        (cached, price.cached_input),
        (written, price.cache_write),
    ]
    found = cost(price, fresh, output, cached, written)
    if any(tokens and rate is None for tokens, rate in pairs):
        assert found is None
    else:
        exact = sum(tokens * (rate or 0) for tokens, rate in pairs)
        assert found is not None
        assert abs(found * 1_000_000 - exact) * 2 <= 1_000_000


def test_an_unknown_model_has_no_price() -> None:
    table = read(a_line("p:m", "m"))
    assert table.price("p:other") is None
    assert table.price("nobody:m") is None
    assert table.price("m") is None
    assert table.price("") is None
    assert table.line("p:\N{KELVIN SIGN}") is None


def test_a_model_is_found_by_any_of_its_names_in_any_case() -> None:
    table = read(a_line("p:m", "m", "org/m"))
    assert table.price("p:m") == table.price("p:Org/M") == Price(MicroUsd(1), MicroUsd(1))


@pytest.mark.parametrize(
    "name", ["m", "m-20251101", "m@20251101", "m-2025-11-01", "m-latest", "m-v1:0", "m-20251101-v1"]
)
def test_a_dated_name_stands_for_its_snapshots(name: str) -> None:
    table = read(a_line("p:m", dated=("m",)), a_line("p:n", "n"))
    assert table.price(f"p:{name}") is not None
    assert table.price(f"p:{name.replace('m', 'n', 1)}") == (
        table.price("p:n") if name == "m" else None
    )


def test_a_snapshot_with_a_line_of_its_own_has_its_own_price() -> None:
    table = read(a_line("p:m", dated=("m",)), a_line("p:old", "m-20240101", rate=9))
    assert table.price("p:m-20240101") == Price(MicroUsd(9), MicroUsd(9))


def test_a_provider_is_found_by_its_other_spelling() -> None:
    assert read(a_line("p:m", "m")).price("other:m") is not None


def test_a_provider_that_borrows_has_its_own_price_first() -> None:
    table = read(a_line("p:m", "m"), a_line("p:n", "n"), a_line("q:m", "m", rate=7))
    assert table.price("q:m") == Price(MicroUsd(7), MicroUsd(7))
    assert table.price("q:n") == table.price("p:n")


def test_two_prices_under_one_name_are_refused() -> None:
    with pytest.raises(IntegrityFailure, match="`p:m` has two prices"):
        read(a_line("p:m", "m"), a_line("p:n", "m"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"input":1', b'"input":-1'),
        (b'"input":1', b'"input":1.5'),
        (b'"input":1', b'"input": 1'),
        (b'"input":1,', b""),
        (b'"source"', b'"sauce"'),
        (b'"USD"', b'"EUR"'),
        (b'"2026-11-15"', b'"today"'),
    ],
)
def test_a_table_that_is_not_canonical_is_refused(old: bytes, new: bytes) -> None:
    text = SHEET_FORM.encode(a_sheet(a_line("p:m", "m")))
    assert old in text
    with pytest.raises(IntegrityFailure):
        read_price_table(text.replace(old, new))


def test_line_ends_do_not_change_the_id() -> None:
    text = SHEET_FORM.encode(a_sheet(a_line("p:m", "m")))
    assert read_price_table(text.replace(b"[", b"[\n")).id == read_price_table(text).id


def test_the_table_of_this_release_is_canonical_and_pinned(table: PriceTable) -> None:
    text = (FOLDER / "prices.json").read_bytes()
    assert content_id(text.replace(b"\n", b"")) == table.id == TABLE_ID


def test_the_table_has_one_model_a_line(table: PriceTable) -> None:
    lines = (FOLDER / "prices.json").read_bytes().splitlines()
    starts = [line for line in lines if line.startswith(b'{"base_tier_tokens":')]
    assert len(starts) == len(table.sheet.models)


def test_the_table_says_its_date_source_licence_and_what_it_left_out(table: PriceTable) -> None:
    sheet = table.sheet
    assert sheet.date == "2026-11-15"
    assert sheet.source == "genai-prices 0.2.1"
    assert "MIT" in sheet.licence
    assert "Permission is hereby granted" in (FOLDER / "LICENSE.genai-prices").read_text("utf-8")
    assert all(each.reason and each.models for each in sheet.left_out)
    priced = {line.model for line in sheet.models}
    assert not priced & {model for each in sheet.left_out for model in each.models}


def test_every_price_is_a_whole_number_and_never_negative(table: PriceTable) -> None:
    for line in table.sheet.models:
        rates = [rate for rate in msgspec.structs.astuple(line.price) if rate is not None]
        assert rates, line.model
        assert all(type(rate) is int and rate >= 0 for rate in rates), line.model


@pytest.mark.parametrize(
    ("model", "in_price", "out_price"),
    [
        ("anthropic:claude-opus-4-5", 5_000_000, 25_000_000),
        ("anthropic:claude-opus-4-5-20251101", 5_000_000, 25_000_000),
        ("anthropic:claude-opus-4-7", 5_000_000, 25_000_000),
        ("anthropic:claude-sonnet-4-6", 3_000_000, 15_000_000),
        ("anthropic:claude-sonnet-4-20250514", 3_000_000, 15_000_000),
        ("anthropic:claude-haiku-4-5", 1_000_000, 5_000_000),
        ("openai:gpt-5", 1_250_000, 10_000_000),
        ("openai:gpt-5-mini", 250_000, 2_000_000),
        ("openai:gpt-4o", 2_500_000, 10_000_000),
        ("openai:gpt-4o-2024-05-13", 5_000_000, 15_000_000),
        ("azure:gpt-5", 1_250_000, 10_000_000),
        ("gemini:gemini-2.5-pro", 1_250_000, 10_000_000),
        ("openrouter:anthropic/claude-opus-4.5", 5_000_000, 25_000_000),
        ("together:meta-llama/Llama-3.3-70B-Instruct-Turbo", 880_000, 880_000),
        ("bedrock:us.anthropic.claude-opus-4-5-20251101-v1:0", 5_500_000, 27_500_000),
        ("bedrock:anthropic.claude-3-5-sonnet-20241022-v2:0", 3_000_000, 15_000_000),
    ],
)
def test_well_known_models_are_priced_under_the_names_people_write(
    table: PriceTable, model: str, in_price: int, out_price: int
) -> None:
    price = table.price(model)
    assert price is not None
    assert (price.input, price.output) == (in_price, out_price)


@pytest.mark.parametrize(
    "model",
    ["ollama:llama3.2:1b", "embedded:smollm2-135m", "openai:gpt-4o-2030-01-01", "perplexity:sonar"],
)
def test_what_the_table_does_not_say_is_unknown(table: PriceTable, model: str) -> None:
    assert table.price(model) is None
