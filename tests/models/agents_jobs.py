"""Jobs for tests, out of plain values: what `agents.yaml`, a mind and a request would say."""

import json
from typing import Any

from pointsman.agents.compiled import CompiledAgents, compile_policy
from pointsman.agents.decide import AgentOutcome, RouteTrace, decide
from pointsman.agents.facts import GoalView, JobFacts, MindView, PrivacyVerdict, job_facts
from pointsman.agents.file.make_selfrep import make_selfrep
from pointsman.agents.policy import POLICY_FORM, agents_policy
from pointsman.kernel.number import ONE, Billionths, billionths
from pointsman.storage.policies.agents_file import read_agents

Plain = dict[str, Any]

FILE_KEYS = ("modules", "edges", "router_config", "intents", "roles", "trust")
MIND: Plain = {
    "attention_gain": "0.8",
    "explore_bias": "0",
    "token_budget": 1000,
    "max_depth_allowed": 3,
    "goals": [],
}


def agents_text(plain: Plain) -> bytes:
    """Write the parts that belong into `agents.yaml`; JSON is YAML."""
    return json.dumps({key: plain[key] for key in FILE_KEYS if key in plain}, default=str).encode()


def a_router(plain: Plain) -> CompiledAgents:
    """Give what rules a job."""
    file = read_agents(agents_text(plain), "agents.yaml")
    policy = agents_policy(file)
    return CompiledAgents(compile_policy(policy), make_selfrep(file, POLICY_FORM.id(policy)))


def a_mind(given: Plain | None = None) -> MindView:
    """Give what routing reads of a mind."""
    plain = {**MIND, **(given or {})}
    attention, explore = _exact(plain["attention_gain"]), _exact(plain["explore_bias"])
    return MindView(
        attention_gain=attention,
        explore_bias=explore,
        token_budget=plain["token_budget"],
        max_depth_allowed=plain["max_depth_allowed"],
        goals=tuple(
            GoalView(
                each["goal_id"],
                _exact(each["priority"]),
                each.get("type", "answer"),
                each.get("status", "active"),
            )
            for each in plain["goals"]
        ),
        prefer_high_apt=attention >= 6 * ONE // 10,
        allow_explore=explore >= 2 * ONE // 10,
        quick_answer_below=_exact(plain.get("quick_answer_below", "0.2")),
        min_token_threshold=plain.get("min_token_threshold", 128),
    )


def a_job(
    router: CompiledAgents, given: Plain | None = None, mind: Plain | None = None
) -> JobFacts:
    """Give the facts of a job; `failed` are the agents of earlier attempts."""
    plain = dict(given or {})
    failed = plain.pop("failed", ())
    attempt = plain.pop("attempt", len(failed) + 1)
    blocked = plain.pop("blocked", None)
    if blocked is not None:
        plain["privacy"] = PrivacyVerdict(is_blocked=True, reason=blocked)
    query = plain.pop("query", "hello")
    facts = job_facts("job-1", "seed-1", query, router.selfrep_id, a_mind(mind), **plain)
    changes = {"excluded": tuple(failed), "attempt": attempt}
    return JobFacts(**{name: getattr(facts, name) for name in facts.__struct_fields__} | changes)


def decided(plain: Plain) -> tuple[AgentOutcome, RouteTrace]:
    """Decide a job that is told whole: file, `mind` and `job`."""
    router = a_router(plain)
    return decide(router, a_job(router, plain.get("job"), plain.get("mind")))


def _exact(value: object) -> Billionths:
    return billionths(str(value))
