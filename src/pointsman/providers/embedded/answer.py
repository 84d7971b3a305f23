"""An answer of the embedded model on its way, within its deadlines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

from pointsman.providers.embedded.frames import DoneFrame, FailedFrame, PieceFrame, Reply
from pointsman.providers.embedded.process import WorkerCall
from pointsman.providers.embedded.request import overflow
from pointsman.providers.port import UpstreamError


class EmbeddedAnswer:
    """The body of one call, as it is computed. `on_silence` is called when it stops coming."""

    def __init__(
        self,
        call: WorkerCall,
        content_type: str,
        idle_s: float,
        until: float,
        on_silence: Callable[[], None],
    ) -> None:
        self.status = 200
        self.headers: Mapping[str, str] = {"content-type": content_type}
        self.attempts = 1
        self.credential = ""
        self._call = call
        self._idle_s = idle_s
        self._until = until
        self._on_silence = on_silence
        self._is_whole = False

    @property
    def is_over(self) -> bool:
        """Whether the piece given last is known to be the last: the end comes by itself."""
        return self._is_whole

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Return the body piece by piece."""
        while not self._is_whole:
            match await self._reply():
                case PieceFrame(_, data):
                    yield data
                case DoneFrame():
                    self._is_whole = True
                case FailedFrame() as failed:
                    raise failure(failed)

    async def read(self) -> bytes:
        """Return the whole body."""
        return b"".join([piece async for piece in self])

    async def close(self) -> None:
        """Cancel the call if it is still being computed."""
        self._call.cancel()

    async def _reply(self) -> Reply:
        silent_until = asyncio.get_running_loop().time() + self._idle_s
        try:
            async with asyncio.timeout_at(min(silent_until, self._until)):
                return await self._call.reply()
        except TimeoutError:
            self._call.cancel()
            is_silent = silent_until <= self._until
            if is_silent:
                self._on_silence()
            what = "fell silent" if is_silent else "took too long"
            raise UpstreamError(f"the embedded model {what}", error_class="timeout") from None


def failure(failed: FailedFrame) -> UpstreamError:
    """Return the error for what the engine refused."""
    if failed.prompt_tokens:
        return overflow(failed.prompt_tokens, failed.context_tokens)
    is_refused = 400 <= failed.status < 500
    return UpstreamError(
        f"the embedded model's engine: {failed.message}",
        error_class="invalid_request" if is_refused else "server_error",
        status=failed.status,
    )
