"""The vectors of texts, made as the settings of a home say.

A transformer takes tens of milliseconds for a text: whoever serves an event loop asks for it ahead,
and what was made a moment ago is kept.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Final

from pointsman.storage.policies.settings import VectorMaker
from pointsman.turns.learning.evidence_look import MINILM, STATIC, TOKENS
from pointsman.turns.learning.fingerprint import looked_at

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from pointsman.signals.minilm import MiniLM

MOST_KEPT: Final = 256
"""So many texts' tokens are kept: a turn is decided, recorded and staged within a few others."""


class TextVectors:
    """Makes vectors for one home; may be shared by threads.

    Which maker is asked is read from the settings once, at the first use.
    """

    def __init__(self, chosen: Callable[[], VectorMaker]) -> None:
        self._chosen = chosen
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._keeping = threading.Lock()
        self._making = threading.Lock()
        self._worker: ThreadPoolExecutor | None = None

    @cached_property
    def is_slow(self) -> bool:
        """Whether a vector takes so long that an event loop must not wait for it."""
        return self._chosen() == "minilm"

    @cached_property
    def maker(self) -> bytes:
        """The mark of who makes the token numbers."""
        return MINILM if self.is_slow else STATIC

    @cached_property
    def of(self) -> Callable[[str], bytes]:
        """What gives the vector of a text: letters and tokens, as the pattern store takes them."""
        # Imported here: numpy takes longer to load than most commands take.
        from pointsman.signals.embedding import text_vector  # noqa: PLC0415 - see above

        return self._vector if self.is_slow else text_vector

    def begin(self) -> None:
        """Load what the maker needs, or raise with what to do about it."""
        if self.is_slow:
            self._model  # noqa: B018 - loaded by being asked for

    async def prepare(self, text: str) -> None:
        """Make the tokens of a text in a thread, one text at a time, so that `of` finds them."""
        if looked_at(text) not in self._kept:
            # Imported here: whoever waits has it, and most commands never do.
            from asyncio import get_running_loop  # noqa: PLC0415 - see above

            await get_running_loop().run_in_executor(self._thread(), self._tokens, text)

    def close(self) -> None:
        """Let go of the thread; what it has not begun is never made."""
        if self._worker is not None:
            self._worker.shutdown(wait=False, cancel_futures=True)
            self._worker = None

    @cached_property
    def _model(self) -> MiniLM:
        # Imported here: few homes have it.
        from pointsman.providers.embedded.minilm import load_minilm  # noqa: PLC0415 - see above

        return load_minilm()

    def _thread(self) -> ThreadPoolExecutor:
        if self._worker is None:
            from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - as above

            self._worker = ThreadPoolExecutor(1, "text-vectors")
        return self._worker

    def _vector(self, text: str) -> bytes:
        # Imported here: as above.
        from pointsman.signals.embedding import hashed_letters  # noqa: PLC0415 - see above

        letters = hashed_letters(text)
        return letters + (self._tokens(text) or bytes(TOKENS) + MINILM) if letters else b""

    def _tokens(self, text: str) -> bytes:
        seen = looked_at(text)
        found = self._cached(seen)
        if found is not None:
            return found
        with self._making:
            # Who held the lock may have made the same.
            found = self._cached(seen)
            return self._keep(seen, self._model.tokens(text)) if found is None else found

    def _cached(self, seen: str) -> bytes | None:
        with self._keeping:
            if seen in self._kept:
                self._kept.move_to_end(seen)
            return self._kept.get(seen)

    def _keep(self, seen: str, made: bytes) -> bytes:
        with self._keeping:
            self._kept[seen] = made
            if len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        return made
