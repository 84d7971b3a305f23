"""How long a learned decision takes: from the text of a turn to the decision, on one core."""

from __future__ import annotations

import gc
import hashlib
import platform
import time

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace
from quality_sets import load, look

from pointsman.gateway.server import GC_THRESHOLDS
from pointsman.kernel.number import Billionths
from pointsman.signals.embedding import hashed_letters, static_tokens
from pointsman.storage.stores.patterns.evidence import EvidenceIndex, EvidenceLook
from pointsman.testing import a_policy, some_facts
from pointsman.turns.compiled import CompiledTurnPolicy, compile_policy
from pointsman.turns.decide import decide
from pointsman.turns.learning.evidence import Evidence, Outcomes
from pointsman.turns.learning.fingerprint import Surroundings, fingerprint_of
from pointsman.turns.learning.pattern import PatternSettings

SIZES = (1_000, 10_000, 100_000)
TURNS = 1_000
PASSES = 9
"""Other work on the machine makes some slower; the fastest is told."""

WARM_UP = 50
MODELS = ("acme:small", "acme:large")


def speeds() -> dict[str, object]:
    """Measure decisions over ledgers of different sizes, each turn a prompt not in them."""
    prompts = load("routellm_mmlu").prompts
    asked, recorded = prompts[:TURNS], prompts[TURNS:]
    settings = PatternSettings(
        k=0, method="evidence", min_sample_size=1, min_confidence=Billionths(0)
    )
    policy = a_policy("acme:large", *MODELS).policy
    ready = compile_policy(replace(policy, pattern=settings))
    index = EvidenceIndex()
    found = {}
    for size in SIZES:
        _grow(index, recorded, size)
        found[str(size)] = _measure_decisions(index, ready, asked)
    return {
        "conditions": {
            "machine": platform.processor() or platform.machine(),
            "python": platform.python_version(),
            "numpy": np.__version__,
            "threads": 1,
            "turns": TURNS,
            "passes": PASSES,
            "mean_characters": round(sum(map(len, asked)) / TURNS),
        },
        "rows": found,
    }


def _grow(index: EvidenceIndex, prompts: tuple[str, ...], size: int) -> None:
    start = len(index)
    fresh = [_variant(prompts, number) for number in range(start, size)]
    index.add(fresh)
    index.recentre()
    index.replace(
        (
            each.id,
            MODELS[number % 2],
            Outcomes.of(1, 1_000 * (number % 2), 1, 10**9 * (number % 3 > 0)),
        )
        for number, each in enumerate(fresh, start)
    )


def _variant(prompts: tuple[str, ...], number: int) -> EvidenceLook:
    """Return a prompt, or one like it once all are used: part of its words, said again."""
    text = prompts[number % len(prompts)]
    turn = number // len(prompts)
    if turn:
        words = text.split()
        text = " ".join(words[turn % 7 :: 1 + turn % 3] + words[: turn % 11])
    found = look(text)
    name = hashlib.sha256(f"{number}".encode()).hexdigest()
    return replace(found, id=f"sha256:{name}")


def _measure_decisions(
    index: EvidenceIndex, ready: CompiledTurnPolicy, asked: tuple[str, ...]
) -> dict[str, float]:
    for text in asked[:WARM_UP]:
        _decide(index, ready, text)
    _settle()
    spent, kept = min((_pass(index, ready, asked) for _ in range(PASSES)), key=lambda each: each[0])
    return {
        "decisions_per_second_of_cpu": round(len(asked) / spent),
        "p50_ms": round(float(np.quantile(kept, 0.5)), 3),
        "p99_ms": round(float(np.quantile(kept, 0.99)), 3),
    }


def _pass(
    index: EvidenceIndex, ready: CompiledTurnPolicy, asked: tuple[str, ...]
) -> tuple[float, npt.NDArray[np.float64]]:
    """Return the CPU seconds of all decisions, and how long each took on the clock."""
    times = []
    began = time.thread_time()
    for text in asked:
        start = time.perf_counter()
        _decide(index, ready, text)
        times.append(1e3 * (time.perf_counter() - start))
    return time.thread_time() - began, np.array(times)


def _settle() -> None:
    """Keep the collector away from what stays, as the gateway does before it serves."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


def _decide(index: EvidenceIndex, ready: CompiledTurnPolicy, text: str) -> None:
    near = _evidence(index, text)
    decide(ready, replace(some_facts(text), pattern_evidence=near))


def _evidence(index: EvidenceIndex, text: str) -> Evidence:
    around = fingerprint_of(text, Surroundings())
    return index.evidence(index.look(around, hashed_letters(text), static_tokens(text)))
