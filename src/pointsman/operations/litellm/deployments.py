"""One entry of a LiteLLM `model_list`: the provider and the model it stands for here."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from msgspec import Struct

from pointsman.operations.litellm.clouds import (
    CLOUD_KEYS,
    CLOUDS,
    cloud_provider,
    missing_of_cloud,
)
from pointsman.operations.services import STARTER_SERVICES
from pointsman.turns.registry.services import SERVICE_BY_NAME, ModelService

Plain = Mapping[str, Any]

NoteKind = Literal["taken", "differs", "missing"]


class ImportNote(Struct, frozen=True):
    """A setting and its fate: `taken`, `differs` in meaning here, or `missing` here."""

    kind: NoteKind
    where: str
    text: str


class Deployment(Struct, frozen=True):
    """A provider and a model, as `models.yaml` writes them."""

    group: str
    vendor: str
    name: str
    provider: dict[str, Any]
    model: dict[str, Any]


Note = Callable[[NoteKind, str, str], None]
"""Notes a kind, a key of the entry, and what is to be said about it."""

_ENVIRONMENT: Final = re.compile(r"os\.environ/([A-Za-z_][A-Za-z0-9_]*)")
_PER_MILLION: Final = 1_000_000
_SECRET_NAME: Final = re.compile(r"auth|key|token|secret|cookie")

_KNOWN: Final[dict[str, ModelService]] = {
    **{each.name: each for each in STARTER_SERVICES},
    "together_ai": SERVICE_BY_NAME["together"],
    "fireworks_ai": SERVICE_BY_NAME["fireworks"],
}
_COMPATIBLE: Final = {
    "azure_ai", "cloudflare", "custom_openai", "databricks", "deepinfra", "hosted_vllm",
    "hyperbolic", "litellm_proxy", "llamafile", "lm_studio", "moonshot", "nebius", "novita",
    "nvidia_nim", "openai_like", "sambanova", "text-completion-openai", "vllm",
}  # fmt: skip
"""Vendors that speak OpenAI's format at the address that the entry names."""

_PRICES: Final = {
    "input_cost_per_token": "input",
    "output_cost_per_token": "output",
    "cache_read_input_token_cost": "cached_input",
    "cache_creation_input_token_cost": "cache_write",
}
_CAPABILITIES: Final = {
    "max_input_tokens": "max_context_tokens",
    "max_output_tokens": "max_output_tokens",
    "supports_vision": "supports_images",
    "supports_function_calling": "supports_tools",
    "supports_response_schema": "supports_structured_output",
    "supports_system_messages": "supports_system_prompt",
    "supports_reasoning": "supports_thinking",
    "supports_prompt_caching": "supports_prompt_caching",
    "supports_native_streaming": "supports_streaming",
}
_READ: Final = {
    "api_base", "api_key", "api_version", "base_url", "custom_llm_provider", "extra_headers",
    "model", "organization", "rpm", "timeout", "tpm", *_PRICES, *_CAPABILITIES, *CLOUD_KEYS,
}  # fmt: skip
_SAID: Final = {
    "num_retries": "calls are repeated three times with growing waits, whatever the model",
    "max_retries": "calls are repeated three times with growing waits, whatever the model",
    "stream_timeout": "`limits:` in pointsman.yaml bound a stream by its pauses",
    "drop_params": "parameters that a format cannot carry are always left out, and listed",
    "weight": "no load is spread over different models",
    "order": "the order of the default stands for it",
    "tags": "rules look at the message, the workspace and the key instead",
    "max_budget": "budgets hold for all, a key, a session or a workspace, not for one model",
    "budget_duration": "budgets hold for a day or a month",
}


