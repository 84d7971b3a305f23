"""MiniLM in whole numbers: what the published model says, in the same bits everywhere."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from tests.unit.minilm.sentences import TEXTS, cosine, plain_sentence

from pointsman.providers.embedded import minilm
from pointsman.signals import minilm_layers
from pointsman.signals.embedding import TOKEN_REACH, token_names
from pointsman.signals.minilm import MiniLM, axes, pieces_of_text, sentence
from pointsman.signals.minilm_file import (
    LONGEST,
    PEAK,
    SPECIAL,
    WIDTH,
    Dense,
    Encoder,
    Layer,
    Norm,
    Rows,
    compact,
    read_compact,
    read_tensors,
)
from pointsman.signals.minilm_layers import STEPS, encoded
from pointsman.turns.learning.evidence_look import MINILM, TOKENS

DIGEST = "b6cb6363009dc60192a00a3e80686ab912a7f8bfba580657f26d02489e6ee9ec"
"""Of the vectors of all texts: who changes it changes what every store with them holds."""

LEAST_ALIKE = 0.997

ALONE = """
import hashlib
from pathlib import Path
from tests.unit.minilm.sentences import TEXTS
from pointsman.signals.minilm import MiniLM
from pointsman.signals.minilm_file import read_compact
import sys
model = MiniLM(read_compact(Path(sys.argv[1]).read_bytes()))
print(hashlib.sha256(b"".join(map(model.tokens, TEXTS))).hexdigest())
"""


@pytest.fixture(scope="module")
def encoder(minilm_data: Path) -> Encoder:
    return read_compact((minilm_data / minilm.FILE_NAME).read_bytes())


def test_vectors_of_texts_are_those_of_every_machine(minilm_model: MiniLM) -> None:
    found = b"".join(map(minilm_model.tokens, TEXTS))
    assert hashlib.sha256(found).hexdigest() == DIGEST


@pytest.mark.parametrize(
    "surroundings",
    [
        {"OPENBLAS_NUM_THREADS": "1"},
        {"OPENBLAS_NUM_THREADS": "4"},
        {"OPENBLAS_CORETYPE": "Nehalem"},
        {"NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX2 FMA3 AVX512F AVX512_SKX"},
    ],
    ids=["one thread", "four threads", "another kernel", "no wide registers"],
)
def test_neither_threads_nor_kernels_change_a_bit(
    minilm_data: Path, surroundings: dict[str, str]
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ALONE, str(minilm_data / minilm.FILE_NAME)],
        cwd=Path(__file__).parents[3],
        env={**os.environ, "PYTHONWARNINGS": "ignore", **surroundings},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == DIGEST, done.stderr


def test_the_published_model_says_nearly_the_same(minilm_published: Path, encoder: Encoder) -> None:
    found = minilm.read_published(minilm_published)
    tensors = read_tensors(found[minilm.TENSORS])
    vocabulary = found[minilm.VOCABULARY].decode().split("\n")
    model, alike = MiniLM(encoder), []
    for text in TEXTS:
        pieces = pieces_of_text(text)
        plain = plain_sentence(tensors, vocabulary, pieces)
        tokens = np.frombuffer(model.tokens(text)[:TOKENS], np.int8).astype(np.float64)
        alike += [cosine(plain, sentence(encoder, pieces)), cosine(plain @ axes(), tokens)]
    assert min(alike) >= LEAST_ALIKE
    assert sum(alike) / len(alike) >= 0.999


def test_the_compact_file_is_the_known_one_wherever_it_is_made(minilm_published: Path) -> None:
    found = minilm.read_published(minilm_published)
    vocabulary = found[minilm.VOCABULARY].decode().split("\n")
    whole = compact(read_tensors(found[minilm.TENSORS]), vocabulary)
    assert hashlib.sha256(whole).hexdigest() == minilm.FILE_SHA256


def test_shuffled_sums_give_the_same_bits(encoder: Encoder) -> None:
    """All 384 channels change places, in every sum and product of every layer."""
    order = np.random.Generator(np.random.PCG64(7)).permutation(WIDTH)
    other = shuffled(encoder, order)
    for text in TEXTS:
        pieces = pieces_of_text(text)
        expected = encoded(encoder, pieces)[order]
        assert encoded(other, pieces).tolist() == expected.tolist()


def test_shuffled_inputs_of_the_widest_product_give_the_same_bits(encoder: Encoder) -> None:
    source = np.random.Generator(np.random.PCG64(11))
    dense = encoder.layers[0].outer
    rows = (source.standard_normal((40, 4 * WIDTH)) * 3).astype(np.float32)
    order = source.permutation(WIDTH)
    everywhere = np.concatenate([WIDTH * block + order for block in range(4)])
    other = replace(dense, weights=np.ascontiguousarray(dense.weights[:, order]))
    found = minilm_layers._product(rows[:, everywhere], other)
    assert found.tobytes() == minilm_layers._product(rows, dense).tobytes()


def test_no_partial_sum_of_a_product_leaves_what_a_float_counts_exactly(encoder: Encoder) -> None:
    assert WIDTH * PEAK * STEPS < 2**24
    for layer in encoder.layers:
        for dense in (layer.attention, layer.joined, layer.inner, layer.outer):
            assert dense.weights.shape[1] == WIDTH
            assert np.abs(dense.weights).max() <= PEAK
            assert (dense.weights == np.rint(dense.weights)).all()


def test_what_is_alike_in_meaning_is_alike_in_numbers(minilm_model: MiniLM) -> None:
    def alike(left: str, right: str) -> float:
        vectors = [
            np.frombuffer(minilm_model.tokens(each)[:TOKENS], np.int8).astype(np.float64)
            for each in (left, right)
        ]
        return cosine(*vectors)

    asked = "How do I make my program start faster?"
    assert alike(asked, "Reduce the launch time of an application") > 0.5
    assert alike(asked, "The recipe needs two eggs and some flour") < 0.3


def test_a_vector_is_bytes_with_a_mark_and_without_words_nothing(minilm_model: MiniLM) -> None:
    found = minilm_model.tokens("hello")
    assert len(found) == TOKENS + len(MINILM)
    assert found.endswith(MINILM)
    numbers = np.frombuffer(found[:TOKENS], np.int8).astype(np.int64)
    assert abs(int((numbers * numbers).sum()) - TOKEN_REACH**2) < 5_000
    assert minilm_model.tokens("") == minilm_model.tokens(" \n\t") == b""


def test_a_long_text_is_read_at_its_beginning_and_its_end() -> None:
    first, *inside, last = pieces_of_text(" ".join(str(n % 10) for n in range(900)))
    known = len(token_names())
    assert (first, last) == (known, known + 1)
    assert len(inside) == LONGEST - 2
    assert inside == [token_names().index(str(n % 10)) for n in (*range(63), *range(837, 900))]


def test_a_word_without_pieces_is_read_as_unknown() -> None:
    unknown = len(token_names()) + SPECIAL.index("[UNK]")
    assert pieces_of_text("x" * 101)[1:-1] == [unknown]


def shuffled(encoder: Encoder, order: np.ndarray) -> Encoder:
    """Let the channels of the model change places: what it says is the same, in another order."""

    def norm(given: Norm) -> Norm:
        return Norm(given.weight[order], given.bias[order])

    def taking(given: Dense) -> Dense:
        return replace(given, weights=np.ascontiguousarray(given.weights[:, order]))

    def giving(given: Dense) -> Dense:
        weights = np.ascontiguousarray(given.weights[:, :, order])
        return Dense(weights, given.scales[:, order], given.bias[order])

    def layer(given: Layer) -> Layer:
        return Layer(
            attention=taking(given.attention),
            joined=giving(given.joined),
            joined_norm=norm(given.joined_norm),
            inner=taking(given.inner),
            outer=giving(given.outer),
            outer_norm=norm(given.outer_norm),
        )

    return Encoder(
        words=Rows(np.ascontiguousarray(encoder.words.whole[:, order]), encoder.words.scales),
        places=Rows(np.ascontiguousarray(encoder.places.whole[:, order]), encoder.places.scales),
        first_norm=norm(encoder.first_norm),
        layers=tuple(map(layer, encoder.layers)),
    )
