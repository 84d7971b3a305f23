"""Document 000's router once more, as plainly as can be: fractions, dictionaries, no preparation.

It shares no code with the product. Where it and the product differ, one of them is wrong.
"""

import re
from decimal import Decimal
from fractions import Fraction
from math import floor
from typing import Any

Plain = dict[str, Any]

DEFAULTS: Plain = {
    "min_availability": "0.15",
    "min_score": "0.2",
    "weight_avail": "0.7",
    "weight_goal": "0.2",
    "weight_bias": "0.1",
    "dep_unhealthy_penalty": "0.5",
    "min_token_floor": 128,
    "min_token_threshold": 128,
    "max_attempts": 3,
    "top_n": 10,
}
HIGH_RISK = {"sem_write", "sem_delete", "register_module", "policy_change", "quarantine"}
STATUS = {"healthy": "1", "degraded": "0.6", "offline": "0", "quarantined": "0"}


def exact(value: object) -> Fraction:
    return Fraction(Decimal(str(value)))


def nine(value: Fraction) -> Fraction:
    """Round half to even at the ninth decimal."""
    return Fraction(round(value * 10**9), 10**9)


def route(plain: Plain) -> Plain:
    """Say what the router must say about a job."""
    config = {**DEFAULTS, **plain.get("router_config", {})}
    job = plain.get("job", {})
    if job.get("blocked") is not None:
        return _nobody("PRIVACY_BLOCKED", "agents.privacy", {}, [])
    intent, action = asked(plain, job)
    if job.get("attempt", len(job.get("failed", ())) + 1) > config["max_attempts"]:
        return _nobody("ROUTER_NO_MATCH", "agents.attempts_exhausted", {}, [], action)
    fallbacks = fallback_names(plain["modules"])
    may, out = divided(plain, config, (intent, action), fallbacks)
    rows = ordered(plain, [row(plain, config, name) for name in may])
    if rows and rows[0][2] >= exact(config["min_score"]):
        return _somebody(plain, config, rows[0], rows, out) | _risk(action)
    out = {name: reason for name, reason in out.items() if reason != "agents.kept_as_fallback"}
    for name in fallbacks:
        reason = why_not(plain, config, name, (intent, action))
        if not reason:
            chosen = row(plain, config, name, "fallback_generic")
            rows = ordered(plain, [*rows, chosen])
            return _somebody(plain, config, chosen, rows, out) | _risk(action)
        out[name] = reason
    cause = "none_scored" if rows else "none_allowed" if out else "no_candidate"
    return _nobody("ROUTER_NO_MATCH", f"agents.{cause}", out, rows, action)


def divided(plain: Plain, config: Plain, wants: tuple[str, str], fallbacks: list[str]) -> Any:
    """Give who may be scored, and the others with their reason."""
    modules, out, may = plain["modules"], {}, []
    for name in candidates(plain, plain.get("job", {}), wants[0], fallbacks):
        if name not in modules:
            out[name] = "agents.unknown_node"
        elif name in fallbacks:
            out[name] = "agents.kept_as_fallback"
        elif why_not(plain, config, name, wants):
            out[name] = why_not(plain, config, name, wants)
        else:
            may.append(name)
    may.sort(key=lambda name: (-exact(modules[name]["apt"]), name))
    for name in may[config["top_n"] :]:
        out[name] = "agents.beyond_top_n"
    return may[: config["top_n"]], out


def why_not(plain: Plain, config: Plain, name: str, wants: tuple[str, str]) -> str:
    module, job = plain["modules"][name], plain.get("job", {})
    if name in job.get("failed", ()):
        return "agents.failed_before"
    if not permitted(plain, job, name):
        return "agents.not_permitted"
    vetoed = veto(module.get("policy", {}), *wants)
    if vetoed:
        return vetoed
    if module["status"] in {"offline", "quarantined"}:
        return "agents." + module["status"]
    is_low = available(plain, config, name) < exact(config["min_availability"])
    return "agents.low_availability" if is_low else ""


def veto(policy: Plain, intent: str, action: str) -> str:
    forbidden = {same(each) for each in policy.get("forbidden_actions", ())}
    allowed = {same(each) for each in policy.get("allowed_actions", ())}
    if (forbidden & ({same(action), same(intent)} - {""})) or "*" in forbidden:
        return "agents.forbidden_action"
    if action and allowed and not allowed & {same(action), "*"}:
        return "agents.action_not_allowed"
    return ""


def row(plain: Plain, config: Plain, name: str, tag: str = "") -> Any:
    avail = available(plain, config, name)
    score, told = scored(plain, config, name, avail)
    return name, avail, score, tag or told


