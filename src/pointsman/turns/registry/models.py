"""The models there are: `models.yaml`, read and checked. Says nothing about which one is chosen."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace

from pointsman.errors import DocumentError, Problem
from pointsman.kernel.codes import Code
from pointsman.kernel.document import Document, Path
from pointsman.kernel.literal import AtLeastOne, Usd
from pointsman.kernel.nearest import nearest
from pointsman.kernel.number import MicroUsd, microusd
from pointsman.kernel.schema import conform
from pointsman.kernel.yaml_text import parse_yaml
from pointsman.placement.rules.zones import (
    CLOUD,
    LOCAL,
    ZoneName,
    Zones,
    unknown_zone_problems,
    zones_around,
)
from pointsman.turns.registry.catalogue import NOTHING_KNOWN, Capabilities, merge_capabilities
from pointsman.turns.registry.login import ProviderKey, ProviderLogin, SecretRef
from pointsman.turns.registry.prices import Price, highest_cost, output_bound
from pointsman.turns.registry.provider_problems import (
    has_own_address,
    provider_problems,
    spoken_to,
)
from pointsman.turns.registry.services import Kind, WireFormat

EMBEDDED_MODEL = "embedded:smollm2-135m"
"""The local model that is always there."""

EMBEDDED_PROVIDER = "embedded"

Location = Literal["local", "cloud"]
Tier = Literal["fast", "balanced", "deep"]
TIERS: tuple[Tier, ...] = ("fast", "balanced", "deep")

ProviderName = Annotated[str, Meta(pattern="^[a-z0-9][a-z0-9_.-]{0,62}$")]

_MODEL_ID = re.compile(r"([a-z0-9][a-z0-9_.-]{0,62})[:/](\S{1,127})", re.ASCII)
_ALIAS = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/-]{0,126}", re.ASCII)


class Provider(Struct, frozen=True, forbid_unknown_fields=True):
    """One upstream as `models.yaml` names it.

    `path` is the GGUF file of an embedded one. `speaks` names wire formats beyond those of its
    kind; `allow_private` lets its host name lead into a private network. It is asked what a
    streamed chat answer used, also where its caller does not ask, unless `stream_usage: as_asked`.
    `api_version` is Azure's, `region` Bedrock's and Vertex', which
    has a `project` too. `login` stands in place of `api_key`.
    `client_certificate` is a file with our own certificate and its key.
    """

    kind: Kind
    base_url: str = ""
    path: str = ""
    speaks: tuple[WireFormat, ...] = ()
    allow_private: bool = False
    stream_usage: Literal["as_asked", "ask"] = "ask"
    api_key: ProviderKey | tuple[ProviderKey, ...] | None = None
    login: ProviderLogin | None = None
    client_certificate: SecretRef | None = None
    region: Annotated[str, Meta(pattern="^[a-z0-9-]{0,40}$")] = ""
    project: Annotated[str, Meta(pattern="^[a-z0-9:.-]{0,100}$")] = ""
    api_version: Annotated[str, Meta(pattern="^[A-Za-z0-9.-]{0,40}$")] = ""
    headers: dict[str, str] = {}
    query: dict[str, str] = {}
    timeout_s: AtLeastOne = 600
    rpm: AtLeastOne | None = None
    tpm: AtLeastOne | None = None

    @property
    def takes_callers_login(self) -> bool:
        """Tell whether each caller brings a login of their own at this provider."""
        return isinstance(self.api_key, ProviderKey) and self.api_key.is_callers


class GivenPrice(Struct, frozen=True, forbid_unknown_fields=True):
    """A price as it is written: US dollars per million tokens."""

    input: Usd
    output: Usd
    cached_input: Usd | None = None
    cache_write: Usd | None = None


class GivenDeployment(Struct, frozen=True, forbid_unknown_fields=True):
    """One place that serves a model: a provider, and the name it has there.

    Empty is the model's own. `rpm` and `tpm` are requests and tokens of input a minute.
    """

    provider: str = ""
    name: str = ""
    weight: Annotated[int, Meta(ge=1, le=1000)] = 1
    rpm: AtLeastOne | None = None
    tpm: AtLeastOne | None = None


class GivenModel(Struct, frozen=True, forbid_unknown_fields=True):
    """One model as `models.yaml` describes it."""

    location: Location
    tier: Tier | None = None
    can_delegate: bool = False
    aliases: tuple[str, ...] = ()
    deployments: tuple[GivenDeployment, ...] = ()
    capabilities: Capabilities = Capabilities()
    price: GivenPrice | None = None
    zone: ZoneName | UnsetType = UNSET


class ModelsFile(Struct, frozen=True, forbid_unknown_fields=True):
    """`models.yaml` as it is written."""

    schema_version: Literal[1]
    providers: dict[ProviderName, Provider] = {}
    models: dict[str, GivenModel] = {}
    accept: dict[str, str] = {}


class Model(Struct, frozen=True, forbid_unknown_fields=True):
    """One model as policies hold it: complete, its price resolved."""

    location: Location
    tier: Tier | None = None
    can_delegate: bool = False
    aliases: tuple[str, ...] = ()
    capabilities: Capabilities = Capabilities()
    price: Price | None = None
    zones: tuple[str, ...] | UnsetType = UNSET
    """The zone of a model in the cloud, then all those it lies within; UNSET where it has none."""

    @property
    def zone(self) -> str:
        """The zone the model stands in: its location where models.yaml names no other."""
        return self.location if self.zones is UNSET else self.zones[0]


def lies_within(model: Model, zones: Iterable[str]) -> bool:
    """Tell whether a model lies within all these zones: a local one lies within every zone."""
    if model.location == "local":
        return True
    own: tuple[str, ...] = () if model.zones is UNSET else model.zones
    return all(zone in own or zone == CLOUD for zone in zones)


def in_zones(models: Mapping[str, Model], zones: Zones) -> dict[str, Model]:
    """Return models that know all the zones they lie within."""
    return {
        name: model
        if model.zones is UNSET
        else replace(model, zones=zones_around(model.zone, zones))
        for name, model in models.items()
    }


NO_MODELS = ModelsFile(schema_version=1)
EMBEDDED = GivenModel(
    location="local",
    tier="fast",
    aliases=("local",),
    capabilities=Capabilities(
        max_context_tokens=2048,
        max_output_tokens=1024,
        supports_images=False,
        supports_tools=False,
        supports_system_prompt=True,
        supports_structured_output=True,
        supports_streaming=True,
        supports_thinking=False,
        supports_prompt_caching=False,
    ),
    price=GivenPrice(Decimal(0), Decimal(0)),
)


def read_models(text: bytes, source: str, zones: Mapping[str, object] | None = None) -> ModelsFile:
    """Read `models.yaml`, or raise with every problem at its place.

    With `zones`, those that placement.yaml names, a model may stand in no other.
    """

    def zone_problems(models: ModelsFile, document: Document) -> Iterable[Problem]:
        for name, model in models.models.items():
            if zones is not None and model.zone is not UNSET:
                at: Path = ("models", name, "zone")
                yield from unknown_zone_problems(model.zone, zones, document, at)

    return conform(parse_yaml(text, source), ModelsFile, _problems, zone_problems)


def named_models(text: bytes) -> frozenset[str] | None:
    """Return the ids that a `models.yaml` names, whatever else is wrong with it.

    None where its models cannot be told.
    """
    try:
        value = parse_yaml(text, "").value
    except DocumentError:
        return None
    models = value.get("models", {}) if isinstance(value, dict) else None
    return frozenset(map(model_id, models)) if isinstance(models, dict) else None


PriceOf = Callable[[str], Price | None]
"""Returns the price of a model by its id; None when it is unknown."""

CapabilitiesOf = Callable[[str], Capabilities]
"""Returns the known capabilities of a model by its id."""


def registry(
    models: ModelsFile,
    price_of: PriceOf,
    capabilities_of: CapabilitiesOf = lambda _name: NOTHING_KNOWN,
) -> dict[str, Model]:
    """Return all models under their ids, the embedded one first, complete.

    What the file says of a model beats the price table and the catalogue, and an alias of the file
    the built-in one of the embedded model.
    """
    given = {model_id(name): model for name, model in models.models.items()}
    taken = {alias for model in given.values() for alias in model.aliases}
    left = tuple(alias for alias in EMBEDDED.aliases if alias not in taken)
    return {
        name: _complete(model, names_in_tables(name, models), price_of, capabilities_of)
        for name, model in {EMBEDDED_MODEL: replace(EMBEDDED, aliases=left), **given}.items()
    }


def aliases(models: Mapping[str, Model]) -> dict[str, str]:
    """Return the model each alias stands for; every id is its own alias."""
    named = {alias: name for name, model in models.items() for alias in model.aliases}
    return {**named, **{name: name for name in models}}


@lru_cache(4096)
def model_id(text: str) -> str:
    """Return the one spelling of a model's id: it splits at its first `:` or `/`."""
    match = _MODEL_ID.fullmatch(text)
    return f"{match[1]}:{match[2]}" if match else text


