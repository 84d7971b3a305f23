"""The tools of one session behind one port: offered, confirmed, run and stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Protocol

import msgspec

from pointsman.providers.messages import Text, ToolUse
from pointsman.sessions.delegate_call import PLANNER_ONLY
from pointsman.sessions.tool import (
    ConfirmationRequest,
    ToolContext,
    ToolDefinition,
    ToolOutcome,
    input_problems,
    unknown_tool,
)
from pointsman.sessions.tools.failure import CallFailed, from_os, invalid_input
from pointsman.sessions.tools.stop import Stop
from pointsman.storage.policies.tool_settings import Permission, ToolSettings


class SessionTool(Protocol):
    """One tool: its definition, the description of a call, and the call."""

    @property
    def definition(self) -> ToolDefinition:
        """The definition that the model sees."""
        ...

    def describe(self, use: ToolUse) -> ConfirmationRequest:
        """Describe the effect of a call; its input is valid."""
        ...

    async def run(self, use: ToolUse, context: ToolContext, stop: Stop) -> ToolOutcome:
        """Make a call; its input is valid. Raises `CallFailed`."""
        ...


class ToolBox:
    """A `ToolSet` of several tools, in the order given, without the denied ones."""

    def __init__(self, tools: Iterable[SessionTool], settings: ToolSettings) -> None:
        self._settings = settings
        self._tools: Mapping[str, SessionTool] = {
            tool.definition.name: tool
            for tool in tools
            if permission(settings, tool.definition) != "deny"
        }
        self._running: dict[str, _Call] = {}

    def definitions(self) -> tuple[ToolDefinition, ...]:
        """Return the tools on offer."""
        return tuple(tool.definition for tool in self._tools.values())

    def needs_confirmation(self, use: ToolUse, context: ToolContext) -> ConfirmationRequest | None:
        """Return the request to show, where a valid call must be confirmed."""
        tool = self._tools_for(context).get(use.name)
        if tool is None or input_problems(use, tool.definition) or _lacks_workspace(tool, context):
            return None
        if permission(self._settings, tool.definition) == "allow":
            return None
        return tool.describe(use)

    async def run(self, use: ToolUse, context: ToolContext) -> ToolOutcome:
        """Make a call; a failure is part of the outcome."""
        try:
            tool = self._find_tool(use, context)
            call = self._running.setdefault(use.id, _Call())
            try:
                return await tool.run(use, context, call.stop)
            finally:
                call.ended.set()
                self._running.pop(use.id, None)
        except CallFailed as error:
            return failure_outcome(error)
        except msgspec.ValidationError as error:
            # `1.0` is an integer to a schema, and not to a tool.
            return failure_outcome(invalid_input(f"the input does not fit `{use.name}`: {error}"))
        except OSError as error:
            return failure_outcome(from_os(error, use.name))

    async def cancel(self, tool_use_id: str) -> None:
        """Stop a running call, and wait until it ended or was given up."""
        call = self._running.get(tool_use_id)
        if call is not None:
            call.stop.request()
            await call.ended.wait()

    def _tools_for(self, context: ToolContext) -> Mapping[str, SessionTool]:
        if not context.is_worker:
            return self._tools
        return {name: tool for name, tool in self._tools.items() if name not in PLANNER_ONLY}

    def _find_tool(self, use: ToolUse, context: ToolContext) -> SessionTool:
        offered = self._tools_for(context)
        tool = offered.get(use.name)
        if tool is None:
            raise CallFailed("not_found", unknown_tool(use.name, offered))
        found = input_problems(use, tool.definition)
        if found:
            message = f"the input does not fit `{use.name}`: {'; '.join(found)}"
            raise CallFailed("validation_error", message)
        if _lacks_workspace(tool, context):
            message = f"`{use.name}` needs a workspace, and this session has none"
            raise CallFailed("permission_denied", message)
        return tool


class _Call:
    """A call that runs."""

    def __init__(self) -> None:
        self.stop = Stop()
        self.ended = asyncio.Event()


def failure_outcome(error: CallFailed) -> ToolOutcome:
    """Return the outcome of a failed call."""
    return ToolOutcome((Text(error.message),), error.error_class, error.message)


def _lacks_workspace(tool: SessionTool, context: ToolContext) -> bool:
    return tool.definition.requires_workspace and context.workspace is None


_DEFAULTS: Final[dict[str, Permission]] = {
    "none": "allow",
    "read": "allow",
    "write": "ask",
    "execute": "ask",
    "network": "ask",
}
_STRICTEST_FIRST: Final[tuple[Permission, ...]] = ("deny", "ask", "allow")


def permission(settings: ToolSettings, tool: ToolDefinition) -> Permission:
    """Return a tool's permission: by its name before a pattern before its class."""
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
