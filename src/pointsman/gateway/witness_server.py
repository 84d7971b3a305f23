"""A witness over HTTP (C2SP tlog-witness): three paths, on the same wire as the gateway.

It takes no keys: a request proves itself by the log's signature.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs

import apsw
import msgspec

from pointsman.errors import InputError, MethodNotAllowed, NotFound, PointsmanError
from pointsman.gateway.serving.http import (
    JSON,
    NO_STORE,
    Asked,
    Handler,
    Headers,
    Receive,
    RouteHandler,
    Send,
    answer,
    in_thread,
)
from pointsman.gateway.wire.reply import Reply
from pointsman.gateway.wire.server import Serving
from pointsman.recording.machine import SystemClock
from pointsman.storage.policies.settings import Server
from pointsman.storage.stores.witnessed_logs import WitnessedLogs
from pointsman.witnessing.witness import MOST_REQUEST, SEEN, TEXT, CosigningWitness, Refusal

MOST_CONNECTIONS: Final = 256
_PLAIN: Final = (b"content-type", TEXT.encode())


def witness_limits(host: str, port: int) -> Server:
    """Return where a witness listens, and how little it takes from a caller."""
    return Server(
        host=host,
        port=port,
        max_body_bytes=MOST_REQUEST,
        max_keyless_bytes=MOST_REQUEST * 64,
        max_connections=MOST_CONNECTIONS,
        body_timeout_s=10,
        max_head_bytes=16 * 1024,
    )


@contextmanager
def open_witness_server(folder: Path, limits: Server) -> Iterator[tuple[Serving, str]]:
    """Open a witness; return its server and its public key."""
    witness = CosigningWitness(folder, SystemClock().now, WitnessedLogs(folder / SEEN))
    try:
        yield Serving(WitnessService(witness), limits), witness.key
    finally:
        witness.close()


class WitnessService:
    """Serves the requests of one witness."""

    def __init__(self, witness: CosigningWitness) -> None:
        self._witness = witness
        self._handlers: dict[tuple[str, str], RouteHandler] = {
            ("POST", "/add-checkpoint"): _Path(self._add_checkpoint),
            ("GET", "/logs"): _Path(self._list_logs),
            ("GET", "/"): _Path(self._show_key),
        }

    def begin(self) -> None:
        """Do nothing: a witness does nothing by itself."""

    def drain(self) -> None:
        """Do nothing: no load balancer asks a witness whether it is ready."""

    def stop(self) -> None:
        """Do nothing: no caller stays."""

    async def end(self) -> None:
        """Do nothing: the folder is closed by its opener."""

    def admit(self, method: str, path: str, headers: dict[bytes, bytes]) -> RouteHandler:
        """Return the handler of a request, by its head alone, or raise why it is refused."""
        del headers
        found = self._handlers.get(("GET" if method == "HEAD" else method, path))
        if found is not None:
            return found
        if any(path == known for _, known in self._handlers):
            raise MethodNotAllowed(f"`{method[:20]}` is not served here")
        raise NotFound("a witness serves /add-checkpoint, /logs and /")

    def check_caller(self, asked: Asked, handler: RouteHandler) -> bool:
        """Treat every caller as unknown: their bodies are bounded for all of them together."""
        return handler.check_caller(asked)

    async def serve(self, asked: Asked, handler: Handler | PointsmanError, reply: Reply) -> None:
        """Serve one request, or tell why it is refused."""
        try:
            if isinstance(handler, PointsmanError):
                raise handler
            await handler(asked, reply, reply)
        except PointsmanError as error:
            await answer(reply, error.http_status, f"{error.message}\n".encode(), [_PLAIN])
        except (apsw.Error, OSError):
            # Nothing was signed that is not durable: the caller tries again.
            await answer(reply, 503, b"what was seen cannot be kept now\n", [_PLAIN])

    async def _add_checkpoint(self, asked: Asked, send: Send) -> None:
        try:
            line = await in_thread(lambda: self._witness.cosign(asked.body))
        except Refusal as refused:
            headers: Headers = [(b"content-type", refused.media.encode()), NO_STORE]
            await answer(send, refused.status, refused.body.encode(), headers)
            return
        await answer(send, 200, line.encode(), [_PLAIN, NO_STORE])

    async def _list_logs(self, asked: Asked, send: Send) -> None:
        try:
            values = parse_qs(asked.query, max_num_fields=4, errors="strict").get("prefix", [""])
        except ValueError as error:
            raise InputError("the query cannot be read") from error
        view = await in_thread(lambda: self._witness.view(values[0][:300]))
        await answer(send, 200, msgspec.json.encode(view), [JSON, NO_STORE])

    async def _show_key(self, _asked: Asked, send: Send) -> None:
        await answer(send, 200, f"{self._witness.key}\n".encode(), [_PLAIN])


class _Path:
    """One path; every caller may take it."""

    def __init__(self, work: Callable[[Asked, Send], Awaitable[None]]) -> None:
        self._work = work

    def check_caller(self, asked: Asked) -> bool:
        """Admit the caller, unknown as all are."""
        del asked
        return False

    async def __call__(self, asked: Asked, receive: Receive, send: Send, /) -> None:
        """Serve one request."""
        del receive
        await self._work(asked, send)
