"""A failing life made short: actions and trouble are left out while it still fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.simulation.script import Script

Fails = Callable[[Script], bool]
PLAIN: dict[str, Any] = {
    "faulty": 0, "cancels": 0, "slow_s": 0, "yields": 0.005, "pieces": 0, "shadow": 0, "judged": 0,
    "limit_usd": "1000", "fallback_named": False,
}  # fmt: skip
EXTRAS = ("faults", "words", "cancel_ms", "tools", "item", "model", "session", "result_item")


def shrink(script: Script, fails: Fails, most: int = 150) -> Script:
    """Return the shortest script that was found to fail in the same way."""
    left = [most]

    def still(candidate: Script) -> bool:
        left[0] -= 1
        return left[0] >= 0 and fails(candidate)

    script = _drop_actions(script, still)
    for name, plain in PLAIN.items():
        if script["settings"].get(name) != plain:
            candidate = {**script, "settings": {**script["settings"], name: plain}}
            script = candidate if still(candidate) else script
    script = _drop_actions(script, still)
    for at, action in enumerate(script["actions"]):
        for name in EXTRAS:
            if name in action:
                slim = {key: value for key, value in script["actions"][at].items() if key != name}
                actions = [*script["actions"][:at], slim, *script["actions"][at + 1 :]]
                candidate = {**script, "actions": actions}
                script = candidate if still(candidate) else script
    return script


def _drop_actions(script: Script, still: Fails) -> Script:
    size = max(1, len(script["actions"]) // 2)
    while True:
        at = 0
        while at < len(script["actions"]):
            actions = [*script["actions"][:at], *script["actions"][at + size :]]
            candidate = {**script, "actions": actions}
            if actions and still(candidate):
                script = candidate
            else:
                at += size
        if size == 1:
            return script
        size //= 2
