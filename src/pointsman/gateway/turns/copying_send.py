"""An answer on its way out, copied for the shadow runs and judges that read it afterwards."""

from __future__ import annotations

from typing import Final

from pointsman.calls.judging import answer_text
from pointsman.errors import InputError
from pointsman.gateway.serving.http import Headers, Send
from pointsman.providers.dialects.whole import fold
from pointsman.providers.port import Dialect
from pointsman.providers.registry.dialects import speaker

MOST_HEARD: Final = 1 << 20
"""Of a longer answer nothing is kept: half of it cannot be judged."""


class CopyingSend:
    """Passes an answer on as it is, and keeps a copy."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._pieces: list[bytes] = []
        self._size = 0
        self._is_stream = False

    @property
    def status(self) -> int:
        """The status that was sent; 0 before."""
        return self._send.status

    def whole(self, status: int, headers: Headers, body: bytes) -> None:
        """Answer in one write."""
        self._send.whole(status, headers, body)
        self._keep(body)

    async def begin(self, status: int, headers: Headers, first: bytes) -> None:
        """Begin an answer of pieces."""
        self._is_stream = True
        self._keep(first)
        await self._send.begin(status, headers, first)

    async def more(self, data: bytes) -> None:
        """Answer on."""
        self._keep(data)
        await self._send.more(data)

    def push(self, data: bytes) -> bool:
        """Answer on at once."""
        self._keep(data)
        return self._send.push(data)

    def end(self, last: bytes = b"") -> None:
        """End an answer of pieces."""
        self._keep(last)
        self._send.end(last)

    def at_once(self, status: int, headers: Headers, data: bytes) -> None:
        """Answer with all the pieces."""
        self._is_stream = True
        self._keep(data)
        self._send.at_once(status, headers, data)

    def words(self, dialect: Dialect) -> str:
        """Return the words of the answer; empty where there are none or they cannot be read."""
        if self._size > MOST_HEARD:
            return ""
        said, reader = b"".join(self._pieces), speaker(dialect)
        try:
            if not self._is_stream:
                return answer_text(reader.read_response(said))
            events = reader.stream_reader()
            return answer_text(fold([*events.feed(said), *events.end()]))
        except InputError:
            return ""

    def _keep(self, data: bytes) -> None:
        self._size += len(data)
        if self._size <= MOST_HEARD:
            self._pieces.append(data)
        else:
            self._pieces.clear()
