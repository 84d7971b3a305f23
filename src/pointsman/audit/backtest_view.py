"""A backtest as a value, for the command line and the HTTP API."""

from __future__ import annotations

import msgspec

from pointsman.audit.backtest import Backtest
from pointsman.kernel.instant import instant_text
from pointsman.kernel.number import microusd_text

ESTIMATE = "an estimate of input cost alone: recorded token counts, list prices, no output"


def backtest_value(found: Backtest) -> dict[str, object]:
    """Give a backtest as JSON shows it."""
    cost = found.cost
    return {
        "turns": found.turns,
        "changed_count": found.changed_count,
        "changed": [
            {**msgspec.structs.asdict(each), "at": instant_text(each.at)} for each in found.changed
        ],
        "shifts": [
            {"before": then, "after": now, "count": count}
            for (then, now), count in found.shifts.items()
        ],
        "by_rule": found.by_rule,
        "models_before": found.models_before,
        "models_after": found.models_after,
        "input_cost": {
            "turns": cost.turns,
            "before_usd": microusd_text(cost.before_microusd),
            "after_usd": microusd_text(cost.after_microusd),
            "difference_usd": microusd_text(cost.difference_microusd),
            "price_unknown": cost.price_unknown,
            "no_model": cost.no_model,
            "note": ESTIMATE,
        },
        "unable_count": found.unable_count,
        "unable": found.unable,
    }
