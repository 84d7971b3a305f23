"""How long the choice of an agent takes: over 10 candidates, over 10,000 modules, and beside them.

Times depend on the machine; the ratios to the choice among 10 of the same run do not. Rounds are
short and many, so that others on the machine spoil few of them. Writes bench/results/agents.json
and a plot.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from statistics import median

import matplotlib as mpl

from pointsman.agents.compiled import CompiledAgents, compile_policy
from pointsman.agents.decide import decide
from pointsman.agents.facts import FACTS_FORM, GoalView, JobFacts, MindView, job_facts
from pointsman.agents.file.agents_file import (
    AgentsFile,
    GivenIntent,
    GivenModule,
    GivenModulePolicy,
)
from pointsman.agents.file.make_selfrep import make_selfrep
from pointsman.agents.modules.selfrep import selfrep_id
from pointsman.agents.policy import POLICY_FORM, agents_policy
from pointsman.agents.trace import OUTCOME_FORM, TRACE_FORM
from pointsman.kernel.number import billionths

RESULTS = Path(__file__).parent / "results"
PROMISED_TEN_US = 60
PROMISED_HUGE_MS = 10
SIZES = (10, 30, 100, 300, 1_000, 3_000, 10_000)
STATUSES = ("healthy", "healthy", "healthy", "degraded", "offline")
MIND = MindView(
    attention_gain=billionths("0.8"),
    explore_bias=billionths("0.15"),
    token_budget=2048,
    max_depth_allowed=3,
    goals=(
        GoalView("g1", billionths("0.8"), "verify", "active"),
        GoalView("g2", billionths("0.4"), "answer", "active"),
    ),
    prefer_high_apt=True,
    allow_explore=False,
    quick_answer_below=billionths("0.2"),
    min_token_threshold=128,
)
QUERY = "please calculate how many tokens the nightly report used, and check it against the log"


def house(count: int) -> CompiledAgents:
    """Return that many agents as real ones are: some degraded, some offline, some restricted."""
    modules = {
        f"agent:{n:05d}": GivenModule(
            apt=Decimal(n * 7919 % 700 + 300) / 1000,
            status="healthy" if count <= SIZES[0] else STATUSES[n % len(STATUSES)],
            capabilities=("answer", "verify") if n % 3 else (),
            policy=GivenModulePolicy(forbidden_actions=("SEM_write",) if n % 2 else ()),
        )
        for n in range(count)
    }
    intents = tuple(
        GivenIntent(name, (pattern,))
        for name, pattern in (("store", "^remember"), ("math", "calculate|[0-9] *[-+*/]"))
    )
    file = AgentsFile(modules=modules, intents=intents)
    policy = agents_policy(file)
    return CompiledAgents(compile_policy(policy), make_selfrep(file, POLICY_FORM.id(policy)))


def time_call(call: Callable[[], object], seconds: float = 1.5) -> dict[str, float]:
    """Return microseconds a call: the least and the median of short rounds."""
    call()
    start = time.thread_time_ns()
    call()
    repeat = range(max(1, 200_000 // max(1, time.thread_time_ns() - start)))
    rounds, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.thread_time_ns()
        for _ in repeat:
            call()
        rounds.append((time.thread_time_ns() - start) / len(repeat) / 1000)
    return {"least_us": round(min(rounds), 2), "p50_us": round(median(rounds), 2)}


def growth() -> dict[str, dict[str, float]]:
    found = {}
    for count in SIZES:
        router = house(count)
        facts = job_facts("j", "s", QUERY, router.selfrep_id, MIND)
        found[str(count)] = time_call(lambda router=router, facts=facts: decide(router, facts))
    return found


def ways() -> dict[str, dict[str, float]]:
    """Time each way a job can take among ten."""
    router = house(10)
    first = job_facts("j", "s", QUERY, router.selfrep_id, MIND)
    names = [row.node_id for row in router.agents.rows]

    def job(**given: object) -> JobFacts:
        return job_facts("j", "s", QUERY, router.selfrep_id, MIND, **given)

    asked = {
        "by_pattern": first,
        "given_intent": job(intent="math"),
        "given_candidates": job(candidate_list=names),
        "vetoed": job(required_action="SEM_write"),
        "nobody_permitted": job(permitted=()),
    }
    return {
        name: time_call(lambda facts=facts: decide(router, facts)) for name, facts in asked.items()
    }


def beside() -> dict[str, dict[str, float]]:
    """What stands beside a choice: recording it, and making a snapshot ready once."""
    router, huge = house(10), house(10_000)
    facts = job_facts("j", "s", QUERY, router.selfrep_id, MIND)
    outcome, trace = decide(router, facts)

    def encode_all() -> None:
        FACTS_FORM.encode(facts)
        OUTCOME_FORM.encode(outcome)
        TRACE_FORM.encode(trace)

    return {
        "freezing": time_call(lambda: job_facts("j", "s", QUERY, router.selfrep_id, MIND)),
        "encoding": time_call(encode_all),
        "ready_10": time_call(lambda: CompiledAgents(router.policy, router.selfrep)),
        "ready_10000": time_call(lambda: CompiledAgents(huge.policy, huge.selfrep)),
        "naming_10000": time_call(lambda: selfrep_id(huge.selfrep)),
    }


def plot(found: dict[str, dict[str, float]], target: Path) -> None:
    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "pointsman"
    from matplotlib import pyplot as plt  # noqa: PLC0415 - after the backend was chosen

    figure, axis = plt.subplots(figsize=(6, 3.6))
    counts = [int(count) for count in found]
    for name in ("least_us", "p50_us"):
        axis.plot(counts, [each[name] for each in found.values()], marker="o", label=name[:-3])
    axis.set(xscale="log", yscale="log", xlabel="modules", ylabel="µs a choice")
    axis.axhline(PROMISED_HUGE_MS * 1000, linestyle=":", label="promised at 10,000")
    axis.legend()
    axis.grid(visible=True, alpha=0.3)
    figure.tight_layout()
    figure.savefig(target, metadata={"Date": None})


def main() -> None:
    grown = growth()
    ten, huge = grown["10"], grown["10000"]
    found = {
        "conditions": {
            "python": platform.python_version(),
            "machine": platform.machine(),
            "cores": os.cpu_count(),
        },
        "ten_candidates": ten,
        "ten_thousand_modules": huge,
        "growth": grown,
        "times_ten": {
            count: round(each["least_us"] / ten["least_us"], 1) for count, each in grown.items()
        },
        "ways": ways(),
        "beside": beside(),
        "is_as_promised": ten["p50_us"] <= PROMISED_TEN_US
        and huge["p50_us"] <= PROMISED_HUGE_MS * 1000,
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "agents.json").write_text(json.dumps(found, indent=2) + "\n")
    plot(grown, RESULTS / "agents.svg")
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
