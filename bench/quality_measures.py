"""APGR and CPT as RouteLLM defines them, AIQ as RouterBench does; ties are averaged exactly."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from quality_sets import Places, Reals

RESAMPLES = 200


def curve(scores: Reals, weak: Reals, strong: Reals) -> tuple[Reals, Reals]:
    """Return the part of the gap that is recovered by the share of strong calls.

    Prompts that score the same go over together.
    """
    order = np.argsort(-scores, kind="stable")
    ranked, gains = scores[order], (strong - weak)[order]
    starts = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]])
    counts = np.diff(np.r_[starts, len(ranked)])
    shares = np.r_[0.0, np.cumsum(counts)] / len(ranked)
    return shares, np.r_[0.0, np.cumsum(np.add.reduceat(gains, starts))] / gains.sum()


def apgr(scores: Reals, weak: Reals, strong: Reals) -> float:
    """Return the mean part of the gap that is recovered over all shares of strong calls."""
    shares, gaps = curve(scores, weak, strong)
    return float(np.trapezoid(gaps, shares))


def cpt(scores: Reals, weak: Reals, strong: Reals, gap: float) -> float:
    """Return the share of strong calls at which this part of the gap is recovered first."""
    shares, gaps = curve(scores, weak, strong)
    place = int(np.argmax(gaps >= gap))
    low, high = gaps[place - 1], gaps[place]
    return float(
        shares[place - 1] + (gap - low) / (high - low) * (shares[place] - shares[place - 1])
    )


def hull(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the upper hull of (cost, quality), as far as quality rises: mixing is allowed."""
    found: list[tuple[float, float]] = []
    for cost, quality in sorted(points):
        while len(found) > 1 and _is_below(found[-2], found[-1], (cost, quality)):
            found.pop()
        found.append((cost, quality))
    best = max(range(len(found)), key=lambda place: found[place][1])
    return found[: best + 1]


def aiq(points: Sequence[tuple[float, float]], low: float, high: float) -> float:
    """Return the mean quality over the costs from the cheapest to the dearest single model."""
    costs, qualities = np.array(hull(points)).T
    inside = [cost for cost in costs.tolist() if low < cost < high]
    grid = np.array([low, *inside, high])
    return float(np.trapezoid(np.interp(grid, costs, qualities), grid) / (high - low))


def interval(count: int, measure: Callable[[Places], float]) -> tuple[float, float]:
    """Return the 95 % interval of a measure over prompts drawn again, from a fixed seed."""
    drawn = np.random.Generator(np.random.PCG64(0))
    found = sorted(measure(drawn.integers(0, count, count)) for _ in range(RESAMPLES))
    return found[RESAMPLES // 40], found[-1 - RESAMPLES // 40]


def _is_below(
    left: tuple[float, float], middle: tuple[float, float], right: tuple[float, float]
) -> bool:
    rise = (middle[1] - left[1]) * (right[0] - left[0])
    return rise <= (right[1] - left[1]) * (middle[0] - left[0])
