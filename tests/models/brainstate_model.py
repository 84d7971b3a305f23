"""A second, naive model of a tick, written from document 004 and its companion.

It shares no code with the product. It works on plain values with fractions for numbers; the ids of
new items are handed in, because only ties in consolidated memory depend on them.
"""

from collections.abc import Iterator
from copy import deepcopy
from fractions import Fraction
from typing import Any

Plain = dict[str, Any]

OVER = ("succeeded", "failed")


def tick(before: Plain, inputs: Plain, new_ids: Iterator[str]) -> Plain:
    """Advance a state by one tick."""
    state = deepcopy(before)
    known = state["constants"]
    now = state["tick"]
    events = inputs.get("events", [])
    fresh = _insert(state, inputs.get("wm", []), new_ids)
    for event in events:
        if event["type"] == "reference":
            _reference(state, event["wm_id"])
    promoted = _promote(state)
    for item in state["WM"]:
        if item["wm_id"] not in fresh:
            item["ttl_ticks"] -= 1
    state["WM"] = [item for item in state["WM"] if item["ttl_ticks"] > 0]
    items = state["CWM"]["items"]
    alive = [item for item in items if now < item["promoted_at_tick"] + item["ttl_ticks"]]
    _attend(state, inputs)
    has_new_goal = False
    for event in events:
        has_new_goal |= _apply(state, event)
    _settle(state)
    if promoted or has_new_goal:
        limit = state["resource_budget"]["token_budget"] // known["cwm_budget_divisor"]
        alive = _fitting(alive + promoted, limit)
    state["CWM"]["items"] = alive
    state["CWM"]["tokens_used"] = sum(item["token_estimate"] for item in alive)
    state["recent_failures"] = state["recent_failures"][: known["max_recent_failures"]]
    state["tick"] = now + 1
    return state


def rounded(value: Fraction) -> Fraction:
    """Round to nine decimals, half to even."""
    return Fraction(round(value * 10**9), 10**9)


def clamped(value: Fraction) -> Fraction:
    return max(Fraction(0), min(Fraction(1), value))


def _insert(state: Plain, items: list[Plain], new_ids: Iterator[str]) -> set[str]:
    fresh = set()
    # What a snapshot's goals say counts, not what goals of this very tick say.
    own = {goal["goal_id"]: goal["wm_ttl_ticks"] for goal in state["goals"]}
    for item in items:
        same = [
            each
            for each in state["WM"] + state["CWM"]["items"]
            if (each["type"], each["value"]) == (item["type"], item["value"])
        ]
        if same:
            _count(state, same[0])
            continue
        taken = {each["wm_id"] for each in state["WM"] + state["CWM"]["items"]}
        if item.get("wm_id") in taken:
            continue
        ttl = item.get("ttl_ticks")
        if ttl is None:
            ttl = own.get(item.get("goal_id"))
        if ttl is None:
            ttl = state["constants"]["DEFAULT_WM_TTL"]
        name = next(new_ids)
        fresh.add(name)
        made = {
            "wm_id": name,
            "type": item["type"],
            "value": item["value"],
            "ttl_ticks": ttl,
            "created_at_tick": state["tick"],
            "references": 1,
            "all_ticks": [state["tick"]],
            "token_estimate": item["token_estimate"],
        }
        state["WM"] = [made, *state["WM"]]
    return fresh


def _count(state: Plain, item: Plain) -> None:
    item["references"] += 1
    if "all_ticks" in item:
        item["all_ticks"].append(state["tick"])
    else:
        item["last_reference_tick"] = state["tick"]


def _reference(state: Plain, name: str) -> None:
    for item in state["WM"] + state["CWM"]["items"]:
        if item["wm_id"] == name:
            _count(state, item)
            return


def _promote(state: Plain) -> list[Plain]:
    known, now, leaving = state["constants"], state["tick"], []
    for item in list(state["WM"]):
        window = range(now - known["PROMOTION_WINDOW"] + 1, now + 1)
        if sum(each in window for each in item["all_ticks"]) >= known["PROMOTION_REFERENCES"]:
            state["WM"].remove(item)
            leaving.append(
                {
                    "wm_id": item["wm_id"],
                    "type": item["type"],
                    "value": item["value"],
                    "references": item["references"],
                    "last_reference_tick": max(item["all_ticks"]),
                    "promoted_at_tick": now,
                    "ttl_ticks": known["cwm_ttl"],
                    "token_estimate": item["token_estimate"],
                }
            )
    return leaving


def _fitting(items: list[Plain], limit: int) -> list[Plain]:
    kept = [item for item in items if item["token_estimate"] <= limit]
    while sum(item["token_estimate"] for item in kept) > limit:
        kept.remove(min(kept, key=_rank))
    return sorted(kept, key=_rank, reverse=True)


def _rank(item: Plain) -> tuple[int, int, str]:
    return (item["references"], item["last_reference_tick"], item["wm_id"])


