"""One MCP server while it is connected: a program of our own, or an address.

The SDK is imported when a server is first connected; nothing else pays for it. A connection is
entered and left by one task, because the SDK's scopes belong to the task that opened them.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from pointsman.errors import PointsmanError
from pointsman.kernel.document import escape
from pointsman.providers.credentials import Credential
from pointsman.providers.secret import Secret
from pointsman.sessions.tools.failure import CallFailed
from pointsman.storage.policies.tool_settings import McpServer
from pointsman.turns.registry.login import SecretRef
from pointsman.version import VERSION

if TYPE_CHECKING:
    from mcp import Client
    from mcp.client._transport import Transport
    from mcp_types import CallToolResult, Tool

MOST_STARTS = 2
"""A server that ended is started again once in a session."""

MOST_PAGES = 20
_CLOSE_S: Final = 15
_KEPT_ERRORS: Final = 2_000
_READ_S: Final = 1.0


class McpConnection:
    """A server of the settings: started on demand, reported when it is lost."""

    def __init__(self, name: str, server: McpServer, home: Path, folder: Path) -> None:
        self.name = name
        self.server = server
        self._home = home
        self._folder = folder
        self._lock = asyncio.Lock()
        self._open: _OpenConnection | None = None
        self._starts = 0
        self._secrets: list[Secret] = []

    async def tools(self) -> list[Tool]:
        """Connect, and return the server's tools."""
        client = await self._client()
        try:
            async with asyncio.timeout(self.server.start_timeout_s):
                return await _list_tools(client)
        except Exception as error:  # noqa: BLE001 - whatever the SDK lets out, the server is no use
            raise await self._close_lost(error) from None

    async def call(self, tool: str, arguments: Mapping[str, object]) -> CallToolResult:
        """Make a call; raises `CallFailed` where no answer arrives in time."""
        client = await self._client()
        from mcp import MCPError  # noqa: PLC0415 - the SDK is slow to import
        from mcp_types import CONNECTION_CLOSED  # noqa: PLC0415 - the same

        seconds = self.server.timeout_s
        try:
            async with asyncio.timeout(seconds):
                return await client.call_tool(tool, dict(arguments))
        except TimeoutError:
            message = f"the server `{self.name}` did not answer within {seconds} s"
            raise CallFailed("timeout", message) from None
        except MCPError as error:
            if error.code == CONNECTION_CLOSED:
                raise await self._close_lost(error) from None
            message = f"`{self.name}` refused the call: {escape(error.error.message, 500)}"
            raise CallFailed("execution_error", self.redact(message)) from None
        except Exception as error:  # noqa: BLE001 - whatever the SDK lets out, the server is no use
            raise await self._close_lost(error) from None

    async def close(self) -> None:
        """End the connection, and the program with it."""
        opened, self._open = self._open, None
        if opened is not None:
            await opened.close()

    def redact(self, text: str) -> str:
        """Remove the server's secrets from a text."""
        for secret in self._secrets:
            text = secret.redact(text.encode("utf-8", "replace")).decode("utf-8", "replace")
        return text

    async def _client(self) -> Client:
        async with self._lock:
            if self._open is None:
                if self._starts == MOST_STARTS:
                    message = f"the server `{self.name}` ended twice and is not started again"
                    raise CallFailed("execution_error", message)
                self._open = await self._start()
            return self._open.client

    async def _start(self) -> _OpenConnection:
        errors = _StderrTail()
        self._starts += 1
        try:
            # In a thread: the import takes longer than a screen may stand still.
            await asyncio.to_thread(importlib.import_module, "mcp")
            opened = _OpenConnection(self._transport(errors), errors)
            await opened.start(self.server.start_timeout_s)
        except ImportError:
            message = "MCP servers need the package `mcp`: install `pointsman[mcp]`"
            raise CallFailed("execution_error", message) from None
        except asyncio.CancelledError:
            # Cancelled by the caller, which says nothing about the server.
            self._starts -= 1
            raise
        except TimeoutError:
            seconds = self.server.start_timeout_s
            message = f"the server `{self.name}` did not answer within {seconds} s"
            raise CallFailed("timeout", message) from None
        except PointsmanError as error:
            raise CallFailed("execution_error", f"`{self.name}`: {error.message}") from None
        except Exception as error:  # noqa: BLE001 - whatever the SDK lets out
            why = self.redact(await errors.last() or _reason(error))
            message = f"the server `{self.name}` cannot be started: {why}"
            raise CallFailed("execution_error", message) from None
        return opened

    async def _close_lost(self, error: Exception) -> CallFailed:
        """Close a server that ended; return the failure to raise."""
        errors = None if self._open is None else self._open.errors
        await self.close()
        words = "" if errors is None else await errors.last()
        why = self.redact(words or _reason(error))
        again = (
            "it is started again with the next call"
            if self._starts < MOST_STARTS
            else ("it is not started again in this session")
        )
        return CallFailed("execution_error", f"the server `{self.name}` ended: {why}; {again}")

    def _transport(self, errors: _StderrTail) -> AbstractAsyncContextManager[Client]:
        _quiet()
        if self.server.url:
            return self._over_http(self._values(self.server.headers))
        return self._over_stdio(self._values(self.server.env), errors)

    @asynccontextmanager
    async def _over_stdio(self, env: dict[str, str], errors: _StderrTail) -> AsyncIterator[Client]:
        from mcp import StdioServerParameters, stdio_client  # noqa: PLC0415 - slow to import

        command = StdioServerParameters(
            command=self.server.command, args=[*self.server.args], env=env, cwd=self._folder
        )
        with errors.file() as errlog:
            async with _connect(stdio_client(command, errlog=errlog)) as client:
                # The program has its own end; with ours closed, its end is seen.
                errlog.close()
                yield client

    @asynccontextmanager
    async def _over_http(self, headers: dict[str, str]) -> AsyncIterator[Client]:
        import httpx2  # noqa: PLC0415 - slow to import
        from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415 - the same

        limits = httpx2.Timeout(self.server.start_timeout_s, read=self.server.timeout_s)
        async with (
            httpx2.AsyncClient(headers=headers, timeout=limits, trust_env=False) as http,
            _connect(streamable_http_client(self.server.url, http_client=http)) as client,
        ):
            yield client

    def _values(self, given: Mapping[str, str | SecretRef]) -> dict[str, str]:
        values: dict[str, str] = {}
        for name, value in given.items():
            if isinstance(value, str):
                values[name] = value
                continue
            secret = Credential(value, self._home).secret()
            self._secrets.append(secret)
            values[name] = secret.reveal()
        return values


