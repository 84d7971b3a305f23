"""The 95 % intervals of a backtest against the truth, on public outcomes of eleven models.

In each life a policy that is drawn at random logs a sample of RouterBench: one model answers each
prompt, and only its outcome and cost are on record. Another policy, drawn at random too, is then
forecast, and the truth looked up for the turns that the forecast does not leave out. Logging
policies choose a model by draw alone (`drawn`), or with other odds for long prompts (`by_size`).

Writes `evidence/forecast.json`; fails when an interval's coverage is not between 93 and 97 %.
"""

from __future__ import annotations

import argparse
import json
import lzma
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from campaigns.evidence import write

from pointsman.audit.backtest.forecast import Forecast, find_support, make_forecast
from pointsman.audit.backtest.forecast_tally import ForecastTally
from pointsman.audit.backtest.model_runs import ModelRun
from pointsman.audit.backtest.run_sums import likeness_of
from pointsman.kernel.number import MicroUsd
from pointsman.turns.facts import TurnFacts
from pointsman.turns.registry.catalogue import NOTHING_KNOWN
from pointsman.turns.registry.models import Model
from pointsman.turns.registry.prices import Price

DATA = Path(__file__).parents[1] / "bench" / "data" / "routerbench_subset.jsonl.xz"
LIVES = 500
SAMPLE = 1_200
LEAST, MOST = 0.93, 0.97
Row = tuple[str, str, list[float], list[int]]


def read_rows() -> tuple[list[str], list[Row]]:
    """Read the models, and the prompts with the outcome and the cost of each model."""
    with lzma.open(DATA, "rt") as lines:
        head = json.loads(next(lines))
        return head["models"], [tuple(json.loads(line)) for line in lines]


def one_life(seed: int, models: list[str], rows: list[Row], kind: str) -> Counter[str]:
    """Log a sample under one policy, forecast another, and count which intervals hold the truth."""
    draw = random.Random(f"{kind} {seed}")
    names = draw.sample(range(len(models)), 3)
    known = {models[name]: _model() for name in names}
    odds = [[draw.uniform(0.2, 1) for _ in names] for _ in range(2)]
    split, groups = draw.randrange(150, 700), sorted({row[1] for row in rows})
    target = {group: draw.choice(names) for group in groups}
    other = draw.choice(names)
    tally, truth = ForecastTally(known), Counter[tuple[str, Any]]()
    kept = Counter[str]()
    for prompt, group, scores, costs in draw.sample(rows, SAMPLE):
        side = int(len(prompt) > split) if kind == "by_size" else 0
        (then,) = draw.choices(names, odds[side])
        now = target[group] if len(prompt) % 2 else other
        way = f"rule {group}" if len(prompt) % 2 else "global_default"
        facts = TurnFacts("", estimated_input_tokens={"*": len(prompt) // 4})
        micro = MicroUsd(costs[then] // 1000)
        run = ModelRun(
            models[then],
            (0, 0, 0, micro),
            micro,
            elapsed_ms=1,
            is_answered=True,
            score=round(scores[then] * 1000),
        )
        tally.add(facts, way, (models[then], models[now]), (run,), known)
        said = {"cost_usd": costs[now] // 1000, "score": round(scores[now] * 1000)}
        for name, value in said.items():
            if then == now:
                kept[name] += value
            else:
                truth[name, (models[now], likeness_of(facts, way))] += value
    sums = tally.sums()
    for group in find_support([sums])[0]:
        for name in ("cost_usd", "score"):
            kept[name] += truth[name, (group.model, group.alike)]
    return _count(make_forecast([sums], known), kept)


def _count(found: Forecast, truth: Counter[str]) -> Counter[str]:
    support = found.support
    told = Counter[str](
        told=1,
        estimated=support.estimated,
        left_out=sum(support.unsupported.values()),
        turns=SAMPLE,
    )
    for each in found.measures:
        if each.name in truth:
            scale = 1e6 if each.name == "cost_usd" else 1e3 * each.turns
            told[f"{each.name}.held"] += each.low <= truth[each.name] / scale <= each.high
    return told


def _model() -> Model:
    """Return a model whose answers cost a micro-dollar for each of their tokens."""
    price = Price(MicroUsd(0), MicroUsd(1_000_000))
    return Model(
        location="cloud",
        tier=None,
        can_delegate=False,
        aliases=(),
        capabilities=NOTHING_KNOWN,
        price=price,
    )


def main() -> None:
    """Live so many lives of each kind, and write how often the intervals held."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lives", type=int, default=LIVES)
    lives = parser.parse_args().lives
    models, rows = read_rows()
    value: dict[str, Any] = {"lives": lives, "sample": SAMPLE}
    wrong = []
    for kind in ("drawn", "by_size"):
        counts = Counter[str]()
        for seed in range(lives):
            counts += one_life(seed, models, rows, kind)
        told = counts["told"]
        coverage = {name: round(counts[f"{name}.held"] / told, 4) for name in ("cost_usd", "score")}
        shares = {
            name: round(counts[name] / counts["turns"], 4) for name in ("estimated", "left_out")
        }
        value[kind] = {**shares, "coverage": coverage}
        wrong += [f"{kind} {k}" for k, share in coverage.items() if not LEAST <= share <= MOST]
    write("forecast", {**value, "wrong": wrong})
    print(json.dumps(value, indent=2))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
