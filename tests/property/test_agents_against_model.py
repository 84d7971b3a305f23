"""The product's router and the naive model of it agree on random jobs."""

import random
from collections import Counter
from typing import Any

import pytest
from tests.models import agents_model
from tests.models.agents_jobs import Plain, a_job, a_router

from pointsman.agents.decide import decide
from pointsman.kernel.number import SCALE

JOBS = 2_000
JOBS_A_HOUSE = 10
GOALS = ("answer", "clarify", "save", "verify", "plan")
INTENTS = ("math", "fact", "store")
ACTIONS = ("SEM_write", "sem-write", "read", "search", "math")
TYPES = ("agent", "agent", "agent", "tool", "memory")
STATUSES = ("healthy", "healthy", "healthy", "degraded", "offline", "quarantined")
APTS = ("0", "0.15", "0.25", "0.3", "0.5", "0.7", "0.9", "1", "0.333333333", "0.285714286")
QUERIES = ("hello", "please ADD 2 + 2", "who was Ada?", "remember this, and add it", "größe")

SOMETIMES = {
    "match_goal", "availability", "dependency_unhealthy", "below_min_score", "fallback_generic",
    "agents.failed_before", "agents.unknown_node", "agents.not_permitted",
    "agents.forbidden_action", "agents.action_not_allowed", "agents.offline",
    "agents.quarantined", "agents.low_availability", "agents.beyond_top_n",
    "agents.kept_as_fallback", "agents.privacy", "agents.attempts_exhausted",
    "agents.no_candidate", "agents.none_allowed", "agents.none_scored", "tie", "deep", "risky",
}  # fmt: skip


