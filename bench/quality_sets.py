"""The public outcomes that learned routing is measured on, and how they are split."""

from __future__ import annotations

import hashlib
import json
import lzma
from pathlib import Path

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from pointsman.signals.embedding import hashed_letters, static_tokens
from pointsman.storage.stores.patterns.evidence import EvidenceLook
from pointsman.turns.learning.fingerprint import Surroundings, fingerprint_of

DATA = Path(__file__).parent / "data"
NANOS = 10**9

Reals = npt.NDArray[np.float64]
Places = npt.NDArray[np.intp]


class Known(Struct, frozen=True):
    """One set: prompts, what each model did with each, and what that cost in dollars."""

    name: str
    models: tuple[str, ...]
    prompts: tuple[str, ...]
    groups: tuple[str, ...]
    outcomes: Reals
    costs: Reals | None
    looks: tuple[EvidenceLook, ...]


class Split(Struct, frozen=True):
    """A ledger and a test of one set; `seed` also says which model was logged."""

    seed: int
    ledger: Places
    test: Places


def load(name: str) -> Known:
    """Read a set and take the looks of its prompts."""
    with lzma.open(DATA / f"{name}.jsonl.xz", "rt", encoding="utf-8") as lines:
        head, *rows = map(json.loads, lines)
    prompts = tuple(row[0] for row in rows)
    costs = np.array([row[3] for row in rows], float) / NANOS if len(rows[0]) > 3 else None
    return Known(
        name,
        tuple(head["models"]),
        prompts,
        tuple(row[1] for row in rows),
        np.array([row[2] for row in rows], float),
        costs,
        tuple(look(text) for text in prompts),
    )


def look(text: str) -> EvidenceLook:
    """Take the look of a prompt, under a name of its own."""
    name = "sha256:" + hashlib.sha256(text.encode()).hexdigest()
    around = fingerprint_of(text, Surroundings())
    return EvidenceLook(name, around, hashed_letters(text), static_tokens(text))


def dealt(known: Known, seed: int, parts: int) -> Places:
    """Deal the distinct prompts of each group to parts, in the order of a salted hash."""
    groups: dict[str, set[str]] = {}
    for prompt, group in zip(known.prompts, known.groups, strict=True):
        groups.setdefault(group, set()).add(prompt)
    part: dict[tuple[str, str], int] = {}
    for group, prompts in groups.items():
        ordered = sorted(prompts, key=lambda text: _digest(f"split:{seed}:{text}"))
        part |= {(group, text): place % parts for place, text in enumerate(ordered)}
    return np.array([part[g, p] for p, g in zip(known.prompts, known.groups, strict=True)])


def served_models(known: Known, seed: int) -> Places:
    """Return the one model that served each prompt."""
    count = len(known.models)
    found = (int.from_bytes(_digest(f"logged:{seed}:{text}")) % count for text in known.prompts)
    return np.array([*found])


def mostly(known: Known, seed: int, model: int, share: int) -> Places:
    """Return a log in which one of two models served `share` per cent, the other the rest."""
    draws = [int.from_bytes(_digest(f"mostly:{seed}:{text}")) % 100 for text in known.prompts]
    return np.where(np.array(draws) < share, model, 1 - model)


def splits(known: Known) -> list[Split]:
    """Return the splits of the protocol."""
    if known.name == "routellm_mmlu":
        part = dealt(known, 0, 9)
        return [Split(0, np.flatnonzero(part == n), np.flatnonzero(part != n)) for n in range(9)]
    if known.name == "routellm_gsm8k":
        dealings = [(seed, dealt(known, seed, 2)) for seed in range(10)]
        return [
            Split(seed, np.flatnonzero(part == n), np.flatnonzero(part != n))
            for seed, part in dealings
            for n in range(2)
        ]
    dealings = [(seed, dealt(known, seed, 10)) for seed in range(5)]
    return [
        Split(seed, np.flatnonzero(part < 7), np.flatnonzero(part >= 7)) for seed, part in dealings
    ]


def large_splits(known: Known) -> list[Split]:
    """Return three splits of MMLU with large ledgers: five of its nine parts."""
    part = dealt(known, 0, 9)
    chosen = [[(first + n) % 9 for n in range(5)] for first in (0, 3, 6)]
    return [
        Split(0, np.flatnonzero(np.isin(part, parts)), np.flatnonzero(~np.isin(part, parts)))
        for parts in chosen
    ]


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