def provider_of(model: str) -> str:
    """Return the provider's name in a model's id."""
    return model.partition(":")[0]


def is_local(models: Mapping[str, Model], provider: str) -> bool:
    """Tell whether all models of a provider are on this host."""
    places = {each.location for name, each in models.items() if provider_of(name) == provider}
    return places == {"local"}


def meant(name: str, known: Iterable[str]) -> str:
    """Ask whether a close name was meant; empty when none is close."""
    close = nearest(name, [*known])
    return f"did you mean `{close}`?" if close else ""


def names_in_tables(name: str, models: ModelsFile) -> tuple[str, ...]:
    """Return the ids a model may have in the price table and the catalogue.

    A provider by another name that is called at its kind's own address is that vendor.
    """
    provider = models.providers.get(provider_of(name))
    # Where a kind has no address of its own, each customer's is the vendor's.
    if provider is None or (provider.base_url and has_own_address(provider)):
        return (name,)
    own = name.partition(":")[2]
    # The name of an inference profile of Bedrock ends with that of the model.
    short = own.rpartition("/")[2] if own.startswith("arn:") else own
    return tuple(dict.fromkeys((name, f"{provider.kind}:{short}")))


def _complete(
    model: GivenModel, names: tuple[str, ...], price_of: PriceOf, capabilities_of: CapabilitiesOf
) -> Model:
    listed = (price_of(each) for each in names)
    price = (
        _given_price(model.price)
        if model.price
        else next((each for each in listed if each is not None), None)
    )
    known = () if model.location == "local" else map(capabilities_of, names)
    if price is None and model.location == "local":
        # What runs here is paid for already.
        price = Price(MicroUsd(0), MicroUsd(0), MicroUsd(0), MicroUsd(0))
    return Model(
        location=model.location,
        tier=model.tier,
        can_delegate=model.can_delegate,
        aliases=model.aliases,
        capabilities=merge_capabilities((model.capabilities, *known)),
        price=price,
        zones=UNSET if model.zone in {UNSET, model.location} else (model.zone,),
    )


