"""How good learned routing is, on public outcomes: both methods, random, zero router and oracle.

Writes bench/results/quality.json, quality.md and quality.svg: the same bytes every time. How long a
decision takes is up to the machine, and stands in quality_speed.json. `--quick` measures a ninth.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from quality_measures import aiq, apgr, cpt, curve, hull, interval
from quality_methods import (
    Estimates,
    evidence_estimates,
    evidence_index,
    nearest_choices,
    nearest_estimates,
    nearest_rows,
)
from quality_page import page, picture
from quality_sets import (
    Known,
    Places,
    Reals,
    Split,
    large_splits,
    load,
    mostly,
    served_models,
    splits,
)
from quality_speed import speeds

from pointsman.kernel.number import SCALE, Billionths
from pointsman.storage.stores.patterns.evidence import EvidenceIndex
from pointsman.turns.learning.calibration import MOST_TRIED, TriedLook, threshold
from pointsman.turns.learning.evidence import COMPARED, estimate
from pointsman.turns.learning.pattern import Target

RESULTS = Path(__file__).parent / "results"
ZERO_COST = 1e-12
KNOBS = np.r_[0.0, np.geomspace(1, 1e6, 121)]
WEIGHTS = [Billionths(SCALE * n // 20) for n in range(21)]
SHARES = (200_000_000, 500_000_000, 800_000_000)


def main() -> None:
    """Measure, and write the figures."""
    is_quick = "--quick" in sys.argv
    found: dict[str, object] = {}
    curves: dict[str, dict[str, list[list[float]]]] = {}
    for name in ("routellm_mmlu", "routellm_gsm8k"):
        known = load(name)
        found[name], curves[name] = two_models(known, splits(known)[: 1 if is_quick else None])
        if name == "routellm_mmlu":
            large = large_splits(known)[: 1 if is_quick else None]
            found[f"{name}_large"] = large_ledgers(known, large)
    known = load("routerbench_subset")
    name = known.name
    found[name], curves[name] = many_models(known, splits(known)[: 1 if is_quick else None])
    if is_quick:
        print(json.dumps(found, indent=1))
        return
    RESULTS.mkdir(exist_ok=True)
    _write("quality.json", json.dumps({"sets": found, "curves": curves}, indent=1) + "\n")
    _write("quality.md", page(found))
    picture(curves, RESULTS / "quality.svg")
    _write("quality_speed.json", json.dumps(speeds(), indent=1) + "\n")


def two_models(
    known: Known, chosen: list[Split]
) -> tuple[dict[str, object], dict[str, list[list[float]]]]:
    """Measure a set with a weak and a strong model."""
    scores: dict[str, list[Reals]] = {}
    realised: list[list[float]] = []
    for split in chosen:
        ways = logs_of(known, split)
        indexes = [evidence_index(known, split, served) for served in ways.values()]
        gains = [gain(each) for each in evidence_estimates(known, split, indexes)]
        for way, gained in zip(ways, gains, strict=True):
            scores.setdefault(f"evidence, {way}", []).append(gained)
        realised.append(_realised_shares(indexes[0], gains[0]))
        logs = {way: ways[way] for way in ("logged", "full")}
        found = nearest_rows(known, split, [*logs.values()])
        for way, rows in zip(logs, found, strict=True):
            gained = gain(nearest_estimates(known, rows))
            scores.setdefault(f"nearest, {way}", []).append(gained)
        print(known.name, len(realised), "of", len(chosen), flush=True)
        weak, strong = known.outcomes[split.test].T
        scores.setdefault("random", []).append(np.zeros(len(split.test)))
        scores.setdefault("oracle", []).append(strong - weak)
    table = {way: two_model_row(known, chosen, each) for way, each in scores.items()}
    shares = np.mean(realised, axis=0).tolist()
    calibrated = {f"{s / SCALE:.1f}": round(r, 4) for s, r in zip(SHARES, shares, strict=True)}
    first = chosen[0]
    weak, strong = known.outcomes[first.test].T
    drawn = {way: _thin_curve(curve(each[0], weak, strong)) for way, each in scores.items()}
    about = {
        "prompts": len(known.prompts),
        "ledgers": len(chosen),
        "ledger_rows": len(first.ledger),
        "weak": known.models[0],
        "strong": known.models[1],
        "routers": table,
        "strong_share_asked_and_realised": calibrated,
    }
    return about, drawn


def large_ledgers(known: Known, chosen: list[Split]) -> dict[str, object]:
    """Measure ledgers of more looks than are compared: with the choice by signs, and without it."""
    scores: dict[str, list[Reals]] = {}
    found_near: list[float] = []
    for split in chosen:
        logs: dict[str, Places | None] = {"logged": served_models(known, split.seed), "full": None}
        for told, compared in (("", COMPARED), (", all compared", len(split.ledger))):
            indexes = [evidence_index(known, split, each, compared) for each in logs.values()]
            estimates = evidence_estimates(known, split, indexes)
            for way, each in zip(logs, estimates, strict=True):
                scores.setdefault(f"evidence, {way}{told}", []).append(gain(each))
            if told:
                found_near.append(_near_share(known, split, indexes[0]))
        print(known.name, "large", len(found_near), "of", len(chosen), flush=True)
    return {
        "prompts": len(known.prompts),
        "ledgers": len(chosen),
        "ledger_rows": len(chosen[0].ledger),
        "nearest_found": round(float(np.mean(found_near)), 4),
        "routers": {way: two_model_row(known, chosen, each) for way, each in scores.items()},
    }


def _near_share(known: Known, split: Split, every: EvidenceIndex) -> float:
    """Return which share of the nearest looks the choice by signs finds, on a hundred prompts."""
    few = evidence_index(known, split, served_models(known, split.seed))
    shares = []
    for place in split.test[:: max(1, len(split.test) // 100)]:
        each = known.looks[place]
        look = every.look(each.fingerprint, each.letters, each.tokens)
        near, found = set(every.near(look)[0].tolist()), set(few.near(look)[0].tolist())
        shares.append(len(near & found) / len(near))
    return float(np.mean(shares))


def logs_of(known: Known, split: Split) -> dict[str, Places | None]:
    ways: dict[str, Places | None] = {"logged": served_models(known, split.seed), "full": None}
    if known.name == "routellm_mmlu":
        ways["90 % strong"] = mostly(known, split.seed, 1, 90)
    return ways


def gain(found: Estimates) -> Reals:
    return found.success[:, 1] - found.success[:, 0]


def _realised_shares(index: EvidenceIndex, gains: Reals) -> list[float]:
    """Calibrate shares of strong calls on the ledger alone; return the shares on the test."""
    places = sorted(range(len(index)), key=index.ids.__getitem__)[:MOST_TRIED]
    tried = [
        TriedLook([*map(estimate, index.evidence(index.look_at(place), without=place).models)])
        for place in places
    ]
    found = []
    for share in SHARES:
        limit = threshold(tried, Target(strong_share=Billionths(share)), 0)
        # The two models are one unit of cost apart: what a unit must buy is the gain to reach.
        per_unit = (limit.success_per_usd if limit else 0) / 10**6 / SCALE
        found.append(float((gains > per_unit).mean()))
    return found


def two_model_row(known: Known, chosen: list[Split], scores: list[Reals]) -> dict[str, object]:
    rows = []
    for split, score in zip(chosen, scores, strict=True):
        weak, strong = known.outcomes[split.test].T
        rows.append([
            apgr(score, weak, strong),
            100 * cpt(score, weak, strong, 0.5),
            100 * cpt(score, weak, strong, 0.8),
        ])  # fmt: skip
    weak, strong = known.outcomes[chosen[0].test].T
    low, high = interval(
        len(weak), lambda drawn: apgr(scores[0][drawn], weak[drawn], strong[drawn])
    )
    means = np.mean(rows, axis=0)
    half = (high - low) / 2
    return {
        "apgr": round(means[0], 4),
        "sd": round(float(np.std([row[0] for row in rows])), 4),
        "interval": [round(means[0] - half, 4), round(means[0] + half, 4)],
        "cpt50": round(means[1], 2),
        "cpt80": round(means[2], 2),
    }


def many_models(
    known: Known, chosen: list[Split]
) -> tuple[dict[str, object], dict[str, list[list[float]]]]:
    """Measure a set with many models and their costs."""
    found: dict[str, list[list[float]]] = {}
    drawn: dict[str, list[list[float]]] = {}
    for split in chosen:
        points = _points(known, split)
        outcomes, costs = _test(known, split)
        low, high = float(costs.mean(axis=0).min()), float(costs.mean(axis=0).max())
        for way, (choices, anchored) in points.items():
            paid = _paid(choices, outcomes, costs) + anchored
            found.setdefault(way, []).append([aiq(paid, low, high), max(q for _, q in paid)])
            drawn.setdefault(way, [[*pair] for pair in hull(paid)])
    intervals = _many_intervals(known, chosen[0])
    table = {
        way: {
            "aiq": round(float(np.mean([row[0] for row in rows])), 4),
            "sd": round(float(np.std([row[0] for row in rows])), 4),
            "half_interval": intervals.get(way),
            "best_quality": round(float(np.mean([row[1] for row in rows])), 4),
        }
        for way, rows in found.items()
    }
    about = {
        "prompts": len(known.prompts),
        "ledgers": len(chosen),
        "ledger_rows": len(chosen[0].ledger),
        "models": len(known.models),
        "routers": table,
    }
    return about, drawn


Choices = list[Places]
Points = list[tuple[float, float]]


def _points(known: Known, split: Split) -> dict[str, tuple[Choices, Points]]:
    """Return what each router chooses under every setting of its knob.

    Every router may also send all to the cheapest single model, where the scale begins.
    """
    outcomes, costs = _test(known, split)
    count = len(outcomes)
    cheapest = int(costs.mean(axis=0).argmin())
    anchor = [(float(costs[:, cheapest].mean()), float(outcomes[:, cheapest].mean()))]
    singles = [np.full(count, model) for model in range(len(known.models))]
    points: dict[str, tuple[Choices, Points]] = {"zero router": (singles, [])}
    logs: dict[str, Places | None] = {"logged": served_models(known, split.seed), "full": None}
    indexes = [evidence_index(known, split, served) for served in logs.values()]
    estimates = evidence_estimates(known, split, indexes)
    nearest = nearest_rows(known, split, [*logs.values()])
    for way, expected, rows in zip(logs, estimates, nearest, strict=True):
        swept = [(expected.success - knob * expected.cost).argmax(axis=1) for knob in KNOBS]
        points[f"evidence, {way}"] = (swept, anchor)
        swept = [nearest_choices(known, rows, weight) for weight in WEIGHTS]
        points[f"nearest, {way}"] = (swept, anchor)
    ideal = [(outcomes - knob * costs).argmax(axis=1) for knob in np.r_[ZERO_COST, KNOBS[1:]]]
    points["oracle"] = (ideal, anchor)
    return points


def _many_intervals(known: Known, split: Split) -> dict[str, float]:
    outcomes, costs = _test(known, split)
    low, high = float(costs.mean(axis=0).min()), float(costs.mean(axis=0).max())
    found = {}
    for way, (choices, _) in _points(known, split).items():

        def measure_drawn(drawn: Places, choices: Choices = choices) -> float:
            again = [choice[drawn] for choice in choices]
            paid = _paid(again, outcomes[drawn], costs[drawn])
            cheap = int(costs[drawn].mean(axis=0).argmin())
            anchor = (float(costs[drawn, cheap].mean()), float(outcomes[drawn, cheap].mean()))
            return aiq([*paid, anchor], low, high)

        bottom, top = interval(len(outcomes), measure_drawn)
        found[way] = round((top - bottom) / 2, 4)
    return found


def _test(known: Known, split: Split) -> tuple[Reals, Reals]:
    costs = known.costs
    if costs is None:
        raise SystemExit(f"{known.name} has no costs")
    return known.outcomes[split.test], costs[split.test]


def _paid(choices: Choices, outcomes: Reals, costs: Reals) -> Points:
    rows = np.arange(len(outcomes))
    return [
        (float(costs[rows, choice].mean()), float(outcomes[rows, choice].mean()))
        for choice in choices
    ]


def _thin_curve(drawn: tuple[Reals, Reals]) -> list[list[float]]:
    shares, gaps = drawn
    grid = np.linspace(0, 1, 101)
    found = np.interp(grid, shares, gaps)
    return [[round(float(x), 4), round(float(y), 4)] for x, y in zip(grid, found, strict=True)]


def _write(name: str, text: str) -> None:
    (RESULTS / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
