"""Turns that are run again beside the one that was asked for."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from tests.gateway.house import Running, eventually

from pointsman.errors import LedgerUnavailable
from pointsman.storage.home import open_home
from pointsman.storage.stores.patterns.patterns import PatternStore

TIERS = {"fast": "claude:opus", "balanced": "claude:opus", "deep": "claude:opus"}
SHADOW = "decision.turn.shadow"


def routing(default: str = "open:big", **pattern: Any) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "global_default": default,
        "tiers": TIERS,
        "pattern": {"shadow": 1, **pattern},
    }


def settled(live: Running, **wanted: int) -> None:
    """Wait until so many things were done beside turns: `shadow_done=1`."""

    def seen() -> bool:
        told = live.parts.metrics.text()
        return all(
            f'pointsman_beside_total{{kind="{name.split("_", 1)[0]}",'
            f'result="{name.split("_", 1)[1]}"}} {count}' in told
            for name, count in wanted.items()
        )

    eventually(seen)


def counted(live: Running, samples: int) -> PatternStore:
    """Wait until the pattern store knows so many samples."""
    store = PatternStore(open_home(live.home).patterns)

    def seen() -> bool:
        # Who opens a store in the moment in which it is begun is told that it is locked.
        with suppress(LedgerUnavailable):
            return sum(each.samples for each in store.report()) >= samples
        return False

    eventually(seen)
    return store