def _given_price(price: GivenPrice) -> Price:
    return Price(
        _micro(price.input),
        _micro(price.output),
        None if price.cached_input is None else _micro(price.cached_input),
        None if price.cache_write is None else _micro(price.cache_write),
    )


def _micro(value: Decimal) -> MicroUsd:
    return microusd(f"{value:f}")


def _problems(models: ModelsFile, document: Document) -> Iterable[Problem]:
    yield from _model_problems(models, document)
    yield from _alias_problems(models, document)
    yield from _accept_problems(models, document)
    yield from _deployment_problems(models, document)
    yield from provider_problems(models.providers, document)


def _model_problems(models: ModelsFile, document: Document) -> Iterable[Problem]:
    providers = [*models.providers, provider_of(EMBEDDED_MODEL)]
    seen: dict[str, str] = {}
    for name, given in models.models.items():
        path: Path = ("models", name)
        provider = provider_of(model_id(name))
        if given.zone is not UNSET and (given.zone == LOCAL) != (given.location == LOCAL):
            message = "what runs on this machine stands in the zone `local`, and nothing else does"
            hint = "a `zone` of yours is for a model with `location: cloud`"
            yield document.problem((*path, "zone"), Code.INVALID_VALUE, message, hint)
        if not _MODEL_ID.fullmatch(name):
            message, hint = f"`{name}` is no model id", "write it like `provider:name`"
            yield document.problem(path, Code.INVALID_VALUE, message, hint, key=True)
        elif model_id(name) in seen:
            message = f"`{name}` is the same model as `{seen[model_id(name)]}`"
            yield document.problem(path, Code.DUPLICATE_KEY, message, key=True)
        elif provider not in providers and document.is_read(("providers",)):
            message = f"`{name}` names the provider `{provider}`, which is not under `providers`"
            hint = meant(provider, providers)
            yield document.problem(path, Code.UNKNOWN_VALUE, message, hint, key=True)
        seen.setdefault(model_id(name), name)


