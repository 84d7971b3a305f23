"""The MCP server itself: our tools, resources and prompts behind the official SDK.

Every call is admitted anew, and whatever goes wrong is one line: nothing of a traceback leaves.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import mcp_types as types
import msgspec
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS

from pointsman.access.roles import RouteKey
from pointsman.app import Pointsman
from pointsman.errors import AccessError, DocumentError, PointsmanError
from pointsman.kernel.document import printable
from pointsman.mcp.cost_tool import cost_tool
from pointsman.mcp.decision_tools import agent_tool, branch_tool, place_tool
from pointsman.mcp.delegation import Delegations, delegate_tool
from pointsman.mcp.resources import (
    DECISION,
    PROMPTS,
    READ_DECISION,
    READ_MODELS,
    READ_POLICY,
    READ_STOPS,
    TEMPLATES,
    TURN,
    WHY,
    Part,
    Prompt,
    Prompts,
    ResourceRow,
    Resources,
)
from pointsman.mcp.tool import Tool, ToolAnswer
from pointsman.mcp.turn_tools import READ_TURNS, TurnTools
from pointsman.mcp.visitor import Admitted, Service, Visitor
from pointsman.mcp.working import in_thread
from pointsman.version import VERSION

T = TypeVar("T")
Context: TypeAlias = ServerRequestContext[Any, Any]
Page: TypeAlias = types.PaginatedRequestParams | None

LOG: Final = logging.getLogger("pointsman.mcp")
INSTRUCTIONS: Final = (
    "Pointsman decides which model takes each piece of work, and can prove why. Ask route_explain "
    "why a turn went to its model, route_preview where a message would go, and delegate to hand a "
    "sub-task to another tier. Every decision has an id; nothing here shows the text of a message."
)

_ENCODER: Final = msgspec.json.Encoder(decimal_format="number")


class ToolServer:
    """Answers the requests of MCP clients; `visitor` says who is behind one.

    Its argument is the transport's own request, None over standard input and output.
    """

    def __init__(
        self,
        service: Service,
        visitor: Callable[[object], Visitor],
        missing: Sequence[str] = (),
    ) -> None:
        self._visitor = visitor
        self._pointsman = service.pointsman
        self.delegations = Delegations(service)
        self._resources = Resources(service.pointsman)
        self._prompts = Prompts(service.pointsman, self._resources)
        self._tools: dict[str, Tool[Any]] = {each.name: each for each in _tools(service, self)}
        self._described = {name: _to_protocol(each) for name, each in self._tools.items()}
        self.server: Server[Any] = Server(
            "pointsman",
            version=VERSION,
            title="Pointsman",
            instructions=" ".join((INSTRUCTIONS, *(f"Here {each}." for each in missing))),
            get_tool_input_schema=self._input_schema,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
            on_completion=self._complete,
        )
        # Its spans would export the names of tools and addresses; ours hold chosen attributes.
        self.server.middleware.clear()

    def _input_schema(self, name: str) -> dict[str, Any] | None:
        tool = self._described.get(name)
        return None if tool is None else tool.input_schema

    async def _list_tools(self, context: Context, _page: Page) -> types.ListToolsResult:
        """List the tools that the caller may use."""
        visitor = self._visitor(context.request)
        found = [each for each in self._tools.values() if _is_admitted(visitor, each.route)]
        return types.ListToolsResult(tools=[self._described[each.name] for each in found])

    async def _call_tool(
        self, context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        tool = self._tools.get(params.name)
        if tool is None:
            raise MCPError(INVALID_PARAMS, f"there is no tool `{params.name[:100]}`")
        try:
            by = self._visitor(context.request).admit(tool.route)
            call = tool.call(params.arguments or {}, by, _reporting(context))
            return _result(await tool.run(call))
        except PointsmanError as error:
            return _refuse(line_of(error))
        except Exception:
            # The outermost edge: unforeseen errors are logged here and answered without details.
            LOG.exception("the tool `%s` failed", tool.name)
            return _refuse(UNFORESEEN)

    async def _list_resources(self, context: Context, _page: Page) -> types.ListResourcesResult:
        """List what the caller may read."""
        visitor, resources = self._visitor(context.request), self._resources
        parts: list[ResourceRow] = []
        for route, listed in (
            (READ_POLICY, resources.policies),
            (READ_MODELS, resources.models),
            (READ_STOPS, resources.stops),
            (READ_DECISION, resources.decisions),
        ):
            if _is_admitted(visitor, route):
                parts += await _protocol(in_thread(listed))
        by = _admit(visitor, READ_TURNS)
        if by is not None:
            parts += await _protocol(in_thread(lambda: resources.turns(by.caller.reach)))
        return types.ListResourcesResult(resources=[_resource(each) for each in parts])

    async def _list_templates(
        self, _context: Context, _page: Page
    ) -> types.ListResourceTemplatesResult:
        templates = [
            types.ResourceTemplate(
                name=each.name, uri_template=each.uri, description=each.told, mime_type=each.media
            )
            for each in TEMPLATES
        ]
        return types.ListResourceTemplatesResult(resource_templates=templates)

    async def _read_resource(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        async def read() -> types.ReadResourceResult:
            found = self._resources.find(params.uri)
            by = self._visitor(context.request).admit(found.route)
            body = await in_thread(lambda: found.read(by.caller.reach))
            content = types.TextResourceContents(
                uri=params.uri, mime_type=body.media, text=body.text
            )
            return types.ReadResourceResult(contents=[content])

        return await _protocol(read())

    async def _list_prompts(self, _context: Context, _page: Page) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=[_prompt(each) for each in PROMPTS])

    async def _get_prompt(
        self, context: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        visitor, given = self._visitor(context.request), params.arguments or {}
        parts = await _protocol(in_thread(lambda: self._prompts.fill(params.name, given, visitor)))
        messages = [types.PromptMessage(role="user", content=_content(each)) for each in parts]
        return types.GetPromptResult(messages=messages)

    async def _complete(
        self, context: Context, params: types.CompleteRequestParams
    ) -> types.CompleteResult:
        """Complete a name, where the caller may read the things so named."""
        ref, argument = params.ref, params.argument
        route = route_needed(ref.name if ref.type == "ref/prompt" else ref.uri, argument.name)
        found = NOTHING
        by = None if route is None else _admit(self._visitor(context.request), route)
        if route is not None and by is not None:
            reach = by.caller.reach
            work = in_thread(lambda: complete(self._pointsman, route, argument.value, reach))
            found = await _protocol(work)
        completion = types.Completion(values=found.names, has_more=found.has_more)
        return types.CompleteResult(completion=completion)


def _tools(service: Service, server: ToolServer) -> tuple[Tool[Any], ...]:
    pointsman = service.pointsman
    return (
        *TurnTools(service).tools(),
        delegate_tool(server.delegations),
        branch_tool(pointsman),
        place_tool(pointsman),
        agent_tool(pointsman),
        cost_tool(pointsman),
    )


async def _protocol(work: Awaitable[T]) -> T:
    """Do what answers with an error of the protocol, not with a result that tells of one."""
    try:
        return await work
    except PointsmanError as error:
        raise MCPError(INVALID_PARAMS, line_of(error), {"error_code": error.code}) from None
    except Exception:
        LOG.exception("a request failed")
        raise MCPError(INTERNAL_ERROR, UNFORESEEN) from None


def _admit(visitor: Visitor, route: RouteKey) -> Admitted | None:
    try:
        return visitor.admit(route)
    except AccessError:
        return None


def _is_admitted(visitor: Visitor, route: RouteKey) -> bool:
    return _admit(visitor, route) is not None


def _reporting(context: Context) -> Callable[[int, int], Awaitable[None]]:
    async def report(done: int, total: int) -> None:
        await context.session.report_progress(done, total)

    return report


def _result(answer: ToolAnswer) -> types.CallToolResult:
    value = msgspec.json.decode(_ENCODER.encode(answer.value))
    text = types.TextContent(type="text", text=answer.text)
    return types.CallToolResult(content=[text], structured_content=value, is_error=answer.is_error)


def _refuse(line: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=line)], is_error=True)


def _to_protocol(tool: Tool[Any]) -> types.Tool:
    hints = tool.hints
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.told,
        input_schema=tool.input_schema(),
        output_schema=tool.output_schema(),
        annotations=types.ToolAnnotations(
            title=tool.title,
            read_only_hint=hints.is_read_only,
            destructive_hint=False,
            idempotent_hint=hints.is_idempotent,
            open_world_hint=hints.is_open_world,
        ),
    )


def _resource(each: ResourceRow) -> types.Resource:
    return types.Resource(uri=each.uri, name=each.name, description=each.told, mime_type=each.media)


def _prompt(each: Prompt) -> types.Prompt:
    return types.Prompt(
        name=each.name,
        title=each.title,
        description=each.told,
        arguments=[
            types.PromptArgument(name=own.name, description=own.told, required=own.is_required)
            for own in each.arguments
        ],
    )


def _content(part: Part) -> types.TextContent | types.EmbeddedResource:
    if not part.uri:
        return types.TextContent(type="text", text=part.text)
    content = types.TextResourceContents(uri=part.uri, mime_type=part.media, text=part.text)
    return types.EmbeddedResource(type="resource", resource=content)


MOST: Final = 100
"""As many as the protocol lets an answer hold."""
LOOKED_AT: Final = 1_000
"""Turns that are looked through, the newest first."""

_TURNS: Final = ((TURN + "{id}", "id"), (WHY.name, "turn"))
_DECISIONS: Final = ((DECISION + "{id}", "id"),)


class Completed(NamedTuple):
    """The names that begin so, and whether there are more than are given."""

    names: list[str]
    has_more: bool


NOTHING: Final = Completed([], has_more=False)


def route_needed(of: str, argument: str) -> RouteKey | None:
    """Return the route whose access allows completing an argument of a prompt or a template."""
    if (of, argument) in _TURNS:
        return READ_TURNS
    return READ_DECISION if (of, argument) in _DECISIONS else None


def complete(
    pointsman: Pointsman, route: RouteKey, begun: str, reach: str | None = None
) -> Completed:
    """Return the names that begin so: turns with the newest first, decisions as they stand."""
    if route == READ_TURNS:
        names = ["last", *(each.turn_id for each in pointsman.recent(LOOKED_AT, tenant=reach))]
    else:
        names = [*pointsman.branching.in_force().decisions]
    found = [each for each in dict.fromkeys(names) if each.startswith(begun)]
    return Completed(found[:MOST], has_more=len(found) > MOST)


MOST_PROBLEMS: Final = 10
LONGEST: Final = 2_000
UNFORESEEN: Final = "error: something went wrong here; it is logged"


def line_of(error: PointsmanError) -> str:
    """Return an error as one line."""
    text = _problems(error) if isinstance(error, DocumentError) else str(error)
    if error.hint:
        text = f"{text} (next: {error.hint})"
    return printable(text if len(text) <= LONGEST else text[: LONGEST - 1] + "…")


def _problems(error: DocumentError) -> str:
    shown = "; ".join(str(each) for each in error.problems[:MOST_PROBLEMS])
    more = len(error.problems) - MOST_PROBLEMS
    return f"{error.code}: {shown}" + (f"; and {more} more" if more > 0 else "")
