"""A client of simulated lives: HTTP/1.1 over a simulated connection, read as it comes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from msgspec import Struct
from tests.simulation.network import SimLoop

PATIENCE_S = 400.0


class Answer(Struct):
    """What a client has of an answer."""

    status: int = 0
    headers: dict[str, str] = {}
    body: bytes = b""
    is_whole: bool = False
    error: str = ""

    @property
    def json(self) -> Any:
        try:
            return json.loads(self.body)
        except ValueError:
            return None


async def ask(
    port: int,
    method: str,
    path: str,
    body: object = None,
    headers: dict[str, str] | None = None,
    *,
    on_head: Callable[[Answer], None] = lambda _answer: None,
    cancel_s: float | None = None,
) -> Answer:
    """Ask and read the whole answer; a connection that breaks off is told in `error`."""
    answer = Answer()
    content = (
        b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    )
    lines = {
        "host": f"127.0.0.1:{port}", "content-type": "application/json",
        "content-length": str(len(content)), "connection": "close", **(headers or {}),
    }  # fmt: skip
    head = f"{method} {path} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in lines.items())
    try:
        async with asyncio.timeout(PATIENCE_S if cancel_s is None else cancel_s):
            await _exchange(port, head.encode() + b"\r\n" + content, answer, on_head)
    except TimeoutError:
        answer.error = "late" if cancel_s is None else "cancelled"
    except (OSError, asyncio.IncompleteReadError) as error:
        answer.error = f"{type(error).__name__}"
    return answer


async def _exchange(
    port: int, request: bytes, answer: Answer, on_head: Callable[[Answer], None]
) -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SimLoop)
    reader = asyncio.StreamReader(limit=2**26, loop=loop)
    protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
    transport, _ = await loop.create_connection(lambda: protocol, "127.0.0.1", port)
    try:
        transport.write(request)
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        answer.status = int(lines[0].split(" ")[1])
        pairs = (line.partition(":") for line in lines[1:] if line)
        answer.headers = {name.lower(): value.strip() for name, _, value in pairs}
        on_head(answer)
        await _read_body(reader, answer)
        answer.is_whole = True
    finally:
        transport.abort()


async def _read_body(reader: asyncio.StreamReader, answer: Answer) -> None:
    length = answer.headers.get("content-length")
    if length is not None:
        answer.body = await reader.readexactly(int(length))
    elif answer.headers.get("transfer-encoding") == "chunked":
        while True:
            size = int(await reader.readuntil(b"\r\n"), 16)
            data = (await reader.readexactly(size + 2))[:-2]
            if not size:
                return
            answer.body += data
    else:
        answer.body = await reader.read()