def places_of(name: str, model: GivenModel) -> tuple[GivenDeployment, ...]:
    """Return a model's deployments with nothing left out."""
    provider, _, own = model_id(name).partition(":")
    return tuple(
        replace(each, provider=each.provider or provider, name=each.name or own)
        for each in model.deployments
    )


def _deployment_problems(models: ModelsFile, document: Document) -> Iterable[Problem]:
    for name, model in models.models.items():
        seen: set[tuple[str, str]] = set()
        spoken: list[frozenset[WireFormat]] = []
        for index, each in enumerate(places_of(name, model)):
            path: Path = ("models", name, "deployments", index)
            provider = models.providers.get(each.provider)
            if provider is None or provider.kind == "embedded":
                message = f"`{each.provider}` is no provider that is called over HTTP"
                hint = meant(each.provider, models.providers)
                yield document.problem(path, Code.UNKNOWN_VALUE, message, hint)
                continue
            if (each.provider, each.name) in seen:
                message = f"the deployment `{each.provider}:{each.name}` stands twice"
                yield document.problem(path, Code.DUPLICATE_KEY, message)
            seen.add((each.provider, each.name))
            spoken.append(spoken_to(provider, each.name))
        if spoken and not frozenset.intersection(*spoken):
            message = "the deployments of a model must have a wire format in common"
            yield document.problem(("models", name, "deployments"), Code.INVALID_VALUE, message)


def _alias_problems(models: ModelsFile, document: Document) -> Iterable[Problem]:
    owners = {model_id(name): name for name in {EMBEDDED_MODEL: 0, **models.models}}
    for name, model in models.models.items():
        for index, alias in enumerate(model.aliases):
            path: Path = ("models", name, "aliases", index)
            if not _ALIAS.fullmatch(alias):
                hint = "letters, digits, `_`, `.`, `:`, `/` and `-`"
                yield document.problem(path, Code.PATTERN, f"`{alias}` cannot be an alias", hint)
            elif model_id(alias) in owners:
                message = f"the alias `{alias}` belongs to `{owners[model_id(alias)]}` already"
                yield document.problem(path, Code.DUPLICATE_KEY, message)
            owners.setdefault(model_id(alias), name)


def _accept_problems(models: ModelsFile, document: Document) -> Iterable[Problem]:
    known = aliases(registry(models, lambda _name: None))
    # A model that could not be read may have had the alias that is meant.
    if not all(document.is_sound(("models", name, "aliases")) for name in ("", *models.models)):
        return
    for name, target in models.accept.items():
        if target != "auto" and model_id(target) not in known:
            message = f"`{target}` is neither `auto` nor a model"
            yield document.problem(
                ("accept", name), Code.UNKNOWN_VALUE, message, meant(target, ["auto", *known])
            )


def call_estimate(model: Model, input_tokens: int, asked_output: int | None) -> MicroUsd | None:
    """Return what a call of this model may cost at most; None where its price is unknown."""
    if model.price is None:
        return None
    bound = output_bound(asked_output, model.capabilities.max_output_tokens)
    return highest_cost(model.price, input_tokens, bound)
