"""The files of a home that uses services people have keys for; they are the user's to edit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from pointsman.errors import InputError
from pointsman.turns.registry.models import EMBEDDED_MODEL, Tier, meant
from pointsman.turns.registry.services import (
    SERVICE_BY_NAME,
    SERVICES,
    ModelService,
    StarterModel,
)
from pointsman.turns.registry.upstream import read_base_url

DEFAULT_TIERS: Final[tuple[Tier, ...]] = ("balanced", "fast")
"""The tiers of the default list; a deep model is asked for, never fallen back to."""


STARTER_SERVICES: Final = tuple(each for each in SERVICES if each.models)
"""Those that `init` can begin with: of the others, the names of the models are not known here."""

_AGENT_NAMES: Final = ("claude-*", "gpt-*", "o[0-9]*", "codex-*", "gemini-*")


def services_named(names: Iterable[str]) -> tuple[ModelService, ...]:
    """Return the services of these names, in their order, each once; one may be `NAME@ADDRESS`."""
    known = {each.name: each for each in STARTER_SERVICES}
    found: dict[str, ModelService] = {}
    for given in names:
        name, at, address = given.partition("@")
        if name not in known:
            hint = meant(name, known) or f"known: {', '.join(known)}"
            raise InputError(f"`{name}` is no service that `init` knows", hint=hint)
        if at:
            read_base_url(address)
        found[name] = replace(known[name], base_url=address) if at else known[name]
    return tuple(found.values())


def services_with_keys(environment: Mapping[str, str]) -> tuple[ModelService, ...]:
    """Return the services to begin with whose key is set in the environment."""
    return tuple(
        each for each in STARTER_SERVICES if any(environment.get(key) for key in each.secrets)
    )


def missing_keys(services: Iterable[ModelService], environment: Mapping[str, str]) -> list[str]:
    """Name the variables that are to be set before the services can be used."""
    return [
        each.secrets[0]
        for each in services
        if each.secrets and not any(environment.get(key) for key in each.secrets)
    ]


def models_text(services: Sequence[ModelService], environment: Mapping[str, str]) -> str:
    """Return a `models.yaml` with these services."""
    lines = [
        "# The models there are, and who serves them. The embedded local model needs no entry.",
        "# Windows, abilities and prices come from the tables of this release; `capabilities:` and",
        "# `price:` of your own beat them. `pointsman models NAME` shows the source of each value.",
        "schema_version: 1",
        "",
        "providers:",
    ]
    for service in services:
        lines += [f"  {service.name}:", f"    kind: {service.name}"]
        if service.base_url != SERVICE_BY_NAME[service.name].base_url:
            lines.append(f"    base_url: {service.base_url}")
        if service.secrets:
            set_ones = (key for key in service.secrets if environment.get(key))
            lines.append(f"    api_key: {{env: {next(set_ones, service.secrets[0])}}}")
    lines += ["", "models:"]
    for service in services:
        for model in service.models:
            lines.append(f"  {service.name}:{model.name}:")
            lines.append(f"    location: {service.location}")
            lines += [f"    tier: {model.tier}"] if model.tier else []
            lines += [f"    aliases: [{', '.join(model.aliases)}]"] if model.aliases else []
    return "\n".join([*lines, "", *_accept_lines(services)]) + "\n"


def routing_text(services: Sequence[ModelService]) -> str:
    """Return a `routing.yaml` that asks these services in turn, the local model last."""
    listed = (
        f"{service.name}:{model.name}"
        for tier in DEFAULT_TIERS
        for service in services
        for model in service.models
        if model.tier == tier
    )
    lines = [
        "# Which model takes a turn. Edits count from the next turn on; `pointsman rules check`",
        "# says what is wrong. The models of the default are asked in order: a failed call goes on",
        "# with the next, and the local model answers where no other can.",
        "schema_version: 1",
        "global_default:",
        *(f"  - {name}" for name in listed),
        f"  - {EMBEDDED_MODEL}",
        "",
        "# rules:",
        "#   - name: deep for architecture",
        '#     when: {message_matches: "(?i)architecture|design review"}',
        f"#     use: {_deepest(services)}",
        "#",
        "# budgets:",
        "#   - {name: day, limit_usd: 10.00}",
    ]
    return "\n".join(lines) + "\n"


def _accept_lines(services: Sequence[ModelService]) -> list[str]:
    first = _fast_model(services) or "auto"
    # A name goes by the first glob it matches, so the small ones stand before the rest.
    small = {
        name: _fast_model([each for each in services if each.name == service.name]) or first
        for service in SERVICES
        for name in service.small_names
    }
    return [
        "# The names that agents send for models which are not listed above; `auto` lets the rules",
        "# decide. The small models that they use beside the main one go to a fast one.",
        "accept:",
        *(f'  "{name}": {model}' for name, model in small.items()),
        *(f'  "{name}": auto' for name in _AGENT_NAMES),
    ]


def _fast_model(services: Sequence[ModelService]) -> str:
    return next((name for name, model in _chat_models(services) if model.tier == "fast"), "")


def _deepest(services: Sequence[ModelService]) -> str:
    by_tier = {model.tier: name for name, model in reversed(list(_chat_models(services)))}
    ranked = (by_tier.get(tier) for tier in ("deep", "balanced", "fast"))
    return next((name for name in ranked if name), EMBEDDED_MODEL)


def _chat_models(services: Sequence[ModelService]) -> Iterable[tuple[str, StarterModel]]:
    return (
        (f"{service.name}:{model.name}", model)
        for service in services
        for model in service.models
        if model.tier is not None
    )
