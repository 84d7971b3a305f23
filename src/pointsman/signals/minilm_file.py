"""The weights of all-MiniLM-L6-v2 as one compact file of whole numbers: made once, then read.

DETERMINISM: every weight is divided by the scale of its row and rounded, one by one, in doubles:
the file has the same bytes wherever it is made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from pointsman.signals.embedding import token_names

WIDTH: Final = 384
INNER: Final = 1_536
LAYERS: Final = 6
LONGEST: Final = 128
"""So many pieces of a text are read, the first and the last one included."""

PEAK: Final = 127
BLOCKS: Final = INNER // WIDTH
SPECIAL: Final = ("[CLS]", "[SEP]", "[UNK]")
"""The rows after those of `token_names`."""

MAGIC: Final = b"pointsman minilm 1\n"

Reals = npt.NDArray[np.float64]
Floats = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.int8]
Tensors = Mapping[str, Floats]


class Rows(Struct, frozen=True):
    """A table of whole numbers; each row times its scale is what it stands for."""

    whole: Bytes
    scales: Floats

    def take(self, places: Sequence[int]) -> Floats:
        """Give rows as what they stand for."""
        found: Floats = self.whole[list(places)].astype(np.float32)
        found *= self.scales[list(places), None]
        return found


class Dense(Struct, frozen=True):
    """One product: weights as whole numbers, a block of inputs each; scales; what is added.

    `weights` are blocks x inputs x outputs, `scales` blocks x outputs.
    """

    weights: Floats
    scales: Floats
    bias: Floats


class Norm(Struct, frozen=True):
    """What a row is multiplied by, and what is added, once its mean and length are taken off."""

    weight: Floats
    bias: Floats


class Layer(Struct, frozen=True):
    """One layer: queries, keys and values at once; what is made of them; inwards, outwards."""

    attention: Dense
    joined: Dense
    joined_norm: Norm
    inner: Dense
    outer: Dense
    outer_norm: Norm


class Encoder(Struct, frozen=True):
    """The whole model."""

    words: Rows
    places: Rows
    first_norm: Norm
    layers: tuple[Layer, ...]


def compact(tensors: Tensors, vocabulary: Sequence[str]) -> bytes:
    """Turn the published weights into the compact file."""
    return b"".join([MAGIC, *_parts(tensors, vocabulary)])


def read_tensors(whole: bytes) -> dict[str, Floats]:
    """Read the float32 tensors of a safetensors file."""
    start = 8 + int.from_bytes(whole[:8], "little")
    entries = msgspec.json.decode(whole[8:start], type=dict[str, dict[str, object]])
    return {
        name: _tensor(memoryview(whole)[start:], msgspec.convert(entry, _Entry))
        for name, entry in entries.items()
        if entry.get("dtype") == "F32"
    }


class _Entry(Struct, frozen=True):
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]


def _tensor(data: memoryview, entry: _Entry) -> Floats:
    start, end = entry.data_offsets
    return np.frombuffer(data[start:end], np.dtype("<f4")).reshape(entry.shape)


def _parts(tensors: Tensors, vocabulary: Sequence[str]) -> Iterator[bytes]:
    numbers = {token: number for number, token in enumerate(vocabulary)}
    words = tensors["embeddings.word_embeddings.weight"]
    yield from _rows(words[[numbers[name] for name in (*token_names(), *SPECIAL)]])
    places = tensors["embeddings.position_embeddings.weight"][:LONGEST].astype(np.float64)
    yield from _rows(places + tensors["embeddings.token_type_embeddings.weight"][0])
    yield from _norm(tensors, "embeddings.LayerNorm")
    for number in range(LAYERS):
        name = f"encoder.layer.{number}"
        yield from _dense(tensors, *(f"{name}.attention.self.{n}" for n in _ATTENTION))
        yield from _dense(tensors, f"{name}.attention.output.dense")
        yield from _norm(tensors, f"{name}.attention.output.LayerNorm")
        yield from _dense(tensors, f"{name}.intermediate.dense")
        yield from _dense(tensors, f"{name}.output.dense")
        yield from _norm(tensors, f"{name}.output.LayerNorm")


_ATTENTION: Final = ("query", "key", "value")


def _rows(rows: Reals | Floats) -> Iterator[bytes]:
    scales = _scales(rows)
    yield _divided(rows, scales)
    yield scales.tobytes()


def _dense(tensors: Tensors, *names: str) -> Iterator[bytes]:
    """Write products that take the same input side by side, a block of inputs after the other."""
    weights = np.concatenate([tensors[f"{name}.weight"] for name in names])
    blocks = [weights[:, at : at + WIDTH] for at in range(0, weights.shape[1], WIDTH)]
    scales = [_scales(block) for block in blocks]
    yield from (_divided(*each) for each in zip(blocks, scales, strict=True))
    yield from (each.tobytes() for each in scales)
    yield from (tensors[f"{name}.bias"].tobytes() for name in names)


def _norm(tensors: Tensors, name: str) -> Iterator[bytes]:
    yield tensors[f"{name}.weight"].tobytes()
    yield tensors[f"{name}.bias"].tobytes()


def _scales(rows: Reals | Floats) -> Floats:
    """Give what one step of each row stands for: its largest number is `PEAK` steps."""
    largest: Reals = np.abs(rows).max(axis=1).astype(np.float64)
    return (largest / PEAK).astype(np.dtype("<f4"))


def _divided(rows: Reals | Floats, scales: Floats) -> bytes:
    whole = np.rint(rows.astype(np.float64) / scales.astype(np.float64)[:, None])
    return np.clip(whole, -PEAK, PEAK).astype(np.int8).tobytes()


def read_compact(whole: bytes) -> Encoder:
    """Read the compact file; that it is the known one was found out before."""
    reading = _Reading(whole)
    return Encoder(
        words=reading.rows(len(token_names()) + len(SPECIAL)),
        places=reading.rows(LONGEST),
        first_norm=reading.norm(),
        layers=tuple(reading.layer() for _ in range(LAYERS)),
    )


class _Reading:
    """Reads one array after the other."""

    def __init__(self, whole: bytes) -> None:
        self._rest = memoryview(whole)[len(MAGIC) :]

    def rows(self, count: int) -> Rows:
        return Rows(self._bytes(count * WIDTH).reshape(count, WIDTH), self._floats(count))

    def norm(self) -> Norm:
        return Norm(self._floats(WIDTH), self._floats(WIDTH))

    def layer(self) -> Layer:
        return Layer(
            attention=self._dense(1, len(_ATTENTION) * WIDTH),
            joined=self._dense(1, WIDTH),
            joined_norm=self.norm(),
            inner=self._dense(1, INNER),
            outer=self._dense(BLOCKS, WIDTH),
            outer_norm=self.norm(),
        )

    def _dense(self, blocks: int, outputs: int) -> Dense:
        whole = self._bytes(blocks * outputs * WIDTH).reshape(blocks, outputs, WIDTH)
        weights = np.ascontiguousarray(whole.transpose(0, 2, 1), np.float32)
        scales = self._floats(blocks * outputs).reshape(blocks, outputs)
        return Dense(weights, scales, self._floats(outputs))

    def _bytes(self, count: int) -> Bytes:
        return np.frombuffer(self._taken(count), np.int8)

    def _floats(self, count: int) -> Floats:
        return np.frombuffer(self._taken(4 * count), np.dtype("<f4")).astype(np.float32)

    def _taken(self, size: int) -> memoryview:
        found, self._rest = self._rest[:size], self._rest[size:]
        return found
