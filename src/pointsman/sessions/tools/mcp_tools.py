"""The tools of MCP servers as tools of a session, called `server__tool`.

A server's claims about its tools are not trusted: the class of side effects comes from the
settings, names are made safe, and a schema that cannot be checked is refused. A schema outside
the subset of companion §2.1 is passed on as it is.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Raw

from pointsman.kernel.document import escape, printable
from pointsman.kernel.nearest import nearest
from pointsman.providers.messages import Image, Text, ToolUse
from pointsman.sessions.tool import (
    ConfirmationRequest,
    ToolContext,
    ToolDefinition,
    ToolOutcome,
    schema_refusal,
)
from pointsman.sessions.tools.excerpt import Excerpt
from pointsman.sessions.tools.failure import CallFailed
from pointsman.sessions.tools.files import input_summary
from pointsman.sessions.tools.mcp_connection import McpConnection
from pointsman.sessions.tools.stop import Stop, cancelled_call
from pointsman.storage.policies.tool_settings import McpServer

if TYPE_CHECKING:
    from mcp_types import CallToolResult, ContentBlock, Tool

LONGEST_NAME = 64
LONGEST_DESCRIPTION = 2_000
LARGEST_SCHEMA = 64 * 1024
LARGEST_IMAGE = 5 * 1024 * 1024
MOST_TOOLS = 128

_NOT_IN_A_NAME: Final = re.compile(r"[^a-zA-Z0-9_-]")


class McpServers:
    """The servers of one session. `problems` names those that cannot be used."""

    def __init__(self, servers: Mapping[str, McpServer], home: Path, folder: Path) -> None:
        self._connections = [
            McpConnection(name, server, home, folder)
            for name, server in servers.items()
            if server.enabled
        ]
        self.tools: tuple[McpTool, ...] = ()
        self.problems: tuple[str, ...] = ()

    async def start(self) -> None:
        """Connect to all servers at once, and load their tools."""
        found = await asyncio.gather(*(_load_tools(each) for each in self._connections))
        self.tools = tuple(tool for tools, _ in found for tool in tools)
        self.problems = tuple(problem for _, problems in found for problem in problems)

    async def close(self) -> None:
        """End all connections."""
        await asyncio.gather(*(each.close() for each in self._connections))


class McpTool:
    """One tool of a server."""

    def __init__(self, connection: McpConnection, tool: str, definition: ToolDefinition) -> None:
        self._connection = connection
        self._tool = tool
        self.definition = definition

    def describe(self, use: ToolUse) -> ConfirmationRequest:
        """Describe the server and the input it would get."""
        line = f"send to the server `{self._connection.name}`: {input_summary(use)}"
        return ConfirmationRequest(line, self.definition.name)

    async def run(self, use: ToolUse, context: ToolContext, stop: Stop) -> ToolOutcome:  # noqa: ARG002 - the port's
        """Make the call, within the server's time."""
        arguments = msgspec.json.decode(bytes(use.input) or b"{}", type=dict[str, object])
        return self._outcome(await self._stoppable(arguments, stop))

    async def _stoppable(self, arguments: dict[str, object], stop: Stop) -> CallToolResult:
        loop, call = asyncio.get_running_loop(), self._connection.call(self._tool, arguments)
        task = asyncio.ensure_future(call)

        def end() -> None:
            loop.call_soon_threadsafe(task.cancel)

        stop.on_request(end)
        try:
            return await task
        except asyncio.CancelledError:
            own = asyncio.current_task()
            if stop.is_requested and (own is None or not own.cancelling()):
                raise cancelled_call() from None
            raise
        finally:
            stop.forget(end)

    def _outcome(self, result: CallToolResult) -> ToolOutcome:
        content = tuple(self._content(result))
        if not result.is_error:
            return ToolOutcome(content)
        words = " ".join(each.text for each in content if isinstance(each, Text))
        message = escape(words or "the tool failed", 500)
        return ToolOutcome(content, "execution_error", message)

    def _content(self, result: CallToolResult) -> Iterator[Text | Image]:
        """Yield a server's answer, its texts together within the size of one answer."""
        excerpt = Excerpt()
        for block in result.content:
            if block.type == "image" and len(block.data) <= LARGEST_IMAGE:
                yield Image("base64", block.data, block.mime_type)
            else:
                excerpt.write(f"{_words(block)}\n")
        if not result.content and result.structured_content is not None:
            excerpt.write(msgspec.json.encode(result.structured_content).decode())
        text = self._connection.redact(excerpt.text().rstrip("\n"))
        if text or not result.content:
            yield Text(text or "(no answer)")


def _words(block: ContentBlock) -> str:
    if block.type == "text":
        return block.text
    if block.type == "resource" and hasattr(block.resource, "text"):
        return str(block.resource.text)
    if block.type == "resource_link":
        return f"[a resource: {escape(str(block.uri), 300)}]"
    return f"[{block.type} that cannot be shown]"


async def _load_tools(connection: McpConnection) -> tuple[list[McpTool], list[str]]:
    """Return a server's usable tools, and the problems of the others."""
    try:
        tools = await connection.tools()
    except CallFailed as error:
        return [], [error.message]
    allowed, problems = connection.server.allow_tools, []
    if allowed is not None:
        problems = _unknown(connection.name, allowed, [tool.name for tool in tools])
        tools = [tool for tool in tools if tool.name in allowed]
    if len(tools) > MOST_TOOLS:
        problems.append(f"`{connection.name}` has more than {MOST_TOOLS} tools; name some of them")
        tools = tools[:MOST_TOOLS]
    taken: dict[str, McpTool] = {}
    for tool in tools:
        schema = msgspec.json.encode(tool.input_schema)
        refusal = schema_refusal(schema) if len(schema) <= LARGEST_SCHEMA else "it is too large"
        if refusal:
            named = f"`{connection.name}`: the schema of `{escape(tool.name)}`"
            problems.append(f"{named} cannot be used: {refusal}")
            continue
        name = offered_name(connection.name, tool.name, taken)
        taken[name] = McpTool(connection, tool.name, _definition(name, tool, schema, connection))
    return [*taken.values()], problems


def _unknown(server: str, allowed: Iterable[str], known: list[str]) -> list[str]:
    problems = []
    for name in allowed:
        if name not in known:
            meant = nearest(name, known)
            hint = f" (did you mean `{escape(meant)}`?)" if meant else ""
            problems.append(f"`{server}` has no tool `{escape(name)}`{hint}")
    return problems


def _definition(name: str, tool: Tool, schema: bytes, connection: McpConnection) -> ToolDefinition:
    server = connection.server
    side_effects = server.side_effects or ("network" if server.url else "execute")
    description = "".join(
        each if each in "\n\t" else printable(each) for each in tool.description or tool.name
    )
    return ToolDefinition(
        name,
        description[:LONGEST_DESCRIPTION],
        Raw(schema),
        side_effects,
        requires_workspace=False,
    )


def offered_name(server: str, tool: str, taken: Mapping[str, object] = {}) -> str:
    """Return a name that every provider accepts and no other tool of the server has."""
    name = f"{server}__{_NOT_IN_A_NAME.sub('_', tool)}"
    if len(name) <= LONGEST_NAME and name not in taken:
        return name
    # Made from the tool's own name, so that it stays the same whatever else the server offers.
    mark = hashlib.sha256(tool.encode()).hexdigest()[:8]
    return f"{name[: LONGEST_NAME - 9]}_{mark}"
