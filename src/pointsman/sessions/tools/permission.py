"""Whether a call may be made at once, must be asked about, or is not offered at all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pointsman.sessions.tool import ToolDefinition
from pointsman.storage.policies.tool_settings import Permission, ToolSettings

_DEFAULTS: Final[dict[str, Permission]] = {
    "none": "allow",
    "read": "allow",
    "write": "ask",
    "execute": "ask",
    "network": "ask",
}
_STRICTEST_FIRST: Final[tuple[Permission, ...]] = ("deny", "ask", "allow")


def permission(settings: ToolSettings, tool: ToolDefinition) -> Permission:
    """Give what the settings say of a tool, by its name before a pattern before its class."""
    for names in _by_weight(settings, tool):
        for each in _STRICTEST_FIRST:
            if names.get(each):
                return each
    return _DEFAULTS[tool.side_effects]


def _by_weight(settings: ToolSettings, tool: ToolDefinition) -> Iterator[dict[Permission, bool]]:
    lists: dict[Permission, tuple[str, ...]] = {
        "allow": settings.allow,
        "ask": settings.ask,
        "deny": settings.deny,
    }
    yield {key: tool.name in names for key, names in lists.items()}
    yield {key: any(_fits(each, tool.name) for each in names) for key, names in lists.items()}
    yield {key: tool.side_effects in names for key, names in lists.items()}


def _fits(written: str, name: str) -> bool:
    return written.endswith("*") and name.startswith(written[:-1])
