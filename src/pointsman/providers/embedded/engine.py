"""llama.cpp inside the model's process: how it is loaded, and how it is spoken to.

It listens on a unix socket in a private folder, behind a key that never leaves this process.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from msgspec import Struct

from pointsman.providers.embedded.frames import LoadFrame

# A cancelled prompt goes on to the end of its batch.
BATCH_TOKENS = 256


class EngineError(Exception):
    """the engine cannot be loaded"""


class Engine(Struct, frozen=True):
    """A loaded model. `server` is kept so that it lives."""

    server: object
    address: str
    key: str

    @asynccontextmanager
    async def exchange(self, path: str, body: bytes | None = None) -> AsyncIterator[EngineResponse]:
        """Make one request; leaving early closes the connection, which ends the work behind it."""
        reader, writer = await asyncio.open_unix_connection(self.address)
        try:
            writer.write(self._head(path, body) + (body or b""))
            yield await _response(reader)
        finally:
            writer.close()

    def _head(self, path: str, body: bytes | None) -> bytes:
        lines = [
            f"{'GET' if body is None else 'POST'} {path} HTTP/1.1",
            "Host: engine",
            f"Authorization: Bearer {self.key}",
            "Connection: close",
            *([] if body is None else ["Content-Type: application/json"]),
            *([] if body is None else [f"Content-Length: {len(body)}"]),
        ]
        return "\r\n".join([*lines, "", ""]).encode("ascii")


class EngineResponse:
    """What the engine answers: its head, then its body piece by piece."""

    def __init__(self, status: int, headers: dict[str, str], reader: asyncio.StreamReader) -> None:
        self.status = status
        self.content_type = headers.get("content-type", "application/json")
        self._is_chunked = headers.get("transfer-encoding", "").lower() == "chunked"
        self._length = int(headers.get("content-length", 0))
        self._reader = reader

    async def pieces(self) -> AsyncIterator[bytes]:
        """Return the body as the engine cut it."""
        if not self._is_chunked:
            yield await self._reader.readexactly(self._length)
            return
        while size := int((await self._reader.readuntil(b"\r\n")).partition(b";")[0], 16):
            yield (await self._reader.readexactly(size + 2))[:-2]

    async def read(self) -> bytes:
        """Return the whole body."""
        return b"".join([piece async for piece in self.pieces()])


def load(order: LoadFrame) -> Engine:
    """Load a model, or raise `EngineError` with what to do."""
    try:
        # Here and not above: only the model's process ever holds the library.
        import xllamacpp  # noqa: PLC0415
    except ImportError as error:
        raise EngineError(f"xllamacpp cannot be imported: {error}") from error
    key = secrets.token_hex(32)
    socket_path = Path(order.folder) / "engine.sock"
    params = xllamacpp.CommonParams()
    params.model.path = order.path
    params.model_alias = {order.alias}
    params.hostnames = [str(socket_path)]
    params.api_keys = [key]
    params.n_parallel = order.slots
    params.n_ctx = order.context_tokens * order.slots
    params.n_batch = params.n_ubatch = BATCH_TOKENS
    params.cpuparams.n_threads = order.threads
    params.cpuparams_batch.n_threads = order.prompt_threads
    params.n_threads_http = order.slots + 2
    # What llama.cpp would keep of finished conversations, up to 8 GiB, would not be ours to bound.
    params.cache_ram_mib = 0
    params.n_ctx_checkpoints = 0
    # Comments between events would hide a stuck engine from the deadline between two pieces.
    params.sse_ping_interval = 0
    params.fit_params = False
    params.warmup = False
    params.ui = False
    params.offline = True
    params.verbosity = -1
    if order.temperature is not None:
        params.sampling.temp = order.temperature
    if order.top_p is not None:
        params.sampling.top_p = order.top_p
    try:
        server = xllamacpp.Server(params)
    except (RuntimeError, ValueError) as error:
        raise EngineError(f"llama.cpp cannot load `{order.path}`: {error}") from error
    return Engine(server, _hidden(socket_path), key)


def _hidden(path: Path) -> str:
    """Take the socket's name away where the system can still reach it without one."""
    if sys.platform != "linux":
        return str(path)
    descriptor = os.open(path, os.O_PATH)
    path.unlink()
    # The gateway removes the folder too, unless it is killed.
    with suppress(OSError):
        path.parent.rmdir()
    return f"/proc/self/fd/{descriptor}"


async def _response(reader: asyncio.StreamReader) -> EngineResponse:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.rstrip().split("\r\n")
    headers = {
        name.strip().lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)
    }
    return EngineResponse(int(first.split(" ", 2)[1]), headers, reader)
