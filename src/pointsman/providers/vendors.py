"""What sets one kind of provider apart from another, as values."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from pointsman.providers.port import OPERATIONS, Dialect, Operation
from pointsman.turns.registry.services import SERVICES, Kind, ModelService


class Vendor(Struct, frozen=True):
    """The address, dialects and key header of a kind of provider.

    A path may hold `{model}`: then the model stands in the address.
    """

    kind: Kind
    base_url: str
    paths: dict[Dialect, str]
    stream_paths: dict[Dialect, str] = {}
    """Where streams are, for those that have another address for them."""
    stream_query: dict[str, str] = {}
    key_header: str = "authorization"
    key_prefix: str = "Bearer "
    operations: dict[Operation, str] = {}
    """Where its other endpoints are."""
    headers: dict[str, str] = {}
    """Always sent, unless the caller's own pass through."""
    passed: frozenset[str] = frozenset()
    """Headers of the caller that pass through."""
    is_versioned: bool = False
    """Whether the paths hold `/v1` themselves, so that a base url may end with it or not."""
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
        is_versioned=True,
    )


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
        is_versioned=is_versioned,
        renames=service.renames,
        leaves_out=service.leaves_out,
    )


def _gemini(service: ModelService) -> Vendor:
    return Vendor(
        kind=service.name,
        base_url=service.base_url,
        paths={"gemini": "/models/{model}:generateContent"},
        stream_paths={"gemini": "/models/{model}:streamGenerateContent"},
        stream_query={"alt": "sse"},
        key_header="x-goog-api-key",
        key_prefix="",
    )


_MAKERS: Final = {"gemini": _gemini, "anthropic": _anthropic, "openai": _openai}

VENDORS: Final[dict[str, Vendor]] = {each.name: _MAKERS[each.wire](each) for each in SERVICES}


def default_dialects(vendor: Vendor, host: str) -> tuple[Dialect, ...]:
    """Return a provider's dialects where the configuration names none.

    Responses are OpenAI's own: compatible servers mostly speak chat alone.
    """
    if vendor.kind == "openai" and host == "api.openai.com":
        return ("responses", "chat")
    return tuple(each for each in vendor.paths if each != "responses")