class Draw:
    """Draws houses of modules and jobs for them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def some(self, things: Any, most: int) -> list[Any]:
        count = min(self.random.randint(0, most), len(things))
        return self.random.sample(list(things), count)

    def maybe(self, chance: float) -> bool:
        return self.random.random() < chance

    def fraction(self) -> str:
        if self.maybe(0.5):
            return self.random.choice(APTS)
        return f"0.{self.random.randint(0, 10**9 - 1):09d}"

    def house(self) -> Plain:
        count = self.random.choice((0, 1, 2, 3, 5, 8, 14))
        names = [f"agent:{n:02d}" for n in range(count)]
        if self.maybe(0.6):
            names.append("generic_agent")
        one_apt = self.fraction() if self.maybe(0.3) else None
        modules = {name: self.module(names, one_apt) for name in names}
        for name, module in modules.items():
            module["dependencies"] = [n for n in module["dependencies"] if n != name]
        ends = {tuple(self.random.sample(names, 2)) for _ in range(3) if len(names) > 1}
        plain: Plain = {
            "modules": modules,
            "edges": [{"from": a, "to": b, "required": self.maybe(0.6)} for a, b in sorted(ends)],
            "intents": self.intents(names),
        }
        if self.maybe(0.4):
            plain["router_config"] = self.config()
        if self.maybe(0.3):
            plain["roles"] = {
                role: {"modules": self.some(names, 9) or None, "denied": self.some(names, 2)}
                for role in ("operator", "viewer")
            }
        return plain

    def module(self, names: list[str], one_apt: str | None) -> Plain:
        return {
            "type": self.random.choice(TYPES),
            "status": self.random.choice(STATUSES),
            "apt": one_apt or self.fraction(),
            "capabilities": self.some((*GOALS, *INTENTS), 3),
            "dependencies": self.some(names, 1) if self.maybe(0.3) else [],
            "is_fallback": self.maybe(0.05),
            "policy": {
                "allowed_actions": self.some((*ACTIONS, "*"), 2) if self.maybe(0.3) else [],
                "forbidden_actions": self.some((*ACTIONS, "*"), 2) if self.maybe(0.3) else [],
            },
        }

    def intents(self, names: list[str]) -> list[Plain]:
        found = [
            {"intent": "math", "patterns": [r"\badd\b", r"[0-9] *\+"], "required_action": "read"},
            {"intent": "store", "patterns": ["remember"], "required_action": "SEM_write"},
            {"intent": "fact", "patterns": ["^who"], "candidates": self.some(names, 4)},
        ]
        return self.random.sample(found, self.random.randint(0, 3))

    def config(self) -> Plain:
        return {
            "min_availability": self.fraction(),
            "min_score": self.random.choice(("0", "0.2", "0.49", "0.63", "1")),
            "weight_avail": self.fraction(),
            "weight_goal": self.fraction(),
            "weight_bias": self.fraction(),
            "dep_unhealthy_penalty": self.fraction(),
            "top_n": self.random.choice((1, 2, 10)),
            "max_attempts": self.random.choice((1, 3)),
            "min_token_floor": self.random.choice((0, 128, 4096)),
        }

    def mind(self) -> Plain:
        return {
            "attention_gain": self.fraction(),
            "explore_bias": self.random.choice(("0", self.fraction())),
            "token_budget": self.random.choice((0, 100, 127, 128, 1000, 8000, 10**9)),
            "max_depth_allowed": self.random.randint(0, 5),
            "goals": [
                {
                    "goal_id": f"g{n}",
                    "priority": self.fraction(),
                    "type": self.random.choice(GOALS),
                    "status": self.random.choice(("active", "active", "paused", "failed")),
                }
                for n in range(self.random.randint(0, 3))
            ],
        }

    def job(self, names: list[str]) -> Plain:
        parts: dict[str, Any] = {"query": self.random.choice(QUERIES)}
        chances = {
            "candidate_list": (0.4, lambda: self.some((*names, "agent:ghost"), 12)),
            "failed": (0.2, lambda: self.some(names, 4)),
            "intent": (0.2, lambda: self.random.choice((*INTENTS, "other"))),
            "required_action": (0.3, lambda: self.random.choice(ACTIONS)),
            "user_role": (0.6, lambda: self.random.choice(("operator", "viewer", "nobody"))),
            "permitted": (0.1, lambda: self.some(names, 9)),
            "blocked": (0.03, lambda: "holds pii.email"),
        }
        for name, (chance, draw) in chances.items():
            if self.maybe(chance):
                parts[name] = draw()
        return parts


def compared(seed: int) -> tuple[Counter[str], list[str]]:
    """Compare some jobs of one house; give what occurred, and what came out differently."""
    draw, seen, different = Draw(seed), Counter[str](), []
    house = draw.house()
    router = a_router(house)
    for number in range(JOBS_A_HOUSE):
        plain = {**house, "mind": draw.mind(), "job": draw.job(list(house["modules"]))}
        want = agents_model.route(plain)
        found = _found(plain, router)
        seen["jobs"] += 1
        _note(seen, found)
        if found != want:
            parts = [
                f"{key}: product {found[key]}, model {want[key]}"
                for key in want
                if found[key] != want[key]
            ]
            different.append(f"seed {seed}, job {number}: " + "; ".join(parts))
    return seen, different


def _found(plain: Plain, router: Any) -> Plain:
    outcome, trace = decide(router, a_job(router, plain["job"], plain["mind"]))
    rows = [
        (
            each.node_id,
            agents_model.Fraction(each.availability_score, SCALE),
            agents_model.Fraction(each.final_score, SCALE),
            str(each.reason_tag),
        )
        for each in outcome.ordered_candidates
    ]
    return {
        "selected_agent": outcome.selected_agent,
        "reason_tag": None if outcome.reason_tag is None else str(outcome.reason_tag),
        "depth": outcome.depth,
        "token_budget": outcome.token_budget,
        "rows": rows,
        "excluded": {each.node_id: str(each.reason) for each in trace.excluded},
        "error_code": outcome.error_code,
        "cause": str(outcome.cause),
        "requires_action_request": outcome.requires_action_request,
    }


def _note(seen: Counter[str], found: Plain) -> None:
    seen.update(row[3] for row in found["rows"])
    seen.update(found["excluded"].values())
    seen[found["cause"]] += 1
    scores = [row[2] for row in found["rows"]]
    seen["tie"] += len(set(scores)) < len(scores)
    seen["deep"] += found["depth"] > 0
    seen["risky"] += found["requires_action_request"]


@pytest.mark.req(1, 3, 20, 21, 22, 23, 25, 26, 31, 63)
def test_the_router_and_the_naive_model_agree() -> None:
    seen: Counter[str] = Counter()
    different: list[str] = []
    for seed in range(JOBS // JOBS_A_HOUSE):
        occurred, differing = compared(seed)
        seen += occurred
        different += differing
    assert different[:3] == []
    assert seen["jobs"] == JOBS
    assert SOMETIMES - {name for name, count in seen.items() if count} == set()
