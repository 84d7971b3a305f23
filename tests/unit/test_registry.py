"""The registry of models, the `@alias`, and patterns: what they refuse and how they read."""

import json
from pathlib import Path

import pytest

from pointsman.errors import DocumentError, InputError, PointsmanError
from pointsman.kernel.regex import MAX_PATTERN, refusal
from pointsman.providers.registry.providers import open_providers
from pointsman.providers.vendors import VENDORS
from pointsman.storage.policies.secrets import is_resolved, missing_secrets
from pointsman.turns.chain.override import split_override
from pointsman.turns.facts import Override
from pointsman.turns.policy import normal_path
from pointsman.turns.registry.models import (
    EMBEDDED_MODEL,
    ModelsFile,
    Provider,
    ProviderKey,
    aliases,
    read_models,
    registry,
)
from pointsman.turns.registry.prices import Price
from pointsman.turns.registry.services import SPOKEN
from pointsman.turns.rules.text_patterns import MAX_TEXT, TextPatterns

ALIASES = {"haiku": "acme:small", "acme:small": "acme:small"}


def _models(**parts: object) -> bytes:
    whole = {
        "schema_version": 1,
        "providers": {"acme": {"kind": "openai"}},
        "models": {"acme:small": {"location": "cloud"}},
    }
    return json.dumps({**whole, **parts}).encode()


def _upstream(**parts: object) -> dict[str, object]:
    return {"providers": {"acme": {"kind": "openai", **parts}}}


@pytest.mark.parametrize(
    ("parts", "part"),
    [
        ({"models": {"acme:a": {"location": "cloud", "aliases": ["a b"]}}}, "cannot be an alias"),
        ({"models": {"acme:a": {"location": "cloud", "aliases": ["a", "a"]}}}, "belongs to"),
        (
            {"models": {"acme:a": {"location": "cloud", "aliases": [EMBEDDED_MODEL]}}},
            "belongs to",
        ),
        ({"accept": {"gpt-*": "acme:smal"}}, "neither `auto` nor a model"),
        (_upstream(base_url="127.0.0.1:9241/v1"), "neither `https://` nor `http://`"),
        (_upstream(headers={"Host": "x"}), "the header `host` cannot be configured"),
        (_upstream(speaks=["messages"]), "kind `openai` cannot speak `messages`"),
        (
            {"providers": {"acme": {"kind": "openai", "api_key": {"env": "A", "file": "b"}}}},
            "either `env` or `file`",
        ),
        ({"providers": {"acme": {"kind": "openai", "api_key": [{}]}}}, "either `env` or `file`"),
    ],
    ids=[
        "alias form",
        "alias taken",
        "alias of an id",
        "accept",
        "address",
        "header",
        "speaks",
        "secret twice",
        "secret never",
    ],
)
@pytest.mark.req(273)
def test_a_registry_that_means_nothing_certain_is_refused(
    parts: dict[str, object], part: str
) -> None:
    with pytest.raises(DocumentError, match=part):
        read_models(_models(**parts), "models.yaml")


@pytest.mark.parametrize(
    "url", ["", "api.openai.com", "127.0.0.1:9241/v1", "https://user:pw@host/", "https://host?x=1"]
)
@pytest.mark.parametrize("kind", ["openai", "anthropic", "ollama", "embedded"])
def test_an_address_is_refused_where_and_only_where_its_provider_cannot_be_opened(
    kind: str, url: str, tmp_path: Path
) -> None:
    provider = Provider(kind=kind, base_url=url)  # type: ignore[arg-type]
    refusals = []
    for attempt in (
        lambda: read_models(_models(**_upstream(kind=kind, base_url=url)), "models.yaml"),
        lambda: open_providers(ModelsFile(1, {"acme": provider}), tmp_path),
    ):
        try:
            attempt()
            refusals.append("")
        except PointsmanError as error:
            refusals.append(str(error).partition("`base_url` ")[2])
    assert refusals[0] == refusals[1]
    assert bool(refusals[0]) == (bool(url) and kind != "embedded")
    assert "pw" not in refusals[0]


def test_an_address_is_refused_at_its_place() -> None:
    with pytest.raises(DocumentError) as caught:
        read_models(
            b"schema_version: 1\nproviders:\n  a: {kind: openai, base_url: localhost/v1}\n", "m"
        )
    assert [str(each.place) for each in caught.value.problems] == ["m:3:31"]


def test_what_a_kind_can_speak_is_what_its_vendor_speaks() -> None:
    assert {kind: tuple(vendor.paths) for kind, vendor in VENDORS.items()} == SPOKEN


def test_accepted_names_lead_to_auto_or_a_known_model() -> None:
    text = _models(accept={"gpt-*": "auto", "claude": "acme/small"})
    assert read_models(text, "models.yaml").accept == {"gpt-*": "auto", "claude": "acme/small"}


