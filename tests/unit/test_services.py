"""The services `init --with` knows, and the files written from them."""

import re
from fnmatch import fnmatchcase
from typing import get_args

import pytest

from pointsman.errors import InputError
from pointsman.operations.services import (
    STARTER_SERVICES,
    missing_keys,
    models_text,
    routing_text,
    services_named,
    services_with_keys,
)
from pointsman.storage.policies.price_table import load_catalogue, load_price_table
from pointsman.turns.policy import read_policy
from pointsman.turns.registry.models import EMBEDDED_MODEL, ModelsFile, read_models, registry
from pointsman.turns.registry.services import SERVICES, Kind, ModelService

PRICED_OTHERWISE = {
    "deepseek:deepseek-chat", "deepseek:deepseek-reasoner",  # by the hour
    "perplexity:sonar", "perplexity:sonar-pro",  # by the search, beside tokens
}  # fmt: skip


def written(services: tuple[ModelService, ...], **environment: str) -> ModelsFile:
    return read_models(models_text(services, environment).encode(), "models.yaml")


@pytest.mark.parametrize("service", STARTER_SERVICES, ids=lambda each: each.name)
def test_each_service_alone_makes_files_that_hold(service: ModelService) -> None:
    models = written((service,))
    known = registry(models, load_price_table().price, load_catalogue().capabilities)
    routing = read_policy(routing_text((service,)).encode(), "routing.yaml", known, "/home/me")
    assert routing.global_default[-1] == EMBEDDED_MODEL
    assert len(routing.global_default) > 1


def test_all_services_together_have_no_alias_twice() -> None:
    models = written(STARTER_SERVICES)
    assert len(models.providers) == len(STARTER_SERVICES)


def test_the_starter_models_are_models_that_the_tables_know() -> None:
    prices, catalogue = load_price_table(), load_catalogue()
    for name, model in registry(
        written(STARTER_SERVICES), prices.price, catalogue.capabilities
    ).items():
        if model.location == "local" or "embed" in name:
            continue
        assert model.capabilities.max_context_tokens, name
        assert model.price is not None or name in PRICED_OTHERWISE, name


def test_the_default_goes_through_the_services_before_a_second_model_of_one() -> None:
    text = routing_text(services_named(["openai", "anthropic"]))
    names = re.findall(r"^  - (\S+)$", text, re.MULTILINE)
    assert names == [
        "openai:gpt-5.2", "anthropic:claude-sonnet-4-6", "openai:gpt-5-mini",
        "anthropic:claude-haiku-4-5", EMBEDDED_MODEL,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("sent", "target"),
    [
        ("claude-haiku-4-5-20251001", "anthropic:claude-haiku-4-5"),
        ("gemini-3-flash", "anthropic:claude-haiku-4-5"),
        ("claude-opus-9", "auto"),
        ("gpt-9-codex", "auto"),
    ],
)
def test_names_that_agents_send_have_a_model(sent: str, target: str) -> None:
    accept = written(services_named(["anthropic"])).accept
    assert next(to for glob, to in accept.items() if fnmatchcase(sent, glob)) == target


def test_the_key_that_is_set_is_the_one_referenced() -> None:
    gemini = services_named(["gemini"])
    assert written(gemini).providers["gemini"].api_key.env == "GEMINI_API_KEY"
    named = written(gemini, GOOGLE_API_KEY="k").providers["gemini"].api_key
    assert named.env == "GOOGLE_API_KEY"
    assert missing_keys(gemini, {"GOOGLE_API_KEY": "k"}) == []
    assert missing_keys(services_named(["gemini", "ollama"]), {}) == ["GEMINI_API_KEY"]


def test_services_whose_key_is_set_are_found() -> None:
    found = services_with_keys({"XAI_API_KEY": "k", "OPENAI_API_KEY": ""})
    assert [each.name for each in found] == ["xai"]


def test_an_unknown_service_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(InputError) as caught:
        services_named(["openai", "anthropc"])
    assert "`anthropic`" in caught.value.hint


def test_every_kind_but_the_embedded_one_is_a_service_of_the_table() -> None:
    assert {each.name for each in SERVICES} == {*get_args(Kind)} - {"embedded"}


def test_a_model_is_priced_by_the_kind_of_its_provider_whatever_its_name() -> None:
    text = b"""
schema_version: 1
providers: {quick: {kind: groq}, mine: {kind: groq, base_url: "http://127.0.0.1:1"}}
models: {quick:openai/gpt-oss-20b: {location: cloud}, mine:openai/gpt-oss-20b: {location: cloud}}
"""
    known = registry(read_models(text, "m"), load_price_table().price)
    assert known["quick:openai/gpt-oss-20b"].price == load_price_table().price(
        "groq:openai/gpt-oss-20b"
    )
    assert known["quick:openai/gpt-oss-20b"].price is not None
    assert known["mine:openai/gpt-oss-20b"].price is None