def asked(plain: Plain, job: Plain) -> tuple[str, str]:
    intent, action = job.get("intent", ""), job.get("required_action", "")
    for each in plain.get("intents", ()):
        if intent:
            is_it = each["intent"] == intent
        else:
            text = job.get("query", "hello")
            is_it = any(re.search(p, text, re.IGNORECASE) for p in each.get("patterns", ()))
        if is_it:
            return each["intent"], action or each.get("required_action", "")
    return intent, action


def candidates(plain: Plain, job: Plain, intent: str, fallbacks: list[str]) -> list[str]:
    if job.get("candidate_list"):
        return sorted(set(job["candidate_list"]))
    for each in plain.get("intents", ()):
        if intent and each["intent"] == intent and each.get("candidates"):
            return sorted(set(each["candidates"]))
    agents = [
        name
        for name, module in sorted(plain["modules"].items())
        if module.get("type", "agent") == "agent" and name not in fallbacks
    ]
    able = [name for name in agents if intent in plain["modules"][name].get("capabilities", ())]
    return able if intent and able else agents


def permitted(plain: Plain, job: Plain, name: str) -> bool:
    if job.get("permitted") is not None and name not in job["permitted"]:
        return False
    roles = plain.get("roles")
    if not roles:
        return True
    role = roles.get(job.get("user_role", ""))
    if role is None:
        return False
    return name not in role.get("denied", ()) and name in (role.get("modules") or plain["modules"])


def fallback_names(modules: Plain) -> list[str]:
    named = [name for name, module in modules.items() if module.get("is_fallback")]
    if not named:
        return ["generic_agent"] if "generic_agent" in modules else []
    return sorted(named, key=lambda name: (-exact(modules[name]["apt"]), name))


def is_let_down(plain: Plain, name: str) -> bool:
    """Whether something the module needs is not healthy."""
    needs = {
        each["to"]: each["required"] for each in plain.get("edges", ()) if each["from"] == name
    }
    for each in plain["modules"][name].get("dependencies", ()):
        needs.setdefault(each, True)
    return any(
        required and plain["modules"][each]["status"] != "healthy"
        for each, required in needs.items()
    )


def available(plain: Plain, config: Plain, name: str) -> Fraction:
    module = plain["modules"][name]
    found = nine(exact(module["apt"]) * exact(STATUS[module["status"]]))
    if is_let_down(plain, name):
        found = nine(found * exact(config["dep_unhealthy_penalty"]))
    return found


def scored(plain: Plain, config: Plain, name: str, avail: Fraction) -> tuple[Fraction, str]:
    mind, module = plain["mind"], plain["modules"][name]
    served = [
        exact(goal["priority"])
        for goal in mind.get("goals", ())
        if goal.get("status", "active") == "active"
        and goal.get("type", "answer") in module.get("capabilities", ())
    ]
    goal = max(served, default=Fraction(0))
    explore = exact(mind.get("explore_bias", 0)) * (1 - avail)
    raw = (
        exact(config["weight_avail"]) * avail
        + exact(config["weight_goal"]) * goal
        + exact(config["weight_bias"]) * explore
    )
    final = max(Fraction(0), min(Fraction(1), nine(raw)))
    if final < exact(config["min_score"]):
        return final, "below_min_score"
    if goal:
        return final, "match_goal"
    return final, "dependency_unhealthy" if is_let_down(plain, name) else "availability"


def ordered(plain: Plain, rows: list[Any]) -> list[Any]:
    return sorted(rows, key=lambda r: (-r[2], -exact(plain["modules"][r[0]]["apt"]), r[0]))


def same(action: str) -> str:
    return re.sub(r"[-. :/]", "_", action.casefold())


def _somebody(plain: Plain, config: Plain, chosen: Any, rows: Any, out: Any) -> Plain:
    mind, tag = plain["mind"], chosen[3]
    attention, base = exact(mind["attention_gain"]), mind["max_depth_allowed"]
    depth = min(base, max(0, floor(attention * base)))
    budget = mind["token_budget"]
    if attention < exact("0.2") or tag == "fallback_generic":
        depth = 0
    if budget < max(config["min_token_threshold"], mind.get("min_token_threshold", 128)):
        depth = 0
    share = Fraction(1, 2) + Fraction(1, 2) * attention
    return {
        "selected_agent": chosen[0],
        "reason_tag": tag,
        "depth": depth,
        "token_budget": min(budget, max(config["min_token_floor"], floor(budget * share))),
        "rows": rows,
        "excluded": out,
        "error_code": "",
        "cause": "",
    }


def _nobody(code: str, cause: str, out: Any, rows: Any, action: str = "") -> Plain:
    return {
        "selected_agent": None,
        "reason_tag": None,
        "depth": 0,
        "token_budget": 0,
        "rows": rows,
        "excluded": out,
        "error_code": code,
        "cause": cause,
    } | _risk(action)


def _risk(action: str) -> Plain:
    return {"requires_action_request": same(action) in HIGH_RISK}
