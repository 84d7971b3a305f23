"""What sets one kind of provider apart from another, as values."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

from pointsman.providers.port import Dialect, Operation

Kind = Literal["openai", "anthropic", "ollama"]


class Vendor(Struct, frozen=True):
    """The address, dialects and key header of a kind of provider."""

    kind: Kind
    base_url: str
    paths: dict[Dialect, str]
    key_header: str
    key_prefix: str
    operations: dict[Operation, str] = {}
    """Where its other endpoints are."""
    headers: dict[str, str] = {}
    """Always sent, unless the caller's own pass through."""
    passed: frozenset[str] = frozenset()
    """Headers of the caller that pass through."""
    is_versioned: bool = False
    """Whether the paths hold `/v1` themselves, so that a base url may end with it or not."""


OPENAI: Final = Vendor(
    kind="openai",
    base_url="https://api.openai.com/v1",
    paths={"chat": "/chat/completions", "responses": "/responses"},
    key_header="authorization",
    key_prefix="Bearer ",
    operations={"embeddings": "/embeddings", "completions": "/completions"},
    passed=frozenset({"openai-beta"}),
)

ANTHROPIC: Final = Vendor(
    kind="anthropic",
    base_url="https://api.anthropic.com",
    paths={"messages": "/v1/messages"},
    key_header="x-api-key",
    key_prefix="",
    headers={"anthropic-version": "2023-06-01"},
    passed=frozenset({"anthropic-version", "anthropic-beta"}),
    is_versioned=True,
)

OLLAMA: Final = Vendor(
    kind="ollama",
    base_url="http://127.0.0.1:11434",
    paths={"chat": "/v1/chat/completions"},
    key_header="authorization",
    key_prefix="Bearer ",
    operations={"embeddings": "/v1/embeddings", "completions": "/v1/completions"},
    is_versioned=True,
)
"""Spoken to through its OpenAI-compatible door, which has a limitation nothing here can lift.

Ollama cuts a prompt that is longer than its window without saying so, and this door takes no size
of the window. Set it where Ollama runs (`OLLAMA_CONTEXT_LENGTH`, or `PARAMETER num_ctx` in a
Modelfile) and declare the same `max_context_tokens` for the model: then a prompt that does not fit
is rejected before it is sent.
"""

VENDORS: Final[dict[str, Vendor]] = {each.kind: each for each in (OPENAI, ANTHROPIC, OLLAMA)}


def default_dialects(vendor: Vendor, host: str) -> tuple[Dialect, ...]:
    """Return a provider's dialects where the configuration names none.

    Responses are OpenAI's own: compatible servers mostly speak chat alone.
    """
    if vendor.kind == "openai" and host == "api.openai.com":
        return ("responses", "chat")
    return tuple(each for each in vendor.paths if each != "responses")
