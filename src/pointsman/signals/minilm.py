"""The tokens of a text as all-MiniLM-L6-v2 reads them: 128 numbers, and a mark of who made them.

Words are split as `embedding` splits them: of capitals, only ASCII's are lowered, and a letter with
an accent is a sign of its own. That is less than the model was trained with, and the same for all.
"""

from __future__ import annotations

import ctypes
import importlib.util
from contextlib import suppress
from functools import cache
from itertools import chain
from pathlib import Path

import numpy as np

from pointsman.signals.embedding import TOKEN_REACH, pieces_of, token_names, words_of
from pointsman.signals.minilm_file import LONGEST, WIDTH, Encoder, Reals, read_compact
from pointsman.signals.minilm_layers import FINE, encoded
from pointsman.turns.learning.evidence_arrays import normal_row
from pointsman.turns.learning.evidence_look import MINILM, TOKENS
from pointsman.turns.learning.fingerprint import PEAK

_AXES = Path(__file__).with_name("sentence_axes") / "axes.i8"
# A sentence is told in so many parts of one, so that its squares add up exactly.
_PARTS = 4_096
_REACH = 4_096
_NUMPY = "numpy._core._multiarray_umath"
_SET_THREADS = ("scipy_openblas_set_num_threads64_", "openblas_set_num_threads")


class MiniLM:
    """The model, ready to read texts; may be shared by threads."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder

    @classmethod
    def of(cls, whole: bytes) -> MiniLM:
        """Read the compact file."""
        use_one_thread()
        return cls(read_compact(whole))

    def tokens(self, text: str) -> bytes:
        """Give the vector of a text as 128 signed bytes and the mark, or nothing without words."""
        pieces = pieces_of_text(text)
        if not pieces:
            return b""
        found = normal_row(sentence(self._encoder, pieces) @ axes(), TOKEN_REACH)
        whole = np.minimum(np.maximum(found, -PEAK), PEAK).astype(np.int8).tobytes()
        return whole + MINILM


def sentence(encoder: Encoder, pieces: list[int]) -> Reals:
    """Give the mean of what the model makes of each piece, of length 4,096, as whole numbers."""
    mean = encoded(encoder, pieces) / (len(pieces) * (FINE / _PARTS))
    return normal_row(np.rint(mean), _REACH)


def pieces_of_text(text: str) -> list[int]:
    """Give the places of a text's pieces, the first and the last half of them where it is long."""
    known = len(token_names())
    first, last, unknown = known, known + 1, (known + 2,)
    found = [*chain.from_iterable(pieces_of(word) or unknown for word in words_of(text))]
    if not found:
        return []
    half = LONGEST // 2 - 1
    inside = found if len(found) <= 2 * half else found[:half] + found[-half:]
    return [first, *inside, last]


@cache
def axes() -> Reals:
    """Give the main axes of sentences: 128 columns of whole numbers."""
    return np.fromfile(_AXES, np.int8).reshape(WIDTH, TOKENS).astype(np.float64)


def use_one_thread() -> None:
    """Let products be made by the thread that asks for them, where the library can be told.

    They are too small to share: threads that wait for each other cost three times as much. The
    numbers are the same either way.
    """
    with suppress(OSError, ModuleNotFoundError):
        found = importlib.util.find_spec(_NUMPY)
        # It gives the names of what it is linked with, too.
        library = ctypes.CDLL(found.origin if found else None)
        for name in _SET_THREADS:
            with suppress(AttributeError):
                getattr(library, name)(1)
