"""The policy of turns: `routing.yaml` and `models.yaml`, read, checked and put together.

A policy is complete in itself: every default is written into it before it is named and recorded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct

from pointsman.errors import Problem
from pointsman.kernel.codes import Code
from pointsman.kernel.document import Document
from pointsman.kernel.nearest import nearest
from pointsman.kernel.schema import conform
from pointsman.kernel.snapshot import SnapshotForm
from pointsman.kernel.yaml_text import read_yaml

EMBEDDED_MODEL = "embedded:smollm2-135m"
"""The local model that is always there."""

Location = Literal["local", "cloud"]
ProviderName = Annotated[str, Meta(pattern="^[a-z0-9][a-z0-9_.-]{0,62}$")]

_MODEL_ID = re.compile(r"([a-z0-9][a-z0-9_.-]{0,62})[:/](\S{1,127})", re.ASCII)


class SecretRef(Struct, frozen=True, forbid_unknown_fields=True):
    """Where a secret is found; never the secret itself."""

    env: str = ""
    file: str = ""


class Provider(Struct, frozen=True, forbid_unknown_fields=True):
    """One upstream as `models.yaml` names it."""

    kind: Literal["openai", "anthropic", "ollama", "embedded"]
    base_url: str = ""
    api_key: SecretRef | None = None


class Model(Struct, frozen=True, forbid_unknown_fields=True):
    """One model: where it runs."""

    location: Location


class ModelsFile(Struct, frozen=True, forbid_unknown_fields=True):
    """`models.yaml` as it is written."""

    schema_version: Literal[1]
    providers: dict[ProviderName, Provider] = {}
    models: dict[str, Model] = {}


class RoutingFile(Struct, frozen=True, forbid_unknown_fields=True):
    """`routing.yaml` as it is written."""

    schema_version: Literal[1]
    global_default: str | None = None


class TurnPolicy(Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that decides about turns, besides the facts."""

    global_default: str | None
    models: dict[str, Model]


POLICY_FORM = SnapshotForm("turn.policy", 1, TurnPolicy)
NO_MODELS = ModelsFile(schema_version=1)
NO_ROUTING = RoutingFile(schema_version=1)


def read_models(text: bytes, source: str) -> ModelsFile:
    """Read `models.yaml`, or raise with every problem at its place."""
    return conform(read_yaml(text, source), ModelsFile, _model_problems)


def read_routing(text: bytes, source: str, models: ModelsFile) -> RoutingFile:
    """Read `routing.yaml` against the models there are."""
    known = registry(models)

    def problems(routing: RoutingFile, document: Document) -> Iterable[Problem]:
        return _routing_problems(routing, document, known)

    return conform(read_yaml(text, source), RoutingFile, problems)


def registry(models: ModelsFile) -> dict[str, Model]:
    """Give all models under their ids, the embedded one first."""
    given = {model_id(name): model for name, model in models.models.items()}
    return {EMBEDDED_MODEL: Model("local"), **given}


def turn_policy(routing: RoutingFile, models: ModelsFile) -> TurnPolicy:
    """Put the policy together; without a global default the embedded model is it."""
    default = EMBEDDED_MODEL if routing.global_default is None else routing.global_default
    return TurnPolicy(model_id(default), registry(models))


def model_id(text: str) -> str:
    """Give the one spelling of a model's id: it splits at its first `:` or `/`."""
    match = _MODEL_ID.fullmatch(text)
    return f"{match[1]}:{match[2]}" if match else text


def provider_of(model: str) -> str:
    """Give the provider's name in a model's id."""
    return model.partition(":")[0]


def _model_problems(models: ModelsFile, document: Document) -> Iterable[Problem]:
    providers = [*models.providers, provider_of(EMBEDDED_MODEL)]
    seen: dict[str, str] = {EMBEDDED_MODEL: EMBEDDED_MODEL}
    for name in models.models:
        path = ("models", name)
        provider = provider_of(model_id(name))
        if not _MODEL_ID.fullmatch(name):
            hint = "write it like `provider:name`"
            yield document.problem(
                path, Code.INVALID_VALUE, f"`{name}` is no model id", hint, key=True
            )
        elif model_id(name) in seen:
            message = f"`{name}` is the same model as `{seen[model_id(name)]}`"
            yield document.problem(path, Code.DUPLICATE_KEY, message, key=True)
        elif provider not in providers:
            message = f"`{name}` names the provider `{provider}`, which is not under `providers`"
            yield document.problem(
                path, Code.UNKNOWN_VALUE, message, _meant(provider, providers), key=True
            )
        seen.setdefault(model_id(name), name)


def _routing_problems(
    routing: RoutingFile, document: Document, known: Mapping[str, Model]
) -> Iterable[Problem]:
    default = routing.global_default
    if default is not None and model_id(default) not in known:
        message = f"`{default}` is not a model of models.yaml"
        hint = _meant(default, [*known]) or f"known: {', '.join(known)}"
        yield document.problem(("global_default",), Code.UNKNOWN_VALUE, message, hint)


def _meant(name: str, known: list[str]) -> str:
    close = nearest(name, known)
    return f"did you mean `{close}`?" if close else ""
