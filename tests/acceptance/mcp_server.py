"""An MCP server for the tests, on stdio or HTTP; its tools do what tests need to see."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from mcp.server import MCPServer
from mcp_types import ImageContent, TextContent

server = MCPServer("errands")


@server.tool()
def add(left: int, right: int) -> str:
    """Add two whole numbers."""
    return str(left + right)


@server.tool()
def environment() -> str:
    """Give the names and values of the environment."""
    return "\n".join(f"{name}={value}" for name, value in sorted(os.environ.items()))


@server.tool()
def fail(reason: str) -> str:
    """Fail."""
    raise ValueError(reason)


@server.tool()
def crash() -> str:
    """End the whole server in the middle of a call."""
    sys.stderr.write("out of paper\n")
    sys.stderr.flush()
    os._exit(3)


@server.tool()
async def hang(mark: str) -> str:
    """Say that it began, and then nothing any more."""
    Path(mark).write_text(str(os.getpid()))
    await asyncio.sleep(3600)
    return "never"


@server.tool()
def picture() -> list[TextContent | ImageContent]:
    """Give a picture."""
    return [
        TextContent(type="text", text="a dot"),
        ImageContent(type="image", data="iVBORw0KGgo=", mime_type="image/png"),
    ]


@server.tool()
def long(size: int) -> str:
    """Give a long text."""
    return "x" * size


if __name__ == "__main__":
    if sys.argv[1:2] == ["http"]:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[2]))
    else:
        server.run("stdio")
