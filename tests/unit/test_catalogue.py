"""The catalogue of models: what is known, by which name, and what a user's file says instead."""

from importlib import resources

import msgspec
import pytest

from pointsman.errors import IntegrityFailure
from pointsman.kernel.canonical import content_id
from pointsman.kernel.number import MicroUsd
from pointsman.storage.policies.price_table import load_catalogue, load_price_table
from pointsman.turns.registry.catalogue import (
    CATALOGUE_FORM,
    NOTHING_KNOWN,
    AlikeModels,
    Capabilities,
    Catalogue,
    CatalogueSheet,
    merge_capabilities,
)
from pointsman.turns.registry.models import EMBEDDED_MODEL, ModelsFile, read_models, registry
from pointsman.turns.registry.prices import Price
from pointsman.turns.registry.sources import value_sources

FOLDER = resources.files("pointsman.turns") / "price_table"


@pytest.fixture(scope="module")
def shipped() -> Catalogue:
    return load_catalogue()


def a_catalogue(*models: AlikeModels) -> Catalogue:
    sheet = CatalogueSheet(1, "2026-11-18", (), (), (), {"p-other": "p"}, models)
    return Catalogue(CATALOGUE_FORM.encode(sheet))


def a_line(names: dict[str, tuple[str, ...]], *can: str, context: int = 100) -> AlikeModels:
    return msgspec.convert(
        {"can": can, "cannot": ["thinking"], "context": context, "output": None, "names": names},
        AlikeModels,
    )


ONE = a_catalogue(a_line({"p": ("m", "vendor/x")}, "images"), a_line({"vendor": ("x",)}, "tools"))


def test_what_a_line_says_is_known_and_the_rest_is_unknown() -> None:
    known = ONE.capabilities("p:m")
    assert (known.supports_images, known.supports_thinking) == (True, False)
    assert (known.supports_tools, known.max_context_tokens, known.max_output_tokens) == (
        None, 100, None,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["p:M", "p-other:m", "p:m-20990101", "p:m@latest", "p:m-v1:0"])
def test_a_model_is_found_by_other_spellings_and_snapshots_of_its_name(name: str) -> None:
    assert ONE.capabilities(name) == ONE.capabilities("p:m")


@pytest.mark.parametrize("name", ["p:n", "q:m", "p:", "p:M\u0130", "m", ""])
def test_of_any_other_name_nothing_is_known(name: str) -> None:
    assert ONE.capabilities(name) == NOTHING_KNOWN


def test_a_reseller_is_asked_first_and_the_vendor_for_what_it_does_not_say() -> None:
    known = ONE.capabilities("p:vendor/x")
    assert (known.supports_images, known.supports_tools) == (True, True)
    assert ONE.capabilities("anyone:vendor/x").supports_tools is True


def test_a_name_that_stands_twice_is_refused() -> None:
    twice = a_catalogue(a_line({"p": ("m",)}, "images"), a_line({"p": ("m",)}, "tools"))
    with pytest.raises(IntegrityFailure, match="`p:m` stands twice"):
        twice.capabilities("p:m")


def test_of_each_capability_the_first_that_is_known_counts_also_where_it_is_false() -> None:
    first = Capabilities(supports_images=False)
    second = Capabilities(supports_images=True, max_context_tokens=5)
    merged = merge_capabilities((first, second))
    assert merged == Capabilities(supports_images=False, max_context_tokens=5)


def a_file(text: str) -> ModelsFile:
    return read_models(text.encode(), "models.yaml")


FILE = a_file(
    "schema_version: 1\n"
    "providers: {p: {kind: openai}, vendor: {kind: openai}, work: {kind: openai},\n"
    '  far: {kind: openai, base_url: "http://127.0.0.1:1"}}\n'
    "models:\n"
    '  "p:m": {location: cloud, capabilities: {supports_images: false}}\n'
    '  "p:vendor/x": {location: local}\n'
    '  "work:big": {location: cloud}\n'
    '  "far:big": {location: cloud}\n'
    '  "p:free": {location: cloud, price: {input: 1, output: 1}}\n'
)
OPENAI = a_catalogue(a_line({"openai": ("big",), "p": ("m", "vendor/x")}, "images", "tools"))


def test_the_file_of_the_user_beats_the_catalogue_value_by_value() -> None:
    known = registry(FILE, lambda _name: None, OPENAI.capabilities)["p:m"].capabilities
    assert (known.supports_images, known.supports_tools) == (False, True)


def test_of_a_local_model_only_its_file_tells() -> None:
    models = registry(FILE, lambda _name: None, OPENAI.capabilities)
    assert models["p:vendor/x"].capabilities == NOTHING_KNOWN


def test_a_provider_of_another_name_at_its_vendors_own_address_is_that_vendor() -> None:
    price = Price(MicroUsd(1), MicroUsd(2))
    models = registry(FILE, {"openai:big": price}.get, OPENAI.capabilities)
    assert models["work:big"].capabilities.supports_tools is True
    assert models["work:big"].price == price
    assert models["far:big"].capabilities == NOTHING_KNOWN
    assert models["far:big"].price is None


def test_each_value_of_a_model_has_its_source() -> None:
    prices = load_price_table()
    sources = value_sources("p:m", FILE, prices, OPENAI)
    assert sources["supports_images"] == "models.yaml"
    assert sources["supports_tools"] == "catalogue of 2026-11-18"
    assert sources["supports_system_prompt"] == sources["price"] == "unknown"
    assert value_sources("p:free", FILE, prices, OPENAI)["price"] == "models.yaml"
    assert value_sources("p:vendor/x", FILE, prices, OPENAI)["supports_tools"] == "unknown"
    assert set(value_sources(EMBEDDED_MODEL, FILE, prices, OPENAI).values()) == {"built in"}


def test_the_shipped_catalogue_is_canonical_and_named_by_its_bytes(shipped: Catalogue) -> None:
    text = (FOLDER / "catalogue.json").read_bytes().replace(b"\n", b"")
    assert CATALOGUE_FORM.encode(shipped.sheet) == text
    assert shipped.id == content_id(text)


def test_each_source_of_the_catalogue_has_its_licence_beside_it(shipped: Catalogue) -> None:
    for licence in shipped.sheet.licences:
        name = licence.rpartition(" ")[2]
        assert b"Permission is hereby granted" in (FOLDER / name).read_bytes()
    assert len(shipped.sheet.licences) == len(shipped.sheet.sources)


@pytest.mark.parametrize(
    "name",
    ["openai:gpt-5.2", "anthropic:claude-sonnet-4-6", "anthropic:claude-opus-4-7",
     "anthropic:claude-haiku-4-5", "gemini:gemini-2.5-pro", "openrouter:openai/gpt-5.2",
     "bedrock:us.anthropic.claude-sonnet-4-5-20250929-v1:0", "openai:gpt-4o-mini"],
)  # fmt: skip
def test_models_people_use_are_known_to_see_call_and_promise(shipped: Catalogue, name: str) -> None:
    known = shipped.capabilities(name)
    assert known.supports_images
    assert known.supports_tools
    assert known.supports_structured_output
    assert (known.max_context_tokens or 0) >= 100_000


def test_embedding_models_have_no_window_that_many_texts_would_break(shipped: Catalogue) -> None:
    assert shipped.capabilities("openai:text-embedding-3-small") == NOTHING_KNOWN
