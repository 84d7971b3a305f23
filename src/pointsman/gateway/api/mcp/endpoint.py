"""`POST /mcp`: the MCP server over streamable HTTP, behind the gateway's own doors.

The SDK's transport is an ASGI application and a request of ours becomes one in a few lines, so it
is used as it is: both eras of the protocol, its framing and its keep-alives stay the SDK's concern.
It keeps no sessions: each request is admitted by its own key, nothing is held between two requests,
and a caller who hangs up ends the call. There is no stream from us to follow, so `GET` is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any, Final

from pointsman.access.actors import actor_of
from pointsman.access.keys import Principal
from pointsman.access.roles import RouteKey, Scope
from pointsman.conversations.services import ConversationServices, OpenHome
from pointsman.errors import PermissionDenied
from pointsman.gateway.api.agents.call import LOCAL
from pointsman.gateway.api.request import ApiRequest
from pointsman.gateway.serving.access import caller_of, check_reader, find_caller
from pointsman.gateway.serving.http import AnswerWriter, Asked, Headers, Receive, Send, in_thread
from pointsman.gateway.serving.services import GatewayServices
from pointsman.gateway.turns.incoming import caller_facts, privacy_of
from pointsman.mcp.sdk import check_sdk
from pointsman.mcp.visitor import Admitted, Service
from pointsman.storage.stores.conversations import CONVERSATIONS, ConversationStore

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

_VISITOR: Final = "pointsman.visitor"

Message = MutableMapping[str, Any]


class KeyedVisitor:
    """The caller of a request: their key is checked for each tool and resource they use."""

    def __init__(self, parts: GatewayServices, asked: Asked) -> None:
        self._parts = parts
        self._asked = asked

    def check_known(self) -> None:
        """Raise unless they may do anything here at all, and say so in headers that can be read."""
        privacy_of(self._asked, find_caller(self._parts, self._asked))

    def admit(self, key: RouteKey) -> Admitted:
        """Admit the caller by the scope and roles of the route that does the same over HTTP."""
        route = self._parts.routes[key]
        caller = self._caller(route.key_scope)
        if caller.role and route.roles.of(caller.acts_as) == "denied":
            raise PermissionDenied(f"`{caller.acts_as}` may not do that")
        actor = LOCAL if caller.is_anonymous else actor_of(caller)
        workspace = self._asked.header(b"x-pointsman-workspace") or caller.workspace
        privacy, facts = privacy_of(self._asked, caller), caller_facts(self._asked, caller)
        return Admitted(caller, actor, workspace or None, privacy, facts)

    def _caller(self, scope: Scope) -> Principal:
        """Return the caller; while there is no key, this machine may read and act."""
        admit = check_reader if scope in {"read", "act"} else caller_of
        return admit(self._parts, self._asked, scope)


class McpEndpoint:
    """Serves MCP; the SDK is imported with the first request."""

    def __init__(self, parts: GatewayServices) -> None:
        self._parts = parts
        self._lock = asyncio.Lock()
        self._manager: StreamableHTTPSessionManager | None = None
        self._held: asyncio.Task[None] | None = None
        self._house: ConversationServices | None = None

    async def serve(self, request: ApiRequest) -> AnswerWriter:
        """Serve one request."""
        visitor = KeyedVisitor(self._parts, request.asked)
        visitor.check_known()
        manager = await self._open()

        async def stream(receive: Receive, send: Send) -> None:
            asked = request.asked
            messages = _AsgiSend(send)
            await manager.handle_request(
                _scope(asked, visitor), _receiving(asked, receive), messages
            )

        return AnswerWriter(stream)

    async def _open(self) -> StreamableHTTPSessionManager:
        async with self._lock:
            if self._manager is None:
                manager = await in_thread(self._make_manager)
                ready = asyncio.get_running_loop().create_future()
                self._held = asyncio.ensure_future(_hold(manager, ready))
                await ready
                self._manager = manager
            return self._manager

    def _make_manager(self) -> StreamableHTTPSessionManager:
        check_sdk()
        from mcp.server.streamable_http_manager import (  # noqa: PLC0415 - slow, and an extra
            StreamableHTTPSessionManager,
        )

        from pointsman.mcp.server import ToolServer  # noqa: PLC0415 - imports the SDK

        service = Service(self._parts.pointsman, self._open_conversations)
        made = ToolServer(service, _visitor_of)
        most = self._parts.settings.server.max_body_bytes
        return StreamableHTTPSessionManager(made.server, stateless=True, max_request_body_size=most)

    def _open_conversations(self) -> ConversationServices:
        """Open conversations on the gateway's own providers, their health and the budgets."""
        if self._house is None:
            parts, own = self._parts, self._parts.pointsman
            retain = own.files.settings().value.retain
            store = ConversationStore(own.home.place(CONVERSATIONS), retain)
            parts.ending.append(store.close)
            ground = OpenHome(
                own.home,
                own.files,
                own.decision_recorder,
                own.gathering,
                own.clock,
                own.ids,
                own.gather_placement,
                mask_request=own.mask_request,
            )
            self._house = ConversationServices(ground, parts.calls, store)
        return self._house


class _AsgiSend:
    """Writes the messages of ASGI to an answer.

    A head waits for the piece that follows it, so that both go out in one write.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self._head: tuple[int, Headers] | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._head = (message["status"], message["headers"])
            return
        body: bytes = message.get("body", b"")
        is_last = not message.get("more_body", False)
        head, self._head = self._head, None
        if head is None:
            await self._send.more(body)
        elif not is_last:
            await self._send.begin(*head, body)
        else:
            self._send.whole(head[0], _with_length(head[1], body), body)
            return
        if is_last:
            self._send.end()


def _with_length(headers: Headers, body: bytes) -> Headers:
    if any(name == b"content-length" for name, _ in headers):
        return headers
    return [*headers, (b"content-length", b"%d" % len(body))]


async def _hold(manager: StreamableHTTPSessionManager, ready: asyncio.Future[None]) -> None:
    """Keep the SDK's tasks alive, in the one task they belong to, as long as the event loop is."""
    async with manager.run():
        ready.set_result(None)
        await asyncio.Event().wait()


def _visitor_of(request: Any) -> KeyedVisitor:
    found: KeyedVisitor = request.scope[_VISITOR]
    return found


def _scope(asked: Asked, visitor: KeyedVisitor) -> dict[str, Any]:
    """Return a request as an ASGI scope."""
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": asked.method,
        "scheme": "http",
        "path": asked.path,
        "query_string": asked.query.encode("latin-1"),
        "headers": [(name, value) for name, value in asked.headers.items()],
        "client": (asked.client, 0),
        _VISITOR: visitor,
    }


def _receiving(asked: Asked, receive: Receive) -> Callable[[], Awaitable[Message]]:
    """Return the request as ASGI messages: the body, then the disconnect."""
    left = asyncio.Event()
    receive.when_left(left.set)
    bodies = [asked.body]

    async def next_message() -> Message:
        if bodies:
            return {"type": "http.request", "body": bodies.pop(), "more_body": False}
        await left.wait()
        return {"type": "http.disconnect"}

    return next_message
