"""What sets one kind of provider apart from another, as values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from pointsman.providers.port import OPERATIONS, Dialect, Operation
from pointsman.turns.registry.models import Provider
from pointsman.turns.registry.services import (
    SERVICE_BY_NAME,
    SERVICES,
    Kind,
    ModelService,
)


class Vendor(Struct, frozen=True):
    """The address, dialects and key header of a kind of provider.

    A path may hold `{model}`: then the model stands in the address.
    """

    kind: Kind
    base_url: str
    paths: dict[Dialect, str]
    stream_paths: dict[Dialect, str] = {}
    """Where streams are, for those that have another address for them."""
    stream_query: dict[Dialect, dict[str, str]] = {}
    key_header: str = "authorization"
    key_prefix: str = "Bearer "
    operations: dict[Operation, str] = {}
    """Where its other endpoints are."""
    headers: dict[str, str] = {}
    """Always sent, unless the caller's own pass through."""
    passed: frozenset[str] = frozenset()
    """Headers of the caller that pass through."""
    messages_version: str = ""
    """Stands in the body of messages in place of the model, where the model is in the address."""
    model_letters: str = "-._~@:"
    """What stays as it is of a model's name in an address."""
    trimmed: tuple[str, ...] = ()
    """Ends that the paths hold themselves, so that a base url may end with them or not."""
    query: dict[str, str] = {}
    """Always in the address."""
    renames: dict[str, str] = {}
    """Fields of a chat request that it knows by another name."""
    leaves_out: tuple[str, ...] = ()
    """Fields of a chat request that it refuses."""


def _anthropic(service: ModelService) -> Vendor:
    return Vendor(
        kind=service.name,
        base_url=service.base_url,
        paths={"messages": "/v1/messages"},
        key_header="x-api-key",
        key_prefix="",
        headers={"anthropic-version": "2023-06-01"},
        passed=frozenset({"anthropic-version", "anthropic-beta"}),
        trimmed=_VERSION,
    )


_VERSION: Final = ("/v1",)
_PATHS: Final[dict[Dialect, str]] = {"chat": "/chat/completions", "responses": "/responses"}


def _openai(service: ModelService) -> Vendor:
    """Return a service that is spoken to in OpenAI's formats.

    People give the address of a server of their own with `/v1` and without.
    """
    is_versioned = service.location == "local"
    version = "/v1" if is_versioned else ""
    return Vendor(
        kind=service.name,
        base_url=service.base_url,
        paths={name: version + _PATHS[name] for name in service.speaks},
        operations={each: f"{version}/{each}" for each in OPERATIONS},
        passed=frozenset({"openai-beta"}) if service.name == "openai" else frozenset(),
        trimmed=_VERSION if is_versioned else (),
        renames=service.renames,
        leaves_out=service.leaves_out,
    )


_EVENTS: Final[dict[Dialect, dict[str, str]]] = {"gemini": {"alt": "sse"}}


def _gemini(service: ModelService) -> Vendor:
    return Vendor(
        kind=service.name,
        base_url=service.base_url,
        paths={"gemini": "/models/{model}:generateContent"},
        stream_paths={"gemini": "/models/{model}:streamGenerateContent"},
        stream_query=_EVENTS,
        key_header="x-goog-api-key",
        key_prefix="",
    )


def _azure(service: ModelService, version: str = "", *, has_login: bool = False) -> Vendor:
    """Return Azure's address: the one without versions, or that of a version, by deployments."""
    deployed = "/openai/deployments/{model}" if version else "/openai/v1"
    fixed = "/openai" if version else deployed
    return Vendor(
        kind=service.name,
        base_url=service.base_url,
        paths={"chat": f"{deployed}/chat/completions", "responses": f"{fixed}/responses"},
        operations={each: f"{deployed}/{each}" for each in OPERATIONS},
        trimmed=("/v1", "/openai"),
        query={"api-version": version} if version else {},
        key_header="authorization" if has_login else "api-key",
        key_prefix="Bearer " if has_login else "",
    )


def _bedrock(service: ModelService, region: str = "{region}") -> Vendor:
    """Return the address of a region, by the model; a key of Bedrock's own is a bearer token."""
    return Vendor(
        kind=service.name,
        base_url=service.base_url.replace("{region}", region),
        paths={"converse": "/model/{model}/converse"},
        stream_paths={"converse": "/model/{model}/converse-stream"},
        model_letters="-._~",
    )


def _vertex(service: ModelService, project: str = "", region: str = "{region}") -> Vendor:
    """Return the addresses of a project's region: Google's models, and Anthropic's."""
    place = f"/v1/projects/{project}/locations/{region}/publishers"
    google = f"{place}/google/models/{{model}}"
    anthropic = f"{place}/anthropic/models/{{model}}"
    host = "" if region == "global" else f"{region}-"
    return Vendor(
        kind=service.name,
        base_url=service.base_url.replace("{region}-", host),
        paths={"gemini": f"{google}:generateContent", "messages": f"{anthropic}:rawPredict"},
        stream_paths={
            "gemini": f"{google}:streamGenerateContent",
            "messages": f"{anthropic}:streamRawPredict",
        },
        stream_query=_EVENTS,
        passed=frozenset({"anthropic-beta"}),
        messages_version="vertex-2023-10-16",
    )


_MAKERS: Final[dict[str, Callable[[ModelService], Vendor]]] = {
    "vertex": _vertex,
    "bedrock": _bedrock,
    "gemini": _gemini,
    "anthropic": _anthropic,
    "openai": _openai,
    "azure": _azure,
}

VENDORS: Final[dict[str, Vendor]] = {each.name: _MAKERS[each.wire](each) for each in SERVICES}


def vendor_of(configured: Provider) -> Vendor:
    """Return the vendor of a provider, with what the provider itself says of its addresses."""
    service = SERVICE_BY_NAME[configured.kind]
    if service.wire == "azure":
        return _azure(service, configured.api_version, has_login=configured.login is not None)
    if service.wire == "bedrock":
        return _bedrock(service, configured.region)
    if service.wire == "vertex":
        return _vertex(service, configured.project, configured.region)
    return VENDORS[configured.kind]


def default_dialects(vendor: Vendor, host: str) -> tuple[Dialect, ...]:
    """Return a provider's dialects where the configuration names none.

    Responses are OpenAI's own: compatible servers mostly speak chat alone.
    """
    if vendor.kind == "openai" and host == "api.openai.com":
        return ("responses", "chat")
    return tuple(each for each in vendor.paths if each != "responses")
