"""Texts of many kinds, and a plain forward pass of the model to compare with."""

from __future__ import annotations

from math import erf, sqrt

import numpy as np
import numpy.typing as npt

from pointsman.signals.embedding import token_names
from pointsman.signals.minilm_file import SPECIAL, Tensors

TEXTS = (
    "hello",
    "Rename the variable `count` to `total` in this function.",
    "Prove that the square root of two is irrational.",
    "Which of these is NOT a cause of the First World War?",
    "def mean(numbers):\n    return sum(numbers) / len(numbers)\n",
    "SELECT name, sum(price) FROM orders GROUP BY name ORDER BY 2 DESC;",
    "Natalia sold clips to 48 of her friends in April, and half as many in May. How many in all?",
    "Translate into French: the weather is fine today.",
    "Résumé für die Straße: naïve Übersetzung, façade, smörgåsbord.",
    "翻译成英文 今天天气很好。",
    "😀 😀 🚀",
    "a",
    "... !!! ???",
    "https://example.org/path?query=1&other=two#part",
    "pneumonoultramicroscopicsilicovolcanoconiosis",
    "x" * 150,
    "The quick brown fox jumps over the lazy dog. " * 30,
    "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20",
    "Traceback (most recent call last): KeyError: 'id' in line 42 of reader.py",
    "Write a haiku about the autumn leaves, then explain its metre in two sentences.",
)

Reals = npt.NDArray[np.float64]

_ERF = np.vectorize(erf)


def plain_sentence(tensors: Tensors, vocabulary: list[str], pieces: list[int]) -> Reals:
    """Give the mean of the last layer as the published model has it, in doubles throughout."""
    numbers = {token: number for number, token in enumerate(vocabulary)}
    names = (*token_names(), *SPECIAL)
    read = _Reading(tensors)
    hidden = read("embeddings.word_embeddings.weight")[[numbers[names[each]] for each in pieces]]
    hidden = hidden + read("embeddings.position_embeddings.weight")[: len(pieces)]
    hidden = hidden + read("embeddings.token_type_embeddings.weight")[0]
    hidden = read.norm("embeddings.LayerNorm", hidden)
    for layer in range(6):
        name = f"encoder.layer.{layer}"
        looked = read.dense(f"{name}.attention.output.dense", read.attention(name, hidden))
        hidden = read.norm(f"{name}.attention.output.LayerNorm", hidden + looked)
        inner = read.dense(f"{name}.intermediate.dense", hidden)
        inner = inner * 0.5 * (1 + _ERF(inner / sqrt(2)))
        outer = read.dense(f"{name}.output.dense", inner)
        hidden = read.norm(f"{name}.output.LayerNorm", hidden + outer)
    found: Reals = hidden.mean(axis=0)
    return found


class _Reading:
    def __init__(self, tensors: Tensors) -> None:
        self._tensors = tensors

    def __call__(self, name: str) -> Reals:
        return self._tensors[name].astype(np.float64)

    def dense(self, name: str, rows: Reals) -> Reals:
        found: Reals = rows @ self(f"{name}.weight").T + self(f"{name}.bias")
        return found

    def norm(self, name: str, rows: Reals) -> Reals:
        off = rows - rows.mean(axis=1, keepdims=True)
        length = np.sqrt((off * off).mean(axis=1, keepdims=True) + 1e-12)
        found: Reals = off / length * self(f"{name}.weight") + self(f"{name}.bias")
        return found

    def attention(self, name: str, hidden: Reals) -> Reals:
        queries, keys, values = (
            self.dense(f"{name}.attention.self.{part}", hidden)
            .reshape(len(hidden), 12, 32)
            .transpose(1, 0, 2)
            for part in ("query", "key", "value")
        )
        alike = queries @ keys.transpose(0, 2, 1) / sqrt(32)
        weights = np.exp(alike - alike.max(axis=2, keepdims=True))
        weights = weights / weights.sum(axis=2, keepdims=True)
        return (weights @ values).transpose(1, 0, 2).reshape(len(hidden), 384)


def cosine(left: Reals, right: Reals) -> float:
    """Give how alike two vectors are."""
    return float(left @ right / sqrt(float(left @ left) * float(right @ right)))
