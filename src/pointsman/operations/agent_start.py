"""How an agent is started so that it calls a gateway: the variables and options it reads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct


class AgentStart(Struct, frozen=True):
    """A command, the variables set beside those it inherits, and what its user should know."""

    command: tuple[str, ...]
    variables: dict[str, str]
    notes: tuple[str, ...] = ()


_GEMINI: Final = (
    "gemini speaks Google's own format, which the gateway does not: it calls Google itself"
)


def agent_start(
    command: Sequence[str], address: str, key: str, own_logins: frozenset[str] = frozenset()
) -> AgentStart:
    """Return how to start a command so that it calls this gateway.

    Every agent gets the variables of the OpenAI and Anthropic clients; some also need options.
    In the formats of `own_logins` the agent keeps its own login, and the key has a header of its
    own where the agent can send one.
    """
    name, given = Path(command[0]).name, tuple(command[1:])
    variables = {
        "OPENAI_BASE_URL": f"{address}/v1",
        "OPENAI_API_BASE": f"{address}/v1",
        "OPENAI_API_KEY": key,
        "ANTHROPIC_BASE_URL": address,
    }
    # Claude Code asks which of two credentials to use where both are set.
    variables["ANTHROPIC_AUTH_TOKEN" if name == "claude" else "ANTHROPIC_API_KEY"] = key
    if "anthropic" in own_logins:
        variables.pop("ANTHROPIC_AUTH_TOKEN", None)
        variables.pop("ANTHROPIC_API_KEY", None)
        variables["ANTHROPIC_CUSTOM_HEADERS"] = f"x-pointsman-key: {key}"
    if "openai" in own_logins:
        del variables["OPENAI_API_KEY"]
    options: tuple[str, ...] = ()
    if name == "codex":
        options = _codex_options(address)
    elif name == "aider" and "--model" not in given:
        options = ("--model", "openai/auto")
    elif name == "opencode":
        variables["OPENCODE_CONFIG_CONTENT"] = _opencode_config(address, key)
    notes = (_GEMINI,) if name == "gemini" else ()
    return AgentStart((command[0], *options, *given), variables, notes)


def _codex_options(address: str) -> tuple[str, ...]:
    values = {
        "model_provider": "pointsman",
        "model_providers.pointsman.name": "Pointsman",
        "model_providers.pointsman.base_url": f"{address}/v1",
        "model_providers.pointsman.wire_api": "responses",
        "model_providers.pointsman.env_key": "OPENAI_API_KEY",
        "model": "auto",
    }
    return tuple(
        part for name, text in values.items() for part in ("-c", f"{name}={json.dumps(text)}")
    )


def _opencode_config(address: str, key: str) -> str:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Pointsman",
        "options": {"baseURL": f"{address}/v1", "apiKey": key},
        "models": {"auto": {"name": "auto"}},
    }
    return json.dumps({"provider": {"pointsman": provider}, "model": "pointsman/auto"})