class _OpenConnection:
    """A connection that a task of its own holds open."""

    def __init__(self, transport: AbstractAsyncContextManager[Client], errors: _StderrTail) -> None:
        self._transport = transport
        self._closing = asyncio.Event()
        self._ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._task: asyncio.Task[None] | None = None
        self.errors = errors

    @property
    def client(self) -> Client:
        """The client, once `start` has returned."""
        return self._ready.result()

    async def start(self, seconds: float) -> None:
        """Connect, or raise the cause of the failure."""
        self._task = asyncio.create_task(self._hold())
        try:
            async with asyncio.timeout(seconds):
                await asyncio.shield(self._ready)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Close the connection; a server that does not end is left to the system."""
        self._closing.set()
        if self._task is None:
            return
        if not self._ready.done():
            self._task.cancel()
        await asyncio.wait([self._task], timeout=_CLOSE_S)
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _hold(self) -> None:
        try:
            async with self._transport as client:
                self._ready.set_result(client)
                await self._closing.wait()
        except asyncio.CancelledError:
            self._ready.cancel()
            raise
        except Exception as error:  # noqa: BLE001 - carried over to the waiter
            # After the start, errors are the noise of closing: calls have reported the cause.
            if not self._ready.done():
                self._ready.set_exception(error)


class _StderrTail:
    """The end of a program's standard error, in flat memory."""

    def __init__(self) -> None:
        self._tail = b""
        self._reading: threading.Thread | None = None

    def file(self) -> TextIO:
        """Return the file that the program writes to."""
        read, write = os.pipe()
        self._reading = threading.Thread(target=self._read, args=(read,), daemon=True)
        self._reading.start()
        return os.fdopen(write, "w")

    def _read(self, descriptor: int) -> None:
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            while piece := file.read(_KEPT_ERRORS):
                self._tail = (self._tail + piece)[-_KEPT_ERRORS:]

    async def last(self) -> str:
        """Return the last line of a program that has ended, once all of it was read."""
        if self._reading is not None:
            # Not for ever: a child of the program may live on and hold the file.
            await asyncio.to_thread(self._reading.join, _READ_S)
        lines = self._tail.decode("utf-8", "replace").strip().splitlines()
        return escape(lines[-1].strip(), 300) if lines else ""


@asynccontextmanager
async def _connect(transport: Transport) -> AsyncIterator[Client]:
    from mcp import Client  # noqa: PLC0415 - slow to import
    from mcp_types import Implementation  # noqa: PLC0415 - the same

    who = Implementation(name="pointsman", version=VERSION)
    async with Client(transport, client_info=who, cache=None) as client:
        yield client


async def _list_tools(client: Client) -> list[Tool]:
    found: list[Tool] = []
    cursor: str | None = None
    for _ in range(MOST_PAGES):
        page = await client.list_tools(cursor=cursor)
        found += page.tools
        cursor = page.next_cursor
        if not cursor:
            break
    return found


def _reason(error: BaseException) -> str:
    """Return the reason of an SDK error in a few words; a group gives its first."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    return escape(str(error).partition("\n")[0] or type(error).__name__, 300)


def _quiet() -> None:
    """Keep the SDK's log off the terminal; a configured handler still gets it."""
    logger = logging.getLogger("mcp")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