def read_deployment(entry: Plain, note: Note, environment: Mapping[str, str]) -> Deployment | None:
    """Return the provider and model of an entry; None where they have no counterpart."""
    params = entry.get("litellm_params")
    group = str(entry.get("model_name", ""))
    if not isinstance(params, Mapping) or not isinstance(params.get("model"), str) or not group:
        note("missing", "", "an entry needs `model_name` and `litellm_params.model`")
        return None
    info = entry.get("model_info") or {}
    vendor, name = _vendor(params)
    if "*" in group or "*" in name:
        hint = "name each model; `accept:` maps other names to `auto` or a model"
        note("missing", "model_name", f"models by wildcard have no counterpart: {hint}")
        return None
    provider = _provider(vendor, params, note, environment)
    if provider is None:
        return None
    _note_the_rest(params, info, note)
    return Deployment(group, vendor, name, provider, _model(provider, {**info, **params}, note))


def _vendor(params: Plain) -> tuple[str, str]:
    """Return the vendor and the vendor's own name of the model."""
    full = str(params["model"])
    given = str(params.get("custom_llm_provider") or "")
    if given:
        return given, full.removeprefix(f"{given}/")
    vendor, slash, name = full.partition("/")
    known = {*_KNOWN, *_COMPATIBLE, *CLOUDS, "ollama_chat", "sagemaker"}
    if slash and (vendor in known or not _compatible_address(params)):
        return vendor, name
    return ("anthropic" if full.startswith("claude") else "openai"), full


def _compatible_address(params: Plain) -> bool:
    return bool(params.get("api_base") or params.get("base_url"))


def _provider(
    vendor: str, params: Plain, note: Note, environment: Mapping[str, str]
) -> dict[str, Any] | None:
    if vendor in CLOUDS:
        return _cloud(vendor, params, note, environment)
    base = _address(params, note, environment)
    service = _KNOWN.get("ollama" if vendor == "ollama_chat" else vendor)
    if service is None and (vendor not in _COMPATIBLE or not base):
        why = "it needs an `api_base`" if vendor in _COMPATIBLE else "it is not spoken yet"
        note("missing", "litellm_params.model", f"`{vendor}`: {why}")
        return None
    provider: dict[str, Any] = {"kind": "openai" if service is None else service.name}
    if base:
        provider["base_url"] = base
    key = _key(params.get("api_key"), vendor, note)
    if key is None and service is not None and service.secrets:
        key = {"env": service.secrets[0]}
    if key is not None:
        provider["api_key"] = key
    return _with_headers_and_limits(provider, params, note, environment)


def _cloud(
    vendor: str, params: Plain, note: Note, environment: Mapping[str, str]
) -> dict[str, Any] | None:
    """Return the provider of a model in a cloud; None where the entry does not say enough."""
    kind = CLOUDS[vendor]

    def text(key: str) -> str:
        return _follow_reference(str(params.get(key) or ""), environment) or ""

    def secret(key: str, variable: str) -> dict[str, str]:
        reference = _ENVIRONMENT.fullmatch(str(params.get(key) or ""))
        if reference is not None:
            return {"env": reference[1]}
        note("differs", f"litellm_params.{key}", f"secrets are never written: set {variable}")
        return {"env": variable}

    if why := missing_of_cloud(kind, text):
        note("missing", "litellm_params.model", f"`{vendor}`: {why}")
        return None
    provider = cloud_provider(kind, params, text, secret)
    key = None if "login" in provider else _key(params.get("api_key"), vendor, note)
    if "login" not in provider:
        provider["api_key"] = key or {"env": "AZURE_API_KEY"}
    return _with_headers_and_limits(provider, params, note, environment)


def _with_headers_and_limits(
    provider: dict[str, Any], params: Plain, note: Note, environment: Mapping[str, str]
) -> dict[str, Any]:
    headers = _headers(params, note, environment)
    if headers:
        provider["headers"] = headers
    return {**provider, **_limits(params, note)}


