"""Checkpoints and tiles of the ledger's chains over HTTP, in the C2SP forms."""

from __future__ import annotations

from typing import Final

from pointsman.audit.tlog import TransparencyLogs
from pointsman.errors import NotFound
from pointsman.gateway.api.request import ApiRequest
from pointsman.gateway.serving.http import NO_STORE, Answer, in_thread
from pointsman.gateway.serving.services import GatewayServices
from pointsman.kernel.tiles import read_tile_path
from pointsman.storage.sqlite.database import told_errors

_TEXT: Final = (b"content-type", b"text/plain; charset=utf-8")
_BYTES: Final = (b"content-type", b"application/octet-stream")
_FOR_EVER: Final = (b"cache-control", b"private, max-age=31536000, immutable")
_PARTS_BEFORE: Final = 5
"""The empty one, `tlog`, the chain, `tile` and the level."""


class TlogApi:
    """Serves each chain as a log."""

    def __init__(self, parts: GatewayServices) -> None:
        self._home = parts.pointsman.home
        self._logs = TransparencyLogs(self._home)

    async def show_checkpoint(self, request: ApiRequest) -> object:
        """Return the newest checkpoint."""
        name = request.part("chain")
        return await in_thread(lambda: self._note(self._logs.checkpoint(name)))

    async def show_cosigned(self, request: ApiRequest) -> object:
        """Return the newest checkpoint with cosignatures."""
        name = request.part("chain")
        with told_errors(self._home.database):
            return await in_thread(lambda: self._note(self._logs.cosigned_checkpoint(name)))

    async def show_tile(self, request: ApiRequest) -> object:
        """Return a tile."""
        name = request.part("chain")
        path = request.asked.path.split("/")[_PARTS_BEFORE:]
        tile = read_tile_path(request.part("level"), "/".join(path))
        if tile is None:
            raise NotFound("this is not the path of a tile", hint="tile/LEVEL/INDEX[.p/WIDTH]")
        data = await in_thread(lambda: self._logs.tile(name, tile))
        return Answer(data, [_BYTES, _FOR_EVER])

    def _note(self, text: str) -> Answer:
        return Answer(text.encode(), [_TEXT, NO_STORE])