def test_a_price_comes_from_the_file_else_from_the_table_else_is_unknown() -> None:
    given = {
        "acme:told": {"location": "cloud", "price": {"input": "0.25", "output": 1.5}},
        "acme:listed": {"location": "cloud"},
        "acme:unknown": {"location": "cloud"},
        "acme:here": {"location": "local"},
    }
    listed = Price(7, 9)
    models = registry(
        read_models(_models(models=given), "models.yaml"),
        lambda name: listed if name == "acme:listed" else None,
    )
    assert models["acme:told"].price == Price(250_000, 1_500_000)
    assert models["acme:listed"].price == listed
    assert models["acme:unknown"].price is None
    assert models["acme:here"].price == Price(0, 0, 0, 0)


def test_the_embedded_model_may_be_described_anew() -> None:
    given = {EMBEDDED_MODEL: {"location": "local", "aliases": ["local", "mine"]}}
    models = registry(read_models(_models(models=given), "models.yaml"), lambda _name: None)
    assert aliases(models)["mine"] == EMBEDDED_MODEL


def test_an_alias_of_the_file_beats_the_built_in_one_of_the_embedded_model() -> None:
    given = {"acme:here": {"location": "local", "aliases": ["local"]}}
    text = _models(models=given, accept={"any": "local"})
    models = registry(read_models(text, "models.yaml"), lambda _name: None)
    assert aliases(models)["local"] == "acme:here"
    assert models[EMBEDDED_MODEL].aliases == ()
    without = registry(read_models(_models(), "models.yaml"), lambda _name: None)
    assert aliases(without)["local"] == EMBEDDED_MODEL
    twice = {**given, "acme:there": {"location": "local", "aliases": ["local"]}}
    with pytest.raises(DocumentError, match="belongs to `acme:here` already"):
        read_models(_models(models=twice), "models.yaml")


@pytest.mark.req(271, 274, 275)
@pytest.mark.parametrize(
    ("message", "mode", "want"),
    [
        ("@haiku  hi\nthere", "strict", (Override("haiku", "acme:small"), "hi\nthere")),
        ("@acme/small hi", "strict", (Override("acme/small", "acme:small"), "hi")),
        ("@haiku, hi", "strict", (None, "@haiku, hi")),
        ("hi @haiku", "strict", (None, "hi @haiku")),
        ("\u200b@haiku hi", "strict", (None, "\u200b@haiku hi")),
        ("\\@haiku hi", "strict", (None, "@haiku hi")),
        ("@nobody hi", "known", (None, "@nobody hi")),
        ("@haiku hi", "known", (Override("haiku", "acme:small"), "hi")),
        ("@haiku hi", "off", (None, "@haiku hi")),
    ],
)
def test_an_alias_counts_only_at_the_very_start(message: str, mode: str, want: object) -> None:
    assert split_override(message, ALIASES, mode) == want  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("message", "hint"),
    [("@haikku hi", "did you mean `haiku`?"), ("@haiku", "behind it"), ("@ hi", "plain @")],
)
def test_an_alias_that_names_nothing_or_no_message_is_an_error(message: str, hint: str) -> None:
    with pytest.raises(InputError) as caught:
        split_override(message, ALIASES)
    assert hint in caught.value.hint


@pytest.mark.req(206)
@pytest.mark.parametrize(
    ("pattern", "part"),
    [
        ("(?=a)", "invalid perl operator"),
        ("(", "missing )"),
        (r"(a)\1", "invalid escape sequence"),
        ("a" * (MAX_PATTERN + 1), "longer than"),
        ("\ud800", "surrogate"),
    ],
)
def test_a_pattern_is_refused_with_the_engines_reason(pattern: str, part: str) -> None:
    assert part in refusal(pattern)


def test_patterns_see_the_start_of_a_long_text_and_no_more() -> None:
    patterns = TextPatterns()
    first, again = patterns.number("needle"), patterns.number("needle")
    patterns.ready()
    assert first == again
    assert patterns.hits("x" * (MAX_TEXT - 6) + "needle") == {first}
    assert patterns.hits("x" * MAX_TEXT + "needle") == frozenset()
    assert patterns.hits("\ud800 needle") == {first}


def test_no_patterns_hit_nothing() -> None:
    patterns = TextPatterns()
    patterns.ready()
    assert patterns.hits("anything") == frozenset()


@pytest.mark.req(305)
@pytest.mark.parametrize(
    ("path", "normal"),
    [
        ("~", "/home/me"),
        ("~/code/x", "/home/me/code/x"),
        ("/a//b/./c/../d", "/a/b/d"),
        ("/..", "/"),
        ("/", "/"),
    ],
)
def test_paths_have_one_spelling(path: str, normal: str) -> None:
    assert normal_path(path, "/home/me") == normal


def test_a_provider_nobody_named_is_not_configured(tmp_path: Path) -> None:
    assert not is_resolved(None, tmp_path)
    assert is_resolved(Provider("openai"), tmp_path)
    assert missing_secrets(Provider("openai", api_key=()), tmp_path) == [
        "api_key: the list is empty"
    ]
    one = Provider("openai", api_key=ProviderKey(file="k"))
    assert missing_secrets(one, tmp_path) == ["file k"]
    (tmp_path / "there").write_text("secret")
    both = (ProviderKey(file="k"), ProviderKey(file="there"))
    assert missing_secrets(Provider("openai", api_key=both), tmp_path) == []