def _headers(params: Plain, note: Note, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the fixed headers; one that may be a credential is never written."""
    extra = params.get("extra_headers") or {}
    given = {str(name).lower(): str(value) for name, value in extra.items()}
    if params.get("organization"):
        given["openai-organization"] = str(params["organization"])
    headers: dict[str, str] = {}
    for name, text in given.items():
        value = _follow_reference(text, environment)
        if value is None or _SECRET_NAME.search(name):
            hint = "headers are written out, and secrets never are: add it by hand"
            note("missing", f"litellm_params.extra_headers.{name}", hint)
        else:
            headers[name] = value
    return headers


def _address(params: Plain, note: Note, environment: Mapping[str, str]) -> str:
    given = str(params.get("api_base") or params.get("base_url") or "")
    found = _follow_reference(given, environment)
    if found is None:
        note("missing", "litellm_params.api_base", f"`{given}` is not set: write the address")
        return "https://set-this-address.invalid/v1"
    if given != found:
        note("differs", "litellm_params.api_base", "addresses are written out: its value of today")
    return found


def _follow_reference(text: str, environment: Mapping[str, str]) -> str | None:
    """Return a text with its reference to the environment followed; None where that is not set."""
    reference = _ENVIRONMENT.fullmatch(text)
    return text if reference is None else environment.get(reference[1]) or None


def _key(given: object, vendor: str, note: Note) -> dict[str, str] | None:
    if given is None or given == "":
        return None
    reference = _ENVIRONMENT.fullmatch(str(given))
    if reference is not None:
        return {"env": reference[1]}
    # INVARIANT: a secret is never written to a file, nor said.
    name = re.sub(r"[^A-Z0-9]+", "_", f"{vendor}_API_KEY".upper())
    text = f"keys are never written to a file: set {name} in the environment"
    note("differs", "litellm_params.api_key", text)
    return {"env": name}


def _limits(params: Plain, note: Note) -> dict[str, int]:
    limits: dict[str, int] = {}
    for key in ("rpm", "tpm"):
        if params.get(key) is not None:
            limits[key] = int(params[key])
    timeout = params.get("timeout")
    if isinstance(timeout, int | Decimal) and timeout >= 1:
        limits["timeout_s"] = int(timeout)
    elif timeout is not None:
        note("missing", "litellm_params.timeout", "a time limit is a whole number of seconds here")
    return limits


def _model(provider: Plain, given: Plain, note: Note) -> dict[str, Any]:
    model: dict[str, Any] = {"location": _location(provider)}
    abilities = {
        ours: given[key] for key, ours in _CAPABILITIES.items() if _is_plain(given.get(key))
    }
    if abilities:
        model["capabilities"] = abilities
    rates = {ours: _rate(given[key]) for key, ours in _PRICES.items() if given.get(key) is not None}
    if {"input", "output"} <= rates.keys():
        model["price"] = rates
    elif rates:
        note("missing", "input_cost_per_token", "a price needs what input and what output cost")
    return model


def _is_plain(value: object) -> bool:
    return isinstance(value, bool) or (isinstance(value, int) and value > 0)


def _rate(value: object) -> str:
    return f"{(Decimal(str(value)) * _PER_MILLION).normalize():f}"


def _location(provider: Plain) -> str:
    host = urlsplit(str(provider.get("base_url", ""))).hostname or ""
    is_here = host in {"localhost", "127.0.0.1", "::1"}
    return "local" if is_here or (provider["kind"] == "ollama" and not host) else "cloud"


def _note_the_rest(params: Plain, info: Plain, note: Note) -> None:
    for key in sorted(params.keys() - _READ):
        kind: NoteKind = "differs" if key in _SAID else "missing"
        note(kind, f"litellm_params.{key}", _SAID.get(key, "has no counterpart"))
    silent = {"id", "mode", "base_model", "max_tokens", "description", *_PRICES, *_CAPABILITIES}
    for key in sorted(info.keys() - silent):
        note("missing", f"model_info.{key}", "has no counterpart")
