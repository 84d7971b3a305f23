"""What the vectors of MiniLM add to learned routing, on the sets and splits of `quality`.

Writes bench/results/quality_minilm.json and quality_minilm.md: the same bytes every time. The
processor time that a text takes is up to the machine, and stands in quality_minilm_speed.json.
Needs the weights: `pointsman local install minilm`. Vectors are kept in build/minilm-vectors.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import numpy as np
from msgspec.structs import replace
from quality import gain, logs_of, two_model_row
from quality_measures import apgr, interval
from quality_methods import evidence_estimates, evidence_index
from quality_page import TITLES, page
from quality_sets import Known, Reals, Split, load, splits

from pointsman.errors import WeightsError
from pointsman.providers.embedded import minilm
from pointsman.signals.minilm import MiniLM, axes, pieces_of_text
from pointsman.turns.learning.evidence_look import MINILM, TOKENS

RESULTS = Path(__file__).parent / "results"
KEPT = Path(__file__).parents[1] / "build/minilm-vectors"
SETS = ("routellm_mmlu", "routellm_gsm8k")
WAYS = ("logged", "full")
SHORT = "Rename the variable `count` to `total` in this function."
TIMES = 20


def main() -> None:
    """Measure, and write what was found."""
    try:
        model = minilm.load_minilm()
    except WeightsError as error:
        sys.exit(f"nothing is measured: {error.message} ({error.hint})")
    found: dict[str, dict[str, object]] = {}
    for name in SETS:
        known = load(name)
        found[name] = compared(known, with_minilm(known, model), splits(known))
    _write("quality_minilm.json", json.dumps(found, indent=1) + "\n")
    _write("quality_minilm.md", told(found))
    _write("quality_minilm_speed.json", json.dumps(speeds(model), indent=1) + "\n")


def told(found: Mapping[str, Mapping[str, object]]) -> str:
    """Give the figures as Markdown, with what MiniLM gains on the same prompts."""
    lines = [page(found), "## What MiniLM gains", ""]
    lines += ["| set | ledger | APGR gained | 95 % interval | ledgers it is better on |"]
    lines += ["|---|---|---|---|---|"]
    for name, about in found.items():
        for way, row in cast("Mapping[str, Mapping[str, object]]", about["gains"]).items():
            low, high = cast("list[float]", row["interval"])
            better = f"{row['ledgers_better']} of {about['ledgers']}"
            gained = f"{row['apgr']:+.3f} | {low:+.3f} to {high:+.3f}"
            lines.append(f"| {TITLES[name]} | {way} | {gained} | {better} |")
    return "\n".join([*lines, ""])


def with_minilm(known: Known, model: MiniLM) -> Known:
    """Give a set whose looks have the tokens of MiniLM."""
    tokens = kept_tokens(known.name, known.prompts, model)
    looks = [replace(look, tokens=own) for look, own in zip(known.looks, tokens, strict=True)]
    return replace(known, looks=tuple(looks))


def kept_tokens(name: str, prompts: Sequence[str], model: MiniLM) -> list[bytes]:
    """Give the tokens of prompts, from the file they were kept in where there is one."""
    made_from = [minilm.FILE_SHA256.encode(), axes().tobytes(), MINILM, *map(str.encode, prompts)]
    digest = hashlib.sha256(b"\0".join(made_from)).hexdigest()
    path = KEPT / f"{name}-{digest[:16]}.i8"
    if not path.exists():
        made = []
        for place, text in enumerate(prompts):
            made.append(model.tokens(text)[:TOKENS] or bytes(TOKENS))
            if place % 1_000 == 0:
                print(name, place, "of", len(prompts), "read", flush=True)
        KEPT.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(made))
    whole = path.read_bytes()
    return [whole[at : at + TOKENS] for at in range(0, len(whole), TOKENS)]


def compared(known: Known, other: Known, chosen: list[Split]) -> dict[str, object]:
    """Measure the method `evidence` with both kinds of tokens, and what the one gains."""
    scores: dict[str, list[Reals]] = {}
    for number, split in enumerate(chosen, 1):
        logs = logs_of(known, split)
        for told, each in (("evidence", known), ("evidence with MiniLM", other)):
            indexes = [evidence_index(each, split, logs[way]) for way in WAYS]
            for way, found in zip(WAYS, evidence_estimates(each, split, indexes), strict=True):
                scores.setdefault(f"{told}, {way}", []).append(gain(found))
        print(known.name, number, "of", len(chosen), flush=True)
    rows = {way: two_model_row(known, chosen, each) for way, each in scores.items()}
    return {
        "prompts": len(known.prompts),
        "ledgers": len(chosen),
        "ledger_rows": len(chosen[0].ledger),
        "routers": rows,
        "gains": {way: _gained(known, chosen, scores, way) for way in WAYS},
    }


def _gained(
    known: Known, chosen: list[Split], scores: dict[str, list[Reals]], way: str
) -> dict[str, object]:
    """Give how much APGR MiniLM adds on the same prompts, with the interval of prompts redrawn."""
    before, after = scores[f"evidence, {way}"], scores[f"evidence with MiniLM, {way}"]
    gained = []
    for split, old, new in zip(chosen, before, after, strict=True):
        weak, strong = known.outcomes[split.test].T
        gained.append(apgr(new, weak, strong) - apgr(old, weak, strong))
    weak, strong = known.outcomes[chosen[0].test].T
    low, high = interval(
        len(weak),
        lambda drawn: (
            apgr(after[0][drawn], weak[drawn], strong[drawn])
            - apgr(before[0][drawn], weak[drawn], strong[drawn])
        ),
    )
    mean, half = float(np.mean(gained)), (high - low) / 2
    return {
        "apgr": round(mean, 4),
        "interval": [round(mean - half, 4), round(mean + half, 4)],
        "ledgers_better": sum(each > 0 for each in gained),
    }


def speeds(model: MiniLM) -> dict[str, object]:
    """Measure the processor time of a short text, and of one of the most pieces that are read."""
    began = time.process_time()
    minilm.load_minilm()
    loading = time.process_time() - began
    found: dict[str, object] = {"load_ms": round(1_000 * loading, 1)}
    for name, text in (("short", SHORT), ("long", SHORT * 20)):
        best = min(_taken(model, text) for _ in range(TIMES))
        found[name] = {"pieces": len(pieces_of_text(text)), "cpu_ms": round(1_000 * best, 1)}
    return found


def _taken(model: MiniLM, text: str) -> float:
    began = time.process_time()
    model.tokens(text)
    return time.process_time() - began


def _write(name: str, text: str) -> None:
    (RESULTS / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
