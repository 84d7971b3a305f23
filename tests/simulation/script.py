"""What happens in a life: a list of actions, drawn from a seed, that can be written and replayed.

An action is a small JSON object. Each has a number, and all chance within it comes from that
number: a script that is made shorter leaves the other actions as they were.
"""

from __future__ import annotations

import random
from typing import Any

Action = dict[str, Any]
Script = dict[str, Any]

PATHS = ("/v1/chat/completions", "/v1/responses", "/v1/messages")
NAMED = ("open:big", "open:small", "claude:opus", "house:llama")
FAULTS = ("500", "503", "429", "400", "reset", "cut", "end", "slow", "stall", "silent", "html")
PROVIDERS = ("open", "claude", "house")
CUTS = ("lost", "kept", "sectors", "torn")
EDITS = ("default-claude", "default-open", "keep-phone", "keep-email", "alias", "broken")


def draw_script(seed: int, length: int = 60) -> Script:
    """Draw a life."""
    chance = random.Random(f"life {seed}")
    # Which kinds of trouble there are at all is drawn first: rare ones meet each other.
    weights = {
        "outage": 2, "cut network": 1, "edit": 3, "kill": 1, "power": 1, "restart": 1,
        "full disk": 1.5, "failing sync": 2, "slow disk": 2, "clock": 2, "erase": 2, "feedback": 1,
        "look": 2, "rest": 3, "key": 1,
    }  # fmt: skip
    present = {name: weight for name, weight in weights.items() if chance.random() < 0.6}
    kinds = {"turn": 26, "follow": 6, "burst": 4, **present}
    settings = {
        "limit_usd": chance.choice(["0.0008", "0.002", "0.006", "1000", "1000"]),
        "shadow": chance.choice([0, 0, 0.3]),
        "judged": chance.choice([0, 0, 0.2]),
        "faulty": chance.choice([0, 0.05, 0.3]),
        "cancels": chance.choice([0, 0.1, 0.3]),
        "fallback_named": chance.random() < 0.2,
        "slow_s": chance.choice([0, 0.002, 0.02]),
        "rush": chance.choice([0.3, 0.8]),
        "sessions": chance.choice([2, 8]),
        "yields": chance.choice([0.005, 0.05, 0.2]),
        "pieces": chance.choice([0, 0.1, 0.5]),
    }
    actions = [
        _draw_action(chance, chance.choices([*kinds], [*kinds.values()])[0], number, settings)
        for number in range(1, length + 1)
    ]
    return {"seed": seed, "settings": settings, "actions": actions}


def _draw_action(chance: random.Random, kind: str, number: int, settings: dict[str, Any]) -> Action:  # noqa: C901 - one case a kind
    wait_ms = (
        chance.choice([0, 1, 5])
        if chance.random() < settings["rush"]
        else chance.choice([30, 200, 2_000])
    )
    action: Action = {"do": kind, "n": number, "wait_ms": wait_ms}
    match kind:
        case "turn" | "follow":
            action |= _draw_turn(chance, settings)
        case "burst":
            action |= {"turns": chance.randint(2, 8), "path": chance.randrange(3)}
            if chance.random() < 0.6:
                action["session"] = f"b{number}"
                action["taints"] = chance.random() < 0.3
            if chance.random() < 2 * settings["cancels"]:
                action["cancel_ms"] = chance.choice([1, 3, 10])
        case "outage" | "cut network":
            action |= {"provider": chance.choice(PROVIDERS), "seconds": chance.choice([1, 20, 90])}
        case "edit":
            action |= {"edit": chance.choice(EDITS), "over": chance.choice(["file", "http"])}
        case "power":
            action |= {"mode": chance.choice(CUTS)}
        case "full disk" | "failing sync":
            file = chance.choice(["", "", "ledger.db", "content.db", "spend.db"])
            action |= {"seconds": chance.choice([0.05, 1]), "file": file}
        case "slow disk":
            action |= {"sync_s": chance.choice([0, 0.003, 0.05])}
        case "clock":
            action |= {"jump_s": chance.choice([-172_800, -86_400, -3_600, -2, 3, 3_600, 86_400])}
        case "rest":
            action |= {"seconds": chance.choice([0.5, 6, 40])}
        case "erase":
            action |= {"session": f"s{chance.randrange(settings['sessions'])}"}
    return action


def _draw_turn(chance: random.Random, settings: dict[str, Any]) -> Action:
    turn: Action = {"path": chance.randrange(3), "stream": chance.random() < 0.4}
    if chance.random() < 0.25:
        turn["model"] = chance.choice(NAMED)
    if chance.random() < 0.7:
        turn["session"] = f"s{chance.randrange(settings['sessions'])}"
    if chance.random() < 0.15:
        turn["item"] = chance.choice(["email", "phone"])
    if chance.random() < 0.3:
        turn["tools"] = True
        turn["result_item"] = chance.random() < 0.2
    faults = [
        chance.choice(FAULTS) if chance.random() < settings["faulty"] else "" for _ in range(6)
    ]
    if any(faults):
        turn["faults"] = faults
    if chance.random() < settings["cancels"]:
        turn["cancel_ms"] = chance.choice([1, 10, 60])
    if chance.random() < 0.1:
        turn["words"] = chance.choice([200, 3_000])
    return turn
