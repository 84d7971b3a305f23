"""Random jobs for the tests of BrainState: a start and the inputs of every tick, as plain JSON.

What is drawn depends on the seed alone, on every Python.
"""

import json
import random
from typing import Any

Plain = dict[str, Any]

VALUES: tuple[Any, ...] = (
    "alpha", "Quantum basics, part 1", "größe \U0001f600", "", "d:1", "s:x", "line\nbreak",
    {"a": 1, "ä": [None, True]}, ["x", 1], 7, None, "long " * 30,
)  # fmt: skip
TYPES = ("fact", "context", "user_hint")
GOAL_TYPES = ("answer", "clarify", "save", "verify", "plan")
SHARES = ("0", "0.000000001", "0.2", "0.333333333", "0.5", "0.6", "0.7", "0.8", "0.999999999", "1")
IDS = tuple(f"g{number}" for number in range(5))
ACTIONS = ("sem_write", "sem_delete", "register_module", "set_module_policy", "set_router_config")
CONSTANTS: dict[str, tuple[Any, ...]] = {
    "DEFAULT_WM_TTL": (1, 2, 5),
    "PROMOTION_REFERENCES": (1, 2, 3),
    "PROMOTION_WINDOW": (1, 2, 4, 9),
    "cwm_ttl": (1, 3, 10),
    "cwm_budget_divisor": (1, 4, 7),
    "max_attempts": (1, 2, 3),
    "max_repair_loops": (1, 4),
    "min_token_threshold": (0, 128, 5000),
    "max_recent_failures": (0, 1, 16),
    "defaults_version": (1,),
}
SHARE_CONSTANTS = (
    "council_weight", "user_weight", "a_decay", "a_gain", "e_decay", "e_gain",
    "CONFIDENCE_THRESHOLD", "preemption_margin", "user_priority_weight", "system_priority_weight",
    "default_user_priority", "default_heuristic_score", "default_attention_gain",
    "default_explore_bias", "default_reward_signal", "prefer_high_apt_at", "allow_explore_at",
    "quick_answer_below",
)  # fmt: skip


def start(source: random.Random) -> Plain:
    """Draw the start of a job."""
    constants = {k: source.choice(v) for k, v in CONSTANTS.items() if source.random() < 0.3}
    constants |= {name: share(source) for name in SHARE_CONSTANTS if source.random() < 0.15}
    names = ("attention_gain", "explore_bias", "reward_signal")
    count = source.randrange(4)
    return {
        "job_seed": f"seed-{source.randrange(10**6)}",
        "goals": [goal(source, name) for name in IDS[:count]],
        "attention": {name: share(source) for name in names if source.random() < 0.7},
        "resource_budget": {
            "token_budget": source.choice((0, 60, 100, 500, 2048)),
            "max_depth_allowed": source.randrange(6),
        },
        "constants": constants,
    }


def inputs(source: random.Random, known_ids: list[str]) -> Plain:
    """Draw the inputs of a tick; `known_ids` are those of the items in memory."""
    drawn: Plain = {}
    for name in ("council_approval", "user_upvote"):
        said = source.choice((None, True, False, "absent"))
        if said != "absent":
            drawn[name] = said
    drawn["wm"] = [_item(source) for _ in range(source.choice((0, 0, 1, 1, 2, 4)))]
    drawn["events"] = [_event(source, known_ids) for _ in range(source.choice((0, 1, 2, 5)))]
    return drawn


def share(source: random.Random) -> str:
    """Draw a fraction, as the text of a number."""
    if source.random() < 0.7:
        return source.choice(SHARES)
    return f"0.{source.randrange(10**9):09d}"


def goal(source: random.Random, name: str) -> Plain:
    """Draw a goal."""
    drawn: Plain = {"goal_id": name, "type": source.choice(GOAL_TYPES)}
    if source.random() < 0.6:
        drawn["priority"] = share(source)
    else:
        given = [x for x in ("user_specified", "heuristic_score") if source.random() < 0.7]
        drawn |= {each: share(source) for each in given}
    if source.random() < 0.2:
        drawn["status"] = source.choice(("active", "succeeded", "failed", "paused"))
    if source.random() < 0.3:
        drawn["deliverable"] = source.choice(("text", "plan"))
    if source.random() < 0.4:
        drawn["wm_ttl_ticks"] = source.randrange(1, 8)
    if source.random() < 0.3:
        drawn["metadata"] = {"note": source.choice(VALUES)}
    if source.random() < 0.2:
        drawn["deadline_ts"] = "2026-11-15T14:05:00Z"
    return drawn


def _item(source: random.Random) -> Plain:
    drawn: Plain = {"type": source.choice(TYPES[:2]), "value": source.choice(VALUES)}
    if source.random() < 0.4:
        drawn["ttl_ticks"] = source.randrange(1, 7)
    if source.random() < 0.3:
        drawn["goal_id"] = source.choice(IDS)
    if source.random() < 0.1:
        drawn["wm_id"] = source.choice(("mine", "yours"))
    drawn["token_estimate"] = source.choice((0, 1, 10, 25, 200))
    return drawn


def _event(source: random.Random, known_ids: list[str]) -> Plain:  # noqa: PLR0911 - one an event
    kind = source.randrange(12)
    name = source.choice(IDS)
    if kind <= 2:
        return {"type": "reference", "wm_id": source.choice([*known_ids, "nobody"])}
    if kind == 3:
        return {"type": "goal_created", "goal": goal(source, name)}
    if kind == 4:
        wanted = source.choice(("", "text", "plan"))
        sure = {"final_confidence": share(source), "deliverable": wanted}
        return {"type": "result", "goal_id": name, **sure}
    if kind == 5:
        where = source.choice(({}, {"node_id": "agent:math_v1", "reason": "timeout"}))
        return {"type": "attempt_failed", "goal_id": name, **where}
    if kind in (6, 7):
        return {"type": ("repair_loop", "goal_resumed")[kind - 6], "goal_id": name}
    if kind == 8:
        return {"type": "node_failed", "node_id": "agent:x", "reason": source.choice(("", "why"))}
    if kind in (9, 10):
        tokens = source.choice((0, 1, 40, 300))
        return {"type": ("tokens_used", "tokens_returned")[kind - 9], "tokens": tokens}
    return {
        "type": "action",
        "action_type": source.choice(ACTIONS),
        "origin": "agent:x",
        "payload": source.choice(VALUES),
        "goal_id": source.choice((None, name)),
    }


def text(value: Plain) -> bytes:
    """Write what was drawn as a caller would."""
    return json.dumps(value).encode()