def _attend(state: Plain, inputs: Plain) -> None:
    known, mind = state["constants"], state["attention"]
    council, user = inputs.get("council_approval"), inputs.get("user_upvote")
    reward = Fraction(0)
    if council is True:
        reward = known["council_weight"]
        if user is True:
            reward += known["user_weight"]
    reward = clamped(reward)
    gain = mind["attention_gain"] * (1 - known["a_decay"]) + reward * known["a_gain"]
    explore = mind["explore_bias"] * (1 - known["e_decay"]) + (1 - reward) * known["e_gain"]
    state["attention"] = {
        "attention_gain": clamped(rounded(gain)),
        "explore_bias": clamped(rounded(explore)),
        "reward_signal": reward,
    }


def _apply(state: Plain, event: Plain) -> bool:
    """Take in one event; tell whether it made a goal."""
    kind = event["type"]
    if kind == "tokens_used":
        state["tokens_consumed"] += event["tokens"]
    elif kind == "tokens_returned":
        state["tokens_consumed"] = max(0, state["tokens_consumed"] - event["tokens"])
    if kind in ("node_failed", "attempt_failed") and event.get("node_id"):
        failure = {"node_id": event["node_id"], "reason": event.get("reason", "")}
        state["recent_failures"] = [failure, *state["recent_failures"]]
    if kind == "goal_created":
        return _open(state, event["goal"])
    found = [goal for goal in state["goals"] if goal["goal_id"] == event.get("goal_id")]
    if found and found[0]["status"] not in OVER:
        _report(found[0], event)
    return False


def _report(goal: Plain, event: Plain) -> None:
    kind = event["type"]
    if kind == "result" and goal["deliverable"] in ("", event.get("deliverable", "")):
        goal["is_delivered"] = True
        goal["final_confidence"] = event["final_confidence"]
    elif kind == "attempt_failed":
        goal["attempts"] += 1
    elif kind == "repair_loop":
        goal["repair_loops"] += 1
    elif kind == "goal_resumed" and goal["paused_because"] == "given":
        goal["status"], goal["paused_because"] = "active", ""


def _open(state: Plain, new: Plain) -> bool:
    if any(goal["goal_id"] == new["goal_id"] for goal in state["goals"]):
        return False
    status = new.get("status", "active")
    state["goals"].append(
        {
            "goal_id": new["goal_id"],
            "priority": priority(new, state["constants"]),
            "type": new["type"],
            "status": status,
            "attempts": 0,
            "repair_loops": 0,
            "deliverable": new.get("deliverable", ""),
            "is_delivered": False,
            "final_confidence": None,
            "wm_ttl_ticks": new.get("wm_ttl_ticks"),
            "paused_because": "given" if status == "paused" else "",
        }
    )
    return True


def priority(new: Plain, known: Plain) -> Fraction:
    """Give a goal's priority: its own, or the user's and the heuristic's, weighed."""
    if new.get("priority") is not None:
        return Fraction(new["priority"])
    user, score = new.get("user_specified"), new.get("heuristic_score")
    user = known["default_user_priority"] if user is None else user
    score = known["default_heuristic_score"] if score is None else score
    weighed = known["user_priority_weight"] * user + known["system_priority_weight"] * score
    return clamped(rounded(weighed))


def _settle(state: Plain) -> None:
    known = state["constants"]
    for goal in state["goals"]:
        if goal["status"] != "active":
            continue
        sure = goal["final_confidence"]
        if goal["is_delivered"] and sure >= known["CONFIDENCE_THRESHOLD"]:
            goal["status"] = "succeeded"
        elif (
            goal["attempts"] >= known["max_attempts"]
            or goal["repair_loops"] >= known["max_repair_loops"]
        ):
            goal["status"] = "failed"
    is_exhausted = state["tokens_consumed"] >= state["resource_budget"]["token_budget"]
    live = [
        goal
        for goal in state["goals"]
        if goal["status"] not in OVER and goal["paused_because"] != "given"
    ]
    for goal in live:
        cause = ""
        if is_exhausted:
            cause = "budget_exhausted"
        elif any(o["priority"] - goal["priority"] > known["preemption_margin"] for o in live):
            cause = "preempted"
        goal["paused_because"] = cause
        goal["status"] = "paused" if cause else "active"


def hints(state: Plain) -> Plain:
    """Give the router's hints of a state."""
    known, mind, budget = state["constants"], state["attention"], state["resource_budget"]
    gain = mind["attention_gain"]
    depth = (gain * budget["max_depth_allowed"]).__floor__()
    if gain < known["quick_answer_below"] or budget["token_budget"] < known["min_token_threshold"]:
        depth = 0
    return {
        "max_depth_allowed": min(depth, budget["max_depth_allowed"]),
        "prefer_high_APT": gain >= known["prefer_high_apt_at"],
        "allow_explore": mind["explore_bias"] >= known["allow_explore_at"],
    }
